"""Run a step on a real batch in the user's process, and measure it; the model is left as it was.

The peak is read off TensorFlow's profile, so the user's own memory statistics are not reset.
"""

from __future__ import annotations

import dataclasses
import gc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.allocator.learn import learned_by_op, learned_workspace, sizes_of_reserves
from checkmate.backends.tf.devices import emitted, has_meter, peak_bytes, reset_peak, warms_up
from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.memory_check import first_line_of
from checkmate.backends.tf.node_times import node_seconds
from checkmate.backends.tf.profiler import StepTrace, least_seconds, trace_run
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import CycleError, ProfileError
from checkmate.ir import Schedule

_RUNS = 3  # the first is cold: its peak counts, its seconds do not
# TensorFlow chooses another order of a plain step's ops in each run, so the peak varies: 20 to 31 MiB in two
# runs of one step, 630 to 745 MiB in 24 runs of another. If the first few runs differ, more are made.
_PLAIN_RUNS, _MORE_PLAIN_RUNS, _ALIKE = 4, 8, 0.02
# With fewer runs, the costs of one step differ twice as much on a busy machine. On a quiet one they settle
# sooner: a further run lowers the sum of the least seconds by no more than this share.
_RUNS_FOR_COSTS, _LEAST_FOR_COSTS, _SETTLED = 6, 4, 0.01


class OutOfMemoryError(ProfileError):
    pass


class PeakSource(Enum):
    """How a peak is known; ``EXHAUSTED``: it is not, because the device ran out of memory first."""

    HERE = "measured"
    FRESH_PROCESS = "measured in a fresh process"
    PREDICTED = "predicted"
    EXHAUSTED = "out of memory"


@dataclass(frozen=True, eq=False)
class StepMeasurement:
    """What was measured of a step.

    ``peak_bytes``: the most that the device's allocator held in any run; 0 if it shows nothing (small
    tensors). ``least_bytes``: the lowest peak of a warm run. ``held_bytes``: bytes in use before the step.
    ``constant_bytes``: what the step's function keeps between runs. ``node_seconds``: per op of the graph,
    its least time in a warm run; empty for an unscheduled step. ``workspace``: op → scratch bytes that the
    graph does not know of. ``reserves``: value → bytes, if no shape tells its size. ``pieces``: op → the
    single requests of its scratch. ``seconds``: of a run, by ``least_seconds``; ``op_seconds``: the sum over
    all ops, as profiled; 0 if not known.
    """

    peak_bytes: int
    held_bytes: int
    node_seconds: tuple[float, ...] = ()
    source: PeakSource = PeakSource.HERE
    workspace: Mapping[int, int] = field(default_factory=dict)
    reserves: Mapping[int, int] = field(default_factory=dict)
    pieces: Mapping[int, Sequence[int]] = field(default_factory=dict)
    least_bytes: int = 0
    constant_bytes: int = 0
    seconds: float = 0.0
    op_seconds: float = 0.0

    def with_costs_of(self, other: StepMeasurement) -> StepMeasurement:
        """Return this measurement with the times and scratch of single ops from ``other``."""
        known = ("node_seconds", "workspace", "reserves", "pieces")
        return dataclasses.replace(self, **{name: getattr(other, name) for name in known})


