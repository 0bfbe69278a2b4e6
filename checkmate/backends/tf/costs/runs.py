"""Run a step to measure what each of its nodes costs.

The plain schedule, or another one, is emitted and run warm under TensorFlow's profiler a few times. The
seconds of a node are the median over the runs of what its ops took. They are scaled so that together they are
the least time of the step without the profiler. The kernels, fusions and threads are those that the scheduled
step will really use, so a recomputation is priced at what it costs there.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from checkmate.backends.tf.allocator.learn import learned_workspace
from checkmate.backends.tf.allocator.learn_by_op import LearnedByOp, learned_by_op
from checkmate.backends.tf.costs.cached import KnownCosts, NodeCosts
from checkmate.backends.tf.costs.launches import NO_KERNEL_TIMES, launched_seconds, share_by_operations
from checkmate.backends.tf.devices import peak_bytes, reset_peak, settings_here
from checkmate.backends.tf.emit.copies import EmittedOutputs
from checkmate.backends.tf.emit.emit import step_from_schedule
from checkmate.backends.tf.profiler import StepTrace, trace_run
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.loops.inside import operations
from checkmate.backends.tf.xla_calls import node_seconds
from checkmate.errors import CancelledError, ProfileError, StepTooLargeError
from checkmate.ir.schedule import Schedule
from checkmate.machine.cost_store import ENOUGH_RUNS
from checkmate.machine.load import CpuTimes, LoadMeter, Reading, step_spread
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, stop_if

HINT_NOT_RUN = "use a smaller batch, or --costs analytic"

_WARM_RUNS = 2
_LEAST_RUNS, _MOST_RUNS = ENOUGH_RUNS, 9
_SECONDS = 8.0  # time after which no further run is started


def measure_nodes(
    folded: FoldedStep,
    batch: Sequence[tf.Tensor],
    known: KnownCosts,
    report: Report,
    cancelled: Cancelled,
    meter: LoadMeter,
    schedule: Schedule,
) -> tuple[NodeCosts, dict[str, Any]]:
    """Measure what the nodes cost when the step runs as ``schedule``.

    Returns the costs, and notes on how they were measured.
    """
    counts = _RunCounts.for_rest_of(known, folded.graph.n)
    report(Progress("measure", message="building the step that is measured"))
    step = _CompiledStep(folded, schedule, compile_step(folded, schedule), batch, meter)
    what = "a scheduled step" if schedule.recomputations else "the plain step"
    with _restored(folded.traced.variables), _explained(what):
        runs = _run_to_measure(step, counts, known, report, cancelled)
    caveat: dict[str, Any] = {}
    if not any(any(run) for run in runs.seconds):
        if step.device == "cpu":
            raise ProfileError("TensorFlow's profiler reported no ops", hint="use --costs analytic")
        runs.share_out()
        caveat["caveat"] = NO_KERNEL_TIMES
    costs = runs.costs(runs.learned())
    return costs, {**caveat, "runs": costs.runs + counts.earlier, **runs.notes()}


def kept_hint(runs: int) -> str:
    """Return the hint on what a profile cancelled after ``runs`` runs kept. Empty for no runs."""
    if not runs:
        return ""
    count = f"{runs} run{'' if runs == 1 else 's'}"
    return f"what {count} measured is in the cost cache; the next profile goes on from there"


@dataclass(frozen=True)
class _RunCounts:
    """Say how often a profile runs the step.

    ``warm``: runs before anything is measured. ``timed``: runs that are only timed. ``least``, ``most``: runs
    that are timed and traced. ``earlier``: runs of an interrupted profile, which count too.
    """

    warm: int
    timed: int
    least: int
    most: int
    earlier: int

    @classmethod
    def for_rest_of(cls, known: KnownCosts, count: int) -> _RunCounts:
        least = known.runs_wanted if known.keys else _LEAST_RUNS
        earlier = _LEAST_RUNS - least
        # If most is known, the runs that the rest needs are enough, and they warm it up too: warm up once.
        if 2 * len(known.nodes) >= count or known.runs_wanted < _LEAST_RUNS:
            return cls(1, 0, least, least, earlier)
        return cls(_WARM_RUNS, _LEAST_RUNS, least, _MOST_RUNS, earlier)


@dataclass(frozen=True, eq=False)
class _CompiledStep:
    """Hold the step as it is run to measure it."""

    folded: FoldedStep
    schedule: Schedule
    function: Any
    batch: Sequence[tf.Tensor]
    meter: LoadMeter

    @property
    def steps(self) -> list[int]:
        """Return the nodes in the order of the schedule."""
        found: list[int] = self.schedule.steps.tolist()
        return found

    @property
    def device(self) -> str:
        """Return the kind of device: ``cpu`` or ``gpu``."""
        return self.folded.graph.device_kind

    def time(self) -> float:
        """Run the step once without the profiler; return its seconds."""
        return _timed(self.function, self.batch, self.meter.clock)

    def trace(self) -> StepTrace:
        """Run the step once under the profiler."""
        return trace_run(lambda: self.function(*self.batch)[0].numpy(), device=self.device)

    def allocated_per_requested(self) -> float:
        """Return the bytes at the peak per byte that the schedule requests.

        They are read on the allocator's meter.
        """
        meter = settings_here(self.device).meter
        reset_peak(meter)
        self.function(*self.batch)[0].numpy()
        return float(peak_bytes(meter)) / simulate(self.folded.graph, self.schedule).peak_bytes


@dataclass(eq=False)
class _Runs:
    """Collect what the runs of a step show.

    ``ratio``: allocated bytes per requested byte. ``since``: when the first run began. ``walls``: seconds of
    the step without the profiler. ``seconds``: per traced run and node.
    """

    step: _CompiledStep
    ratio: float
    since: CpuTimes
    walls: list[float] = field(default_factory=list)
    traces: list[StepTrace] = field(default_factory=list)
    seconds: list[list[float]] = field(default_factory=list)
    reading: Reading = field(default_factory=Reading)

    def add(self) -> bool:
        """Time the step once and trace it once. Returns whether the profiler saw ops."""
        step, steps = self.step, self.step.steps
        self.walls.append(step.time())
        trace = step.trace()
        self.traces.append(trace)
        self.seconds.append(node_seconds(step.folded, trace, steps))
        seen = any(self.seconds[-1])
        if step.device == "gpu":
            wall = min(self.walls)
            self.seconds = [launched_seconds(step.folded, each, steps, wall) for each in self.traces]
        load = step.meter.load_since(self.since)
        self.reading = Reading(load, step.meter.cores, step_spread(self.walls))
        return seen

    def share_out(self) -> None:
        """Replace the seconds of ops by shares of the time of the whole step.

        This is for a profiler that saw no ops.
        """
        operations = node_operations(self.step.folded)
        self.seconds = [share_by_operations(min(self.walls), operations, self.step.steps)]

    @property
    def times(self) -> NDArray[np.int64]:
        """Return how often the step runs each node, as int64[n]."""
        return np.bincount(self.step.schedule.steps, minlength=self.step.folded.graph.n)

    def learned(self) -> LearnedByOp:
        """Return the bytes that the traces show beyond the rules."""
        folded, steps = self.step.folded, self.step.steps
        # A GPU's kernels are launched ahead of time, so the moment of a request does not tell which op asked.
        if self.step.device == "gpu":
            return learned_by_op(folded, self.traces, steps)
        return LearnedByOp(learned_workspace(folded, self.traces, steps), {})

    def costs(self, learned: LearnedByOp) -> NodeCosts:
        """Return what the nodes cost by the runs so far. ``learned``: what was learned in bytes."""
        seconds = np.median(np.array(self.seconds), axis=0)
        spread = np.std(np.array(self.seconds), axis=0) / np.maximum(seconds, 1e-9)
        # The profiler slows small ops down, and the time between ops is in no op. So the time of the whole
        # step without the profiler, run in turns with it, is shared out in proportion. Other work of the
        # machine only adds to a step's time, so the quickest run is believed.
        seconds *= min(self.walls) / max(float((seconds * self.times).sum()), 1e-12)
        return NodeCosts(
            seconds=tuple(seconds.tolist()),
            spread=tuple(spread.tolist()),
            workspace=tuple(learned.workspace.get(node, 0) for node in range(len(seconds))),
            runs=len(self.seconds),
            slack=self.ratio,
            reading=self.reading,
            reserves=tuple(learned.reserves.get(node, 0) for node in range(len(seconds))),
            pieces=learned.pieces,
        )

    def notes(self) -> dict[str, Any]:
        """Return the notes on how long the step took."""
        return {
            "step_seconds": float(statistics.median(sum(run) for run in self.seconds)),
            "wall_seconds": float(statistics.median(self.walls)),
            "least_wall_seconds": min(self.walls),
            "scale": min(self.walls) / float((self.times * np.median(np.array(self.seconds), axis=0)).sum()),
        }


def _run_to_measure(
    step: _CompiledStep, counts: _RunCounts, known: KnownCosts, report: Report, cancelled: Cancelled
) -> _Runs:
    """Warm the step up and run it as often as ``counts`` say.

    The costs are kept after each run.

    Raises:
        CancelledError: the user cancelled, or interrupted the process; its hint says what is kept.
    """
    kept = 0
    try:
        for number in range(counts.warm):
            stop_if(cancelled)
            report(Progress("measure", number, counts.warm + counts.least, "warming up"))
            step.time()  # to its end: what a GPU's libraries try out at first must not reach the meter
        runs = _Runs(step, step.allocated_per_requested(), step.meter.read())
        runs.walls += [step.time() for _ in range(counts.timed)]
        started = time.perf_counter()
        while (count := len(runs.traces)) < counts.least or (
            count < counts.most and time.perf_counter() - started < _SECONDS
        ):
            stop_if(cancelled)
            report(Progress("measure", counts.warm + count, counts.warm + counts.most, f"run {count + 1}"))
            seen = runs.add()
            # Keep the costs at once: whatever ends this process, the next profile goes on from here.
            costs = runs.costs(LearnedByOp({}, {}))
            if seen and known.keep(known.merged(costs), step.folded.graph, ended=False):
                kept = costs.runs
    except (CancelledError, KeyboardInterrupt) as error:  # the latter: pressed where nothing looked in time
        if kept:
            raise CancelledError("cancelled", hint=kept_hint(kept)) from error
        raise
    return runs


@contextmanager
def _restored(variables: Sequence[Any]) -> Iterator[None]:
    """Give ``variables`` their old values back at the end."""
    saved = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, saved, strict=True):
            variable.assign(value)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn TensorFlow's errors into this program's while ``what`` is run.

    Raises:
        StepTooLargeError: it does not fit the device's memory.
        ProfileError: it could not be run.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise StepTooLargeError(
            f"{what} does not fit the device's memory: {_first_line(error)}", hint=HINT_NOT_RUN
        ) from error
    except tf.errors.OpError as error:
        raise ProfileError(
            f"the step could not be run to measure it: {_first_line(error)}", hint=HINT_NOT_RUN
        ) from error


def compile_step(folded: FoldedStep, schedule: Schedule) -> Any:
    """Return the scheduled step as a concrete function."""
    step = step_from_schedule(folded, schedule)

    def run(*tensors: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        outputs: EmittedOutputs = step(*tensors)
        return outputs.loss, outputs.predictions

    loaded = folded.traced.loaded
    return tf.function(run, autograph=False).get_concrete_function(*loaded.input_specs, *loaded.label_specs)


def _timed(function: Any, batch: Sequence[tf.Tensor], clock: Callable[[], float]) -> float:
    """Run ``function`` once; return its seconds."""
    begun = clock()
    function(*batch)[0].numpy()  # waits for the device
    return clock() - begun


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def node_operations(folded: FoldedStep) -> list[float]:
    """Return the number of operations of each node."""
    structure = folded.structure
    return [sum(operations(structure.ops[op]) for op in members) for members in folded.nodes]
