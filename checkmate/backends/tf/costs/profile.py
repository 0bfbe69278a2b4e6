"""Give the nodes of the folded step their costs, measured or estimated.

To measure, a schedule is emitted and run warm under TensorFlow's profiler a few times. The seconds of a node
are the median over the runs, scaled so that together they are the least time of the step without the
profiler. The kernels, fusions and threads are those that the scheduled step will really use."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from checkmate.backends.tf.allocator.learn import (
    LearnedByOp,
    learned_by_op,
    learned_workspace,
    sizes_of_reserves,
    with_workspace,
)
from checkmate.backends.tf.costs.known import KnownCosts, NodeCosts
from checkmate.backends.tf.devices import peak_bytes, reset_peak, settings_here
from checkmate.backends.tf.emit.copies import EmittedOutputs
from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.emit.side_by_side import in_turn
from checkmate.backends.tf.memory_check import explain_exhausted_memory, first_line_of, require_room
from checkmate.backends.tf.node_times import (
    NO_KERNEL_TIMES,
    launched_seconds,
    node_seconds,
    share_by_operations,
)
from checkmate.backends.tf.profiler import StepTrace, trace_run
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.loops import operations
from checkmate.errors import CancelledError, ProfileError, StepTooLargeError
from checkmate.ir import CostOrigin, CostUnit, Graph, Schedule
from checkmate.machine.cost_store import ENOUGH_RUNS
from checkmate.machine.load import CpuTimes, LoadMeter, Reading, step_spread
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, stop_if

ESTIMATED = "costs are estimated, not measured"
_HINT_NOT_RUN = 'use a smaller batch, or costs="analytic"'
_WARM_RUNS = 2
_LEAST_RUNS, _MOST_RUNS = ENOUGH_RUNS, 9
_SECONDS = 8.0  # time after which no further run is started


def measured_costs(
    folded: FoldedStep,
    known: KnownCosts,
    report: Report,
    cancelled: Cancelled,
    meter: LoadMeter,
    *,
    schedule: Schedule | None = None,
) -> Graph:
    """Return the graph with measured costs in seconds. Nothing is run if ``known`` has every op, and fewer
    runs are made if it has most. The model's state is restored. ``schedule``: run this one, because the plain
    step does not fit. ``metadata["profile"]`` says how the costs were measured. Raises: StepTooLargeError,
    ProfileError: the step could not be run. CancelledError: its hint says which costs are kept."""
    if known.is_all:
        report(Progress("measure", 1, 1, f"all {folded.graph.n} ops were measured before"))
        costs = known.costs()
        notes: dict[str, Any] = {"runs": costs.runs, "step_seconds": sum(costs.seconds)}
    else:
        run = schedule or Schedule.plain(folded.graph)
        what = "the plain step" if schedule is None else "a scheduled step"
        require_room(folded.graph, run, what=what, hint=_HINT_NOT_RUN)
        measured, notes = measure_nodes(folded, known, report, cancelled, meter, run)
        if schedule is not None:
            notes["measured_on"] = what
        costs = known.merged(measured)
        if "caveat" not in notes:
            known.keep(costs, folded.graph, ended=True)
        # Cached costs may be from a slower or faster day: compare their sum with the plain step of today.
        notes["plain_per_predicted"] = notes["least_wall_seconds"] / max(sum(costs.seconds), 1e-12)
    notes |= {
        "allocated_per_requested": costs.slack,
        "noisy_ops": costs.noisy,
        "reading": costs.reading_facts(),
        # Per op: the deviation of the runs over their median.
        "op_spread": [round(spread, 3) for spread in costs.spread],
    }
    if known.store is not None:
        notes["cache"] = known.facts()
    workspace = {node: size for node, size in enumerate(costs.workspace) if size}
    reserves = sizes_of_reserves(folded, dict(enumerate(costs.reserves)))
    pieces = {node: held for node, held in costs.pieces.items() if node in workspace}
    return graph_with_costs(folded.graph, costs.seconds, notes, workspace, reserves, pieces)


def graph_with_costs(
    graph: Graph,
    seconds: Sequence[float],
    notes: dict[str, Any],
    workspace: Mapping[int, int],
    reserves: Mapping[int, int] = {},
    pieces: Mapping[int, Sequence[int]] = {},
) -> Graph:
    metadata = {**graph.metadata, "profile": notes}
    if "caveat" in notes:
        metadata["notes"] = [*graph.origin.notes, notes["caveat"]]
    costed = graph.with_costs(seconds, CostUnit.SECONDS, CostOrigin.MEASURED)
    return with_workspace(dataclasses.replace(costed, metadata=metadata), workspace, reserves, pieces)


def analytic_costs(folded: FoldedStep) -> Graph:
    return folded.graph.with_costs(node_operations(folded), CostUnit.FLOP, CostOrigin.ANALYTIC)


def estimated_graph(folded: FoldedStep, why: StepTooLargeError) -> Graph:
    graph = analytic_costs(folded)
    notes = [*graph.origin.notes, f"{ESTIMATED}: {why}"]
    return dataclasses.replace(graph, metadata={**graph.metadata, "notes": notes})


def node_operations(folded: FoldedStep) -> list[float]:
    structure = folded.structure
    return [sum(operations(structure.ops[op]) for op in members) for members in folded.nodes]


def measure_nodes(
    folded: FoldedStep,
    known: KnownCosts,
    report: Report,
    cancelled: Cancelled,
    meter: LoadMeter,
    schedule: Schedule,
) -> tuple[NodeCosts, dict[str, Any]]:
    counts = _RunCounts.for_rest_of(known, folded.graph.n)
    report(Progress("measure", message="building the step that is measured"))
    runs = _Runs(folded, schedule, compile_step(folded, schedule), folded.traced.loaded.make_batch(), meter)
    what = "a scheduled step" if schedule.recomputations else "the plain step"
    with restored(folded.traced.variables), _explained(what):
        _run_to_measure(runs, counts, known, report, cancelled)
    caveat: dict[str, Any] = {}
    if not any(any(run) for run in runs.seconds):
        if runs.device == "cpu":
            raise ProfileError("TensorFlow's profiler reported no ops", hint='use costs="analytic"')
        shares = share_by_operations(min(runs.walls), node_operations(folded), runs.steps)
        runs.seconds, caveat = [shares], {"caveat": NO_KERNEL_TIMES}
    costs = runs.costs(runs.learned())
    return costs, {**caveat, "runs": costs.runs + counts.earlier, **runs.notes()}


def kept_hint(runs: int) -> str:
    if not runs:
        return ""
    count = f"{runs} run{'' if runs == 1 else 's'}"
    return f"what {count} measured is in the cost cache; the next profile goes on from there"


@dataclass(frozen=True)
class _RunCounts:
    """Runs of the step in a profile: ``warm`` untimed ones, ``timed`` ones without the profiler, ``least`` to
    ``most`` traced ones. ``earlier``: traced ones of an interrupted profile."""

    warm: int
    timed: int
    least: int
    most: int
    earlier: int

    @classmethod
    def for_rest_of(cls, known: KnownCosts, count: int) -> _RunCounts:
        least = known.runs_wanted if known.keys else _LEAST_RUNS
        earlier = _LEAST_RUNS - least
        # If most costs are known, the least number of runs is enough, with a single run to warm up.
        if 2 * len(known.nodes) >= count or known.runs_wanted < _LEAST_RUNS:
            return cls(1, 0, least, least, earlier)
        return cls(_WARM_RUNS, _LEAST_RUNS, least, _MOST_RUNS, earlier)


@dataclass(eq=False)
class _Runs:
    """Runs the step and measures it. ``ratio``: bytes at the meter's peak per requested byte. ``walls``:
    seconds of each run without the profiler. ``seconds``: per traced run and node."""

    folded: FoldedStep
    schedule: Schedule
    function: Any
    batch: Sequence[tf.Tensor]
    meter: LoadMeter
    ratio: float = 0.0
    since: CpuTimes | None = None
    walls: list[float] = field(default_factory=list)
    traces: list[StepTrace] = field(default_factory=list)
    seconds: list[list[float]] = field(default_factory=list)
    reading: Reading = field(default_factory=Reading)

    @property
    def steps(self) -> list[int]:
        found: list[int] = self.schedule.steps.tolist()
        return found

    @property
    def device(self) -> str:
        return self.folded.graph.device_kind

    def run(self) -> None:
        self.function(*self.batch)[0].numpy()  # waits for the device

    def time(self) -> None:
        begun = self.meter.clock()
        self.run()
        self.walls.append(self.meter.clock() - begun)

    def begin(self) -> None:
        meter = settings_here(self.device).meter
        reset_peak(meter)
        self.run()
        self.ratio = float(peak_bytes(meter)) / simulate(self.folded.graph, self.schedule).peak_bytes
        self.since = self.meter.read()

    def add(self) -> bool:
        """Trace one more run; return whether the profiler saw ops."""
        self.time()
        self.traces.append(trace_run(self.run, device=self.device))
        self.seconds.append(node_seconds(self.folded, self.traces[-1], self.steps))
        seen = any(self.seconds[-1])
        if self.device == "gpu":
            wall = min(self.walls)
            self.seconds = [launched_seconds(self.folded, each, self.steps, wall) for each in self.traces]
        assert self.since is not None
        self.reading = Reading(self.meter.load_since(self.since), self.meter.cores, step_spread(self.walls))
        return seen

    def learned(self) -> LearnedByOp:
        if self.device == "gpu":
            return learned_by_op(self.folded, self.traces, self.steps)
        return LearnedByOp(learned_workspace(self.folded, self.traces, self.steps), {})

    def _medians(self) -> tuple[NDArray[np.float64], float]:
        """Return each node's median seconds, and the schedule's total by these medians."""
        seconds = np.median(np.array(self.seconds), axis=0)
        times = np.bincount(self.schedule.steps, minlength=self.folded.graph.n)
        return seconds, float((seconds * times).sum())

    def costs(self, learned: LearnedByOp) -> NodeCosts:
        seconds, total = self._medians()
        spread = np.std(np.array(self.seconds), axis=0) / np.maximum(seconds, 1e-9)
        # The profiler slows small ops down, and does not count the time between ops. So the ops' times are
        # scaled to the step's time without the profiler, taken in turns with the traced runs. The quickest
        # run counts, because other programs only add to a step's time.
        seconds *= min(self.walls) / max(total, 1e-12)
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
        return {
            "step_seconds": float(statistics.median(sum(run) for run in self.seconds)),
            "wall_seconds": float(statistics.median(self.walls)),
            "least_wall_seconds": min(self.walls),
            "scale": min(self.walls) / self._medians()[1],
        }


def _run_to_measure(
    runs: _Runs, counts: _RunCounts, known: KnownCosts, report: Report, cancelled: Cancelled
) -> None:
    kept = 0
    try:
        for number in range(counts.warm):
            stop_if(cancelled)
            report(Progress("measure", number, counts.warm + counts.least, "warming up"))
            runs.run()  # before the meter is reset: a GPU's libraries try out kernels in their first run
        runs.begin()
        for _ in range(counts.timed):
            runs.time()
        started = time.perf_counter()
        while (count := len(runs.traces)) < counts.least or (
            count < counts.most and time.perf_counter() - started < _SECONDS
        ):
            stop_if(cancelled)
            report(Progress("measure", counts.warm + count, counts.warm + counts.most, f"run {count + 1}"))
            seen = runs.add()
            # Keep the costs at once: whatever ends this process, the next profile goes on from here.
            costs = runs.costs(LearnedByOp({}, {}))
            if seen and known.keep(known.merged(costs), runs.folded.graph, ended=False):
                kept = costs.runs
    except (CancelledError, KeyboardInterrupt) as error:  # Ctrl-C, if no stop_if came in time
        if kept:
            raise CancelledError("cancelled", hint=kept_hint(kept)) from error
        raise


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        with explain_exhausted_memory(what, _HINT_NOT_RUN):
            yield
    except tf.errors.OpError as error:
        raise ProfileError(
            f"the step could not be run to measure it: {first_line_of(error)}", hint=_HINT_NOT_RUN
        ) from error


def compile_step(folded: FoldedStep, schedule: Schedule) -> Any:
    step = ordered_step(in_turn(folded), schedule)

    def run(*tensors: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        outputs: EmittedOutputs = step(*tensors)
        return outputs.loss, outputs.predictions

    return tf.function(run, autograph=False).get_concrete_function(*folded.traced.loaded.specs)
