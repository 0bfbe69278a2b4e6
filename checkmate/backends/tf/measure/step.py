"""Measure a training step in this process. It has to be a fresh one: what ran before moves the peak."""

from __future__ import annotations

import bisect
import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.outcomes import Outcome, compared
from checkmate.backends.tf import private
from checkmate.backends.tf.devices import (
    choose_device,
    make_exact,
    peak_bytes,
    reset_peak,
    settings_here,
    warms_up,
)
from checkmate.backends.tf.emit.other_trace import moved_steps
from checkmate.backends.tf.emit.reload_probe import settled
from checkmate.backends.tf.emit.set_aside import SmallChunks, fetch_bytes
from checkmate.backends.tf.emit.side_by_side import in_turn, runs_side_by_side
from checkmate.backends.tf.measure.concrete import (
    compiled_memory,
    compiled_step,
    run_deterministically,
    run_step,
    schedule_of,
)
from checkmate.backends.tf.memory_check import explain_exhausted_memory, require_room
from checkmate.backends.tf.node_times import askers_by_name, op_starts
from checkmate.backends.tf.profiler import MemoryEvent, StepTrace, trace_run
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.backends.tf.trace.trace import Unplanned
from checkmate.backends.tf.xla.tied import XlaEmission, emission_of
from checkmate.errors import StepTooLargeError
from checkmate.machine.load import LoadMeter
from checkmate.progress import Progress, Report, never, silent
from checkmate.request import ModelRequest, Target

_RUNS = 3  # timed runs, unless the task says otherwise
_SEED = 0  # for steps that draw random numbers without a seed of their own
_STEPS = 2  # steps to compare for a user's own step: the second one starts from the first one's state
# Eight units in the last place, since an error of one unit grows in the backward pass; at most a percent.
_ROUNDING = {tf.float64: 2.0**-49, tf.float32: 2.0**-20, tf.float16: 2.0**-7, tf.bfloat16: 0.01}
# A comparison holds copies of variables or gradients: those of three runs, and the first state.
_OUTCOMES_HELD = 7


def measure(task: Mapping[str, Any], report: Report) -> Iterator[dict[str, Any]]:
    """Measure one step; yield the fields of a ``FreshMeasurement``.

    ``task``: as ``measure_fresh`` makes it, and ``runs``, the number of timed runs. On a GPU one unmetered
    run comes first. If the peak is at most ``within`` bytes and the plain step fits beside the step, the
    fields are yielded again with ``compared``: the first ones still count if the comparison kills this
    process.

    Raises:
        CycleError: TensorFlow found a cycle in the emitted order.
        StepTooLargeError: the step has no room, or ran out of it.
    """
    within = task.get("within")
    if within is not None:
        tf.random.set_seed(_SEED)
    with explain_exhausted_memory("the step"):
        step = _made(task)
        saved = None if within is None else [each.numpy() for each in step.folded.traced.variables]
        found = _measured(step, task)
    yield found
    if saved is None or found["peak_bytes"] > within:
        return
    report(Progress("verify", message="comparing it with the plain step, default kernels"))
    with suppress(StepTooLargeError), explain_exhausted_memory("the plain step"):
        (compared_,) = _comparison(step.folded, step.batch, saved, [task["steps"]], None)()
        yield {**found, "compared": compared_}


@dataclass(frozen=True, eq=False)
class _ReadyStep:
    """``kind``: "cpu" or "gpu". ``history``: as in ``FreshMeasurement``."""

    folded: FoldedStep
    function: Any
    batch: Sequence[tf.Tensor]
    small_chunks: SmallChunks | None  # held: its buffers stay as long as it does
    kind: str
    history: Sequence[tuple[int, int]] = ()

    def run(self) -> float:
        return float(run_step(self.function, self.batch)[0].numpy())