class ReadyStep:
    """A step with a schedule; its function is traced when it is first needed."""

    def __init__(self, step: LiveStep, schedule: Schedule) -> None:
        self.step, self.schedule = step, schedule
        self._function: Callable[..., Any] | None = None

    def compiled(self) -> Callable[..., Any]:
        """Return the step as a concrete function of its arguments that returns the loss and the outputs."""
        if self._function is None:
            emit = ordered_step(self.step.folded, self.schedule)

            def body(*given: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
                outputs = emit(*given)
                return outputs.loss, outputs.predictions

            specs = self.step.folded.traced.loaded.specs
            function = tf.function(body, autograph=False).get_concrete_function(*specs)
            self._function = emitted(function, self.step.graph.device_kind)
        return self._function

    def run(self, tensors: Sequence[tf.Tensor]) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
        """Return the loss and the step's other outputs, flat."""
        loss, flat = self.compiled()(*self.step.arguments(tensors))
        return loss, flat

    @property
    def begins_anew(self) -> bool:
        """Whether a run leaves no state except in variables, so that the measured function can train after
        the variables are restored. Otherwise, for example with a random op whose seed is not in a variable, a
        new function is needed."""
        return not any(map(_remembers, self.step.folded.structure.ops))


def _remembers(op: tf.Operation) -> bool:
    if not private.is_stateful(op) or op.type == "Placeholder":
        return False
    calls = any(value.WhichOneof("value") == "func" for value in op.node_def.attr.values())
    return calls or not any(tensor.dtype == tf.resource for tensor in op.inputs)


def measure_scheduled(
    ready: ReadyStep,
    tensors: Sequence[tf.Tensor],
    *,
    costs: bool = True,
    within: int | None = None,
) -> StepMeasurement:
    """Run the scheduled step on a batch a few times, and restore every variable.

    ``costs``: also measure seconds and scratch of each op. Otherwise, stop at the first peak over ``within``.

    Raises:
        OutOfMemoryError. CycleError: TensorFlow rejects the emitted order. ProfileError: it could not be run.
    """
    step, steps = ready.step, ready.schedule.steps.tolist()
    if costs and step.runs_side_by_side(ready.schedule):
        in_turn = measure_scheduled(ReadyStep(step.in_turn, ready.schedule), tensors)
        return measure_scheduled(ready, tensors, costs=False, within=within).with_costs_of(in_turn)
    times = _Costs(step.folded, steps)
    traces, seconds = _traces(step, ready.compiled, tensors, times if costs else _Peaks(within))
    found = _measured(traces, seconds)
    if not costs:
        return found
    found = dataclasses.replace(found, node_seconds=times.least)
    # A GPU's kernels are launched ahead of time, so the moment of a request does not tell which op asked.
    if step.graph.device_kind == "cpu":
        return dataclasses.replace(found, workspace=learned_workspace(step.folded, traces[1:], steps))
    learned = learned_by_op(step.folded, traces[1:], steps)
    reserves = sizes_of_reserves(step.folded, learned.reserves)
    return dataclasses.replace(
        found,
        workspace=learned.workspace,
        reserves=reserves,
        pieces=learned.pieces,
    )


class _Peaks:
    """Ends after a few runs, or after the first one whose peak is over ``within`` bytes."""

    def __init__(self, within: int | None = None) -> None:
        self._within = math.inf if within is None else within

    def enough(self, traces: Sequence[StepTrace]) -> bool:
        return len(traces) >= _RUNS or any(_peak(trace) > self._within for trace in traces)


class _PlainPeaks:
    """Ends after a few plain runs if their peaks are alike, else after some more."""

    def enough(self, traces: Sequence[StepTrace]) -> bool:
        peaks = [_peak(trace) for trace in traces]
        if len(peaks) < _PLAIN_RUNS:
            return False
        return len(peaks) >= _MORE_PLAIN_RUNS or max(peaks) <= (1 + _ALIKE) * min(peaks[1:])


class _Costs:
    """The seconds of ops, from several runs. ``least``: each op's shortest time, because other programs only
    add to it; the first run is cold and does not count."""

    def __init__(self, folded: FoldedStep, steps: Sequence[int]) -> None:
        self._folded, self._steps = folded, steps
        self.least: tuple[float, ...] = ()

    def enough(self, traces: Sequence[StepTrace]) -> bool:
        if len(traces) == 1:
            return False
        seconds, before = node_seconds(self._folded, traces[-1], self._steps), self.least
        self.least = tuple(min(each) for each in zip(before or seconds, seconds, strict=True))
        settled = sum(self.least) >= (1 - _SETTLED) * sum(before)
        return len(traces) >= _RUNS_FOR_COSTS or (settled and len(traces) >= _LEAST_FOR_COSTS)


def measure_plain(step: LiveStep, tensors: Sequence[tf.Tensor]) -> StepMeasurement:
    """Run the step as TensorFlow does by itself; put every variable back. A ProfileError: it cannot run."""
    return _measured(*_traces(step, step.plain, tensors, _PlainPeaks()))


def _traces(
    step: LiveStep,
    compiled: Callable[[], Callable[..., Any]],
    tensors: Sequence[tf.Tensor],
    known: _Peaks | _PlainPeaks | _Costs,
) -> tuple[list[StepTrace], float]:
    """Run the function that ``compiled`` makes until ``known`` has enough traces; also return the seconds of
    a run.
    """
    device = step.graph.device_kind
    arguments = step.arguments(tensors)
    # Functions compiled earlier keep constants in the device's memory, which would count; collect them first.
    gc.collect()
    found: list[StepTrace] = []

    def run() -> None:
        _run(function, arguments)

    try:
        function = compiled()
        with restored(step.folded.traced.variables):
            if warms_up(device):
                run()
            while not found or not known.enough(found):
                found.append(trace_run(run, device=device))
            (seconds,) = least_seconds(run, device=device)
    except tf.errors.ResourceExhaustedError as error:
        raise OutOfMemoryError(
            "the training step does not fit the device's memory", hint="use a smaller batch or budget"
        ) from error
    except tf.errors.OpError as error:
        first = first_line_of(error)
        if "cycle" in str(error).lower():
            raise CycleError(f"TensorFlow rejected the emitted order: {first}") from error
        profiled = isinstance(error, tf.errors.AlreadyExistsError)
        hint = "stop other profilers first" if profiled else "use a smaller batch"
        raise ProfileError(f"the training step could not be measured: {first}", hint=hint) from error
    if device == "gpu" and not any(trace.memory for trace in found):
        raise ProfileError(
            "the GPU's allocator showed no requests, so the step's peak is not known",
            hint="start Python without TF_GPU_ALLOCATOR, and without profilers of other programs",
        )
    return found, seconds


def seconds_of_both(ready: ReadyStep, tensors: Sequence[tf.Tensor]) -> tuple[float, float] | None:
    """Return the seconds of a plain run and of a scheduled one, which run in turn; None: they could not."""
    step = ready.step
    arguments, device = step.arguments(tensors), step.graph.device_kind
    try:
        functions = (step.plain(), ready.compiled())
        with restored(step.folded.traced.variables):
            for function in functions:  # the first run of each is cold
                _run(function, arguments)
            plain, scheduled = least_seconds(
                *(partial(_run, each, arguments) for each in functions), device=device
            )
    except tf.errors.OpError:
        return None
    return plain, scheduled


def _run(function: Callable[..., Any], arguments: Sequence[tf.Tensor]) -> None:
    tf.nest.map_structure(_wait, function(*arguments))


def _wait(tensor: tf.Tensor) -> None:
    if tensor.shape.rank == 0:
        tensor.numpy()


def _measured(traces: Sequence[StepTrace], seconds: float) -> StepMeasurement:
    peaks = [_peak(trace) for trace in traces]
    before = [_before(trace) for trace in traces if trace.memory]
    held = before[0] if before else 0
    return StepMeasurement(
        max(peaks, default=0),
        held,
        least_bytes=min(peaks[1:] or peaks, default=0),
        constant_bytes=max(0, before[-1] - held) if before else 0,
        seconds=seconds,
        op_seconds=min((trace.op_seconds for trace in traces[1:]), default=0.0),
    )


def _before(trace: StepTrace) -> int:
    first = trace.memory[0]
    return max(0, first.in_use - first.allocated_bytes)


def _peak(trace: StepTrace) -> int:
    return max((event.in_use for event in trace.memory), default=0)


class Mark:
    """An allocator's peak counter before steps are tried. If a trial raises it over the budget, it is reset,
    or it would hide that a later training step is over the budget too."""

    def __init__(self, meter: str) -> None:
        self._meter = meter
        self._before = peak_bytes(meter) if has_meter(meter) else None

    def start_anew_over(self, allowed: int) -> None:
        if self._before is not None and peak_bytes(self._meter) > max(self._before, allowed):
            reset_peak(self._meter)