def _made(task: Mapping[str, Any]) -> _ReadyStep:
    kind = choose_device(ModelRequest.from_json(task["request"]), here=True).kind
    fetch_bytes(int(task.get("region", 0)))
    made: list[_ReadyStep] = []
    if task.get("history"):
        trace = trace_run(lambda: made.append(_ready_step(task, kind)), device=kind)
        step = replace(made.pop(), history=requests_of(trace.memory))
    else:
        step = _ready_step(task, kind)
    if step.small_chunks is not None:
        step.small_chunks.make()
    gc.collect()
    return step


def _ready_step(task: Mapping[str, Any], kind: str) -> _ReadyStep:
    steps, xla = task.get("steps"), emission_of(task)
    folded = trace_request(ModelRequest.from_json(task["request"]), here=True, report=silent, cancelled=never)
    folded = in_turn(folded) if task.get("in_turn") else folded
    what = "the plain step" if steps is None else "the scheduled step"
    require_room(folded.graph, schedule_of(folded, steps), what=what)
    function = compiled_step(folded, steps, xla=xla, as_written=bool(task.get("as_written")))
    batch = folded.traced.loaded.make_batch()
    small_chunks = None if steps is None or xla is not None else SmallChunks(folded.structure)
    return _ReadyStep(folded, function, batch, small_chunks, kind)


def _measured(step: _ReadyStep, task: Mapping[str, Any]) -> dict[str, Any]:
    kind, steps, xla = step.kind, task.get("steps"), emission_of(task)
    found = _metered_runs(step, int(task.get("runs", _RUNS)), settle=steps is not None)
    trace = trace_run(step.run, device=kind)
    graph, own = step.folded.graph, step.folded.traced.unplanned
    if own is not None and own.loss is None:
        found["loss"] = None
    return {
        **found,
        "requested_peak_bytes": graph.fixed_bytes + trace.requested_peak,
        "fingerprint": graph.fingerprint,
        "fixed_bytes": graph.fixed_bytes,
        "device": graph.device.name if graph.device else "",
        "settings": {**settings_here(kind).facts(), **({} if xla is None else {"target": Target.XLA.value})},
        "history": step.history,
        "curve": [] if steps is None or xla else _curve(step, trace, steps),
    }


def _metered_runs(step: _ReadyStep, runs: int, *, settle: bool) -> dict[str, Any]:
    meter = f"{step.kind.upper()}:0"
    peaks: list[int] = []
    seconds: list[float] = []
    losses = [step.run()] if warms_up(step.kind) else []
    load_meter = LoadMeter()
    before = load_meter.read()

    def run() -> None:
        reset_peak(meter)
        begun = time.perf_counter()
        outputs = run_step(step.function, step.batch)
        losses.append(float(outputs[0].numpy()))  # waits for the device
        seconds.append(time.perf_counter() - begun)
        # Free the outputs before the next step: held ones change where the allocator puts things.
        del outputs
        peaks.append(peak_bytes(meter))

    for _ in range(1 + runs):
        run()
    load, timed, started = load_meter.load_since(before), seconds[1:] or seconds[:], time.perf_counter()
    while settle and not settled(peaks, time.perf_counter() - started):
        run()
    return {
        "first_peak_bytes": peaks[0],
        "peak_bytes": max(peaks),
        "peaks": peaks,
        "seconds": statistics.median(timed),
        "loss": losses[0],
        "meter": meter,
        "load": load,
        "cores": load_meter.cores,
    }


def requests_of(events: Sequence[MemoryEvent]) -> list[tuple[int, int]]:
    """(handle, bytes) pairs; a release has 0 bytes. Releases of what came before the events are left out."""
    found: list[tuple[int, int]] = []
    open_: dict[int, int] = {}
    for number, event in enumerate(events):
        if event.requested_bytes > 0:
            open_[event.address] = number
            found.append((number, event.requested_bytes))
        elif event.address in open_:
            found.append((open_.pop(event.address), 0))
    return found


def compare(task: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the scheduled step with the plain one; return what ``outcomes.compared`` does.

    Both start from the same state and batch; the plain step runs twice, for its own spread. ``task``:
    ``request``, ``steps``, ``xla``, ``exact`` (without TensorFlow's graph rewriting, so that both run the
    same kernels), ``nodes`` and ``op_types`` (of the trace at another size, where the steps are not of this
    one). There is a ``note`` where an op has no deterministic kernel on the GPU, so that equal bits cannot be
    asked for. ``sum_rounding``: how far all gradients together may be apart by the order of sums.
    """
    return compare_each(task, [task["steps"]])[0]


def compare_each(task: Mapping[str, Any], schedules: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    request = ModelRequest.from_json(task["request"])
    device = choose_device(request, here=True)
    tf.random.set_seed(_SEED)
    if task.get("exact"):
        make_exact(device.kind, _SEED)
    with explain_exhausted_memory("the plain step"):
        folded = trace_request(request, here=True, report=silent, cancelled=never)
        batch = folded.traced.loaded.make_batch()
        if task.get("nodes") is not None:
            schedules = [moved_steps(steps, task["nodes"], task["op_types"], folded) for steps in schedules]
        xla = emission_of(task)
        exact_on = device.kind if task.get("exact") else "cpu"
        saved = [variable.numpy() for variable in folded.traced.variables]
        found, note = run_deterministically(
            exact_on, lambda: _comparison(folded, batch, saved, schedules, xla)
        )
    return [{**each, **({"note": note} if note else {})} for each in found]


def _comparison(
    folded: FoldedStep,
    batch: Sequence[tf.Tensor],
    saved: Sequence[np.ndarray],
    schedules: Sequence[Sequence[int]],
    xla: XlaEmission | None,
) -> Callable[[], list[dict[str, Any]]]:
    # What is returned runs and compares them; each run begins with the values ``saved`` in the variables.
    variables = folded.traced.variables
    beside = _OUTCOMES_HELD * sum(value.nbytes for value in saved)
    require_room(folded.graph, schedule_of(folded, None), what="the plain step", beside=beside)
    own = folded.traced.unplanned
    plain = compiled_step(folded, None, with_gradients=True, xla=xla)
    # An op that draws random numbers without a variable begins anew in a new function.
    second = plain if own is None else compiled_step(folded, None, xla=xla)
    scheduled = [compiled_step(folded, steps, with_gradients=True, xla=xla) for steps in schedules]

    def run(function: Any) -> Outcome:
        for variable, value in zip(variables, saved, strict=True):
            variable.assign(value)
        if own is not None:
            return _outcome_of_steps(function, batch, own, variables)
        return _outcome_of_step(run_step(function, batch), folded.traced.gradients, variables)

    def compare_them() -> list[dict[str, Any]]:
        reference, again = run(plain), run(second)
        rounding = max(1, reference.steps) * sum_rounding(folded.structure.ops)
        return [
            {**compared(reference, again, run(function)), "sum_rounding": rounding} for function in scheduled
        ]

    return compare_them


def _outcome_of_step(
    found: Any, gradients: Mapping[str, Sequence[tf.Tensor]], variables: Sequence[Any]
) -> Outcome:
    loss, _, groups = found
    names = [path for path, group in gradients.items() for _ in group]
    values = [tensor.numpy() for group in groups for tensor in group]
    return Outcome(float(loss.numpy()), names, values, [variable.numpy() for variable in variables])


def _outcome_of_steps(
    function: Any, batch: Sequence[tf.Tensor], own: Unplanned, variables: Sequence[Any]
) -> Outcome:
    names: list[str] = []
    values: list[np.ndarray] = []
    losses: list[float] = []
    for number in range(1, _STEPS + 1):
        loss, results, _ = run_step(function, batch)
        losses.append(float(loss.numpy()))
        names += [f"{name} of step {number}" for name in own.names]
        values += [np.array(tensor.numpy()) for tensor in results]
    state = [variable.numpy() for variable in variables]
    names += [str(getattr(variable, "name", f"variable {i}")) for i, variable in enumerate(variables)]
    return Outcome(None if own.loss is None else losses[0], names, [*values, *state], state, _STEPS)


def sum_rounding(ops: Iterable[tf.Operation]) -> float:
    """Return how much all gradients together may differ by rounding, relatively; 0.0: nothing.

    Each op computes the same, but ``AddN`` begins with the first input whose memory it can take over
    (``forward_input_or_allocate_output`` in TensorFlow's aggregate_ops.cc). So three terms or more are added
    in an order that depends on what else is still in memory.
    """
    return max((_ROUNDING[dtype] for dtype in _long_sums(ops) if dtype in _ROUNDING), default=0.0)


def _long_sums(ops: Iterable[tf.Operation]) -> Iterator[tf.DType]:
    for op in ops:
        if op.type == "AddN" and len(op.inputs) > 2:
            yield op.outputs[0].dtype
        for body in private.called_bodies(op).values():
            yield from _long_sums(body.get_operations())


def compile_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """Compile the step of a task; return the fields of ``XlaMemory``, and ``seconds``."""
    folded = trace_request(ModelRequest.from_json(task["request"]), here=True, report=silent, cancelled=never)
    xla, as_written = emission_of(task) or XlaEmission(), bool(task.get("as_written"))
    made = compiled_memory(folded, task["steps"], xla, as_written=as_written)
    memory = made.memory
    return {
        "arguments": memory.argument_bytes,
        "outputs": memory.output_bytes,
        "temp": memory.temp_bytes,
        "curve": memory.curve.tolist(),
        "steps": memory.steps.tolist(),
        "seconds": made.seconds,
    }


def _curve(step: _ReadyStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    # If steps run side by side, the time of a request does not tell which step made it.
    schedule = schedule_of(step.folded, steps)
    if runs_side_by_side(step.folded, schedule):
        other = replace(step, function=compiled_step(in_turn(step.folded), steps))
        other.run()
        trace = trace_run(other.run, device=step.kind)
    return measured_curve(step.folded, trace, steps)


def measured_curve(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    """Return the most bytes requested at once while each of ``steps`` ran, the step's fixed bytes included.

    An event of ``trace`` belongs to the step whose op began last, because steps run one after the other. Only
    what reaches the device's own allocator is seen.
    """
    if folded.graph.device_kind != "cpu":
        return [folded.graph.fixed_bytes + most for most in _by_name(folded, trace, steps)]
    begun = op_starts(folded, trace, steps)
    starts = [start for start, _ in begun]
    most: dict[int, int] = {}
    held = [(0, 0)]  # (time, bytes from then on), for steps without events of their own
    level = 0
    for event in trace.memory:
        level += event.requested_bytes
        held.append((event.time_ps, level))
        at = bisect.bisect_right(starts, event.time_ps) - 1
        if at >= 0:
            position = begun[at][1]
            most[position] = max(most.get(position, 0), level)
    found: list[int] = []
    times = [time for time, _ in held]
    first = {position: start for start, position in reversed(begun)}
    before = 0
    for position in range(len(steps)):
        if position in first:
            before = held[bisect.bisect_right(times, first[position]) - 1][1]
        found.append(folded.graph.fixed_bytes + max(before, most.get(position, before)))
    return found


def _by_name(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    # The kernels of a GPU are launched ahead of time, so the moment of a request tells nothing. But ops are
    # launched in their order, and a request names its op.
    askers = askers_by_name(folded, (event.op for event in trace.memory), steps)
    most = [0] * len(steps)
    level, at = 0, -1
    for event in trace.memory:
        position = askers[event.op][0] if event.op in askers else at
        while at < position:
            at += 1
            most[at] = level
        level += event.requested_bytes
        if at >= 0:
            most[at] = max(most[at], level)
    return most[: at + 1] + [level] * (len(steps) - at - 1)
