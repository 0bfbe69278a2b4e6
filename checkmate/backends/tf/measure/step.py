"""Measure a training step in this process: peak, time, loss and gradients.

The peak is read on the allocator's meter. Call this in a fresh process (``backends.tf.tasks``), because what
ran before changes where the allocator puts things.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.costs.session import choose_device, flat_batch, prepare
from checkmate.backends.tf.devices import (
    deterministic,
    is_not_deterministic,
    make_exact,
    peak_bytes,
    reset_peak,
    settings_here,
    warms_up,
)
from checkmate.backends.tf.emit.ordered import step_from_schedule
from checkmate.backends.tf.emit.other_trace import moved_steps
from checkmate.backends.tf.emit.reload_probe import settled
from checkmate.backends.tf.emit.set_aside import SmallChunks, fetch_bytes
from checkmate.backends.tf.measure.curve import measured_curve
from checkmate.backends.tf.measure.differences import sum_rounding
from checkmate.backends.tf.measure.outcomes import Outcome, compared, outcome_of_step, outcome_of_steps
from checkmate.backends.tf.memory_check import explain_exhausted_memory, require_room
from checkmate.backends.tf.profiler import MemoryEvent, trace_run
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.trace import step_function
from checkmate.backends.tf.xla.tied import XlaEmission, emission_of, tied_step
from checkmate.errors import CheckmateError, CycleError, StepTooLargeError
from checkmate.ir.schedule import Schedule
from checkmate.machine.load import LoadMeter
from checkmate.progress import Progress, Report, never, silent
from checkmate.request import ModelRequest, Target

_T = TypeVar("_T")
# Copies of the variables or their gradients that a comparison holds: of three runs, and the first state.
_OUTCOMES_HELD = 7


def measure(task: Mapping[str, Any]) -> dict[str, Any]:
    """Measure one step, and return what was measured.

    ``task``: ``request``, ``steps`` (None: the plain step), ``runs`` (timed ones), ``seed``, ``region``
    (bytes that a CPU's allocator fetches in one piece before anything else), ``history`` (whether to tell
    what the allocator was then asked for before the first step, without what is set aside for a scheduled
    one), ``xla`` (an ``XlaEmission``; without it the step is for the executor). On a GPU one run goes before,
    without the meter.

    Returns ``peaks`` (of each metered run), ``first_peak_bytes``, ``peak_bytes`` (the largest of them),
    ``requested_peak_bytes`` (traced, with the fixed bytes), ``seconds`` (median, warm), ``loss`` (first run),
    ``fingerprint``, ``fixed_bytes`` (of its graph), ``history`` ((handle, bytes) pairs as
    ``checkmate.memory.bfc.Request``), ``curve`` (bytes per step of the schedule, as ``measured_curve``
    tells them; empty for the plain step), ``load`` (cores that other programs took during the timed runs, of
    ``cores``), ``settings`` (``DeviceSettings.facts``).

    Raises:
        CycleError: TensorFlow found a cycle in the emitted order.
        StepTooLargeError: the step has no room, or ran out of it.
    """
    with explain_exhausted_memory("the step"):
        return _measured(_made(task), task)


def measure_and_compare(task: Mapping[str, Any], report: Report) -> Iterator[dict[str, Any]]:
    """Measure a scheduled step, and compare it with the plain one.

    ``task``: as for ``measure``, and ``within`` (bytes): a step that shows more is not compared. Yields what
    ``measure`` returns; then the same with ``compared``, as ``compare`` returns it, unless the plain step has
    no room beside. Where comparing ends this process, what was measured stands.

    Raises:
        As ``measure``.
    """
    seed = int(task.get("seed", 0))
    tf.random.set_seed(seed)  # for steps that draw random numbers without a seed of their own
    with explain_exhausted_memory("the step"):
        step = _made(task)
        saved = [variable.numpy() for variable in step.folded.traced.variables]
        found = _measured(step, task)
    yield found
    if found["peak_bytes"] > task["within"]:
        return
    report(Progress("measure", message="comparing it with the plain step, default kernels"))
    with suppress(StepTooLargeError), explain_exhausted_memory("the plain step"):
        (compared_,) = _comparison(step.folded, step.batch, saved, [task["steps"]], None)()
        yield {**found, "compared": compared_}


@dataclass(frozen=True, eq=False)
class _ReadyStep:
    """Hold a compiled step and a batch for it.

    ``small_chunks``: to be made before the first run; None for the plain step. ``kind``: of its device.
    ``history``: as ``measure`` returns it.
    """

    folded: FoldedStep
    function: Any
    batch: Sequence[tf.Tensor]
    small_chunks: SmallChunks | None = None
    kind: str = "cpu"
    history: Sequence[tuple[int, int]] = ()

    def run(self) -> float:
        """Run the step once to its end; return its loss."""
        return float(run_step(self.function, self.batch)[0].numpy())


def _made(task: Mapping[str, Any]) -> _ReadyStep:
    """Return the step of ``task`` as it is before its first run."""
    request, steps, xla = ModelRequest.from_json(task["request"]), task.get("steps"), emission_of(task)
    made: list[_ReadyStep] = []

    def make() -> None:
        made.append(_ready_step(request, steps, int(task.get("seed", 0)), xla))

    history: list[tuple[int, int]] = []
    kind = choose_device(request, here=True).kind
    fetch_bytes(int(task.get("region", 0)))
    if task.get("history"):
        history = requests_of(trace_run(make, device=kind).memory)
    else:
        make()
    (step,) = made
    if step.small_chunks is not None:
        step.small_chunks.make()
    gc.collect()
    return replace(step, kind=kind, history=history)


def _measured(step: _ReadyStep, task: Mapping[str, Any]) -> dict[str, Any]:
    kind, steps, xla = step.kind, task.get("steps"), emission_of(task)
    found = _metered_runs(step, kind, int(task.get("runs", 3)), settle=steps is not None)
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
        "curve": [] if steps is None or xla else measured_curve(step.folded, trace, steps),
    }


def _ready_step(
    request: ModelRequest, steps: Sequence[int] | None, seed: int, xla: XlaEmission | None
) -> _ReadyStep:
    """Return the compiled step of ``steps``; None: the plain one.

    Raises:
        StepTooLargeError: the step has no room.
    """
    folded = prepare(request, here=True, report=silent, cancelled=never)
    require_room(folded.graph, schedule_of(folded, steps), what=_step_words(steps))
    function, batch = compiled_step(folded, steps, xla=xla), flat_batch(folded.traced.loaded, seed)
    small_chunks = None if steps is None or xla is not None else SmallChunks(folded.structure)
    return _ReadyStep(folded, function, batch, small_chunks)


def _metered_runs(step: _ReadyStep, kind: str, runs: int, *, settle: bool) -> dict[str, Any]:
    """Run ``step`` once, then ``runs`` times, and return what was measured.

    These are the peaks, the seconds, the loss and the load. If ``settle``, go on without the clock until the
    peak has settled.
    """
    meter = f"{kind.upper()}:0"
    peaks: list[int] = []
    seconds: list[float] = []
    losses = [step.run()] if warms_up(kind) else []
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


def schedule_of(folded: FoldedStep, steps: Sequence[int] | None) -> Schedule:
    """Return the schedule of ``steps``; None: of the plain step."""
    return Schedule.plain(folded.graph) if steps is None else Schedule.of(folded.graph, list(steps))


def _step_words(steps: Sequence[int] | None) -> str:
    return "the plain step" if steps is None else "the scheduled step"


def requests_of(events: Sequence[MemoryEvent]) -> list[tuple[int, int]]:
    """Return the events as (handle, bytes) pairs; a release has 0 bytes.

    Releases of what came before the events are left out.
    """
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
    """Compare the scheduled step with the plain one.

    Both start from the same state and batch. Loss, gradients and updated state are compared. Of a step that
    is not Keras's own, what it returns and its variables are, after a few steps. ``task``:
    ``request``, ``steps``, ``seed``, ``exact`` (TensorFlow's graph rewriting off, so that both run the same
    kernels; the caller also chooses Eigen kernels by the process's environment), ``nodes`` (of the trace at
    another size, where the steps are not of this one: see ``backends.tf.emit.other_trace``), ``xla`` (as for
    ``measure``). Per gradient the error is ‖difference‖ / ‖plain‖ (``relative_error``). The plain step is
    run twice for its own spread.

    Raises:
        StepTooLargeError: the plain step has no room, or ran out of it.
        TraceError: the steps are of another step.
    """
    found: dict[str, Any] = compare_all({**task, "schedules": [task["steps"]]})["schedules"][0]
    return found


def compare_all(task: Mapping[str, Any]) -> dict[str, Any]:
    """Compare each of ``schedules`` with the same plain runs.

    ``schedules`` are lists of steps. Returns under ``schedules`` a list of what ``compare`` returns. Each
    answer has a ``note`` where an op has no deterministic kernel on the GPU, so that equal bits cannot be
    asked for.
    """
    request, seed = ModelRequest.from_json(task["request"]), int(task.get("seed", 0))
    device = choose_device(request, here=True)
    tf.random.set_seed(seed)  # for steps that draw random numbers without a seed of their own
    if task.get("exact"):
        make_exact(device.kind, seed)
    with explain_exhausted_memory("the plain step"):
        folded = prepare(request, here=True, report=silent, cancelled=never)
        batch = flat_batch(folded.traced.loaded, seed)
        schedules = task["schedules"]
        if task.get("nodes") is not None:
            schedules = [moved_steps(steps, task["nodes"], task["op_types"], folded) for steps in schedules]
        xla = emission_of(task)
        exact_on = device.kind if task.get("exact") else "cpu"
        saved = [variable.numpy() for variable in folded.traced.variables]
        found, note = run_deterministically(
            exact_on, lambda: _comparison(folded, batch, saved, schedules, xla)
        )
    return {"schedules": [{**each, **({"note": note} if note else {})} for each in found]}


def run_deterministically(kind: str, made: Callable[[], Callable[[], _T]]) -> tuple[_T, str]:
    """Call what ``made`` returns with deterministic kernels.

    Return its result and "". If an op has no deterministic kernel, make it again and call it without; return
    its result and a note. ``kind``: of the device; a CPU's kernels need no switch. Only ``made`` traces steps
    (``deterministic``).
    """
    run = made()
    try:
        with deterministic(kind):
            return run(), ""
    except (CheckmateError, tf.errors.UnimplementedError) as error:
        reason = error.__cause__ if isinstance(error, CheckmateError) else error
        if not is_not_deterministic(reason):
            raise
        said = str(reason).strip().splitlines()[0][:200]
        note = (
            "gradients were compared within the plain step's own spread, not bit by bit: "
            f"an op has no deterministic kernel on this GPU ({said})"
        )
        return made()(), note


def _comparison(
    folded: FoldedStep,
    batch: Sequence[tf.Tensor],
    saved: Sequence[np.ndarray],
    schedules: Sequence[Sequence[int]],
    xla: XlaEmission | None,
) -> Callable[[], list[dict[str, Any]]]:
    """Emit the steps; return what runs and compares them.

    Each run begins with the values ``saved`` in the variables.
    """
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
            return outcome_of_steps(lambda: run_step(function, batch), own, variables)
        return outcome_of_step(run_step(function, batch), folded.traced.gradients, variables)

    def compare_them() -> list[dict[str, Any]]:
        reference, again = run(plain), run(second)
        rounding = max(1, reference.steps) * sum_rounding(folded.structure.ops)
        return [
            {**compared(reference, again, run(function)), "sum_rounding": rounding} for function in scheduled
        ]

    return compare_them


def compiled_step(
    folded: FoldedStep,
    steps: Sequence[int] | None,
    *,
    with_gradients: bool = False,
    xla: XlaEmission | None = None,
) -> Any:
    """Return the step as a concrete function of inputs and labels.

    It returns what the one of ``step_body`` does. ``xla``: how it is emitted for XLA; None: it is for the
    executor.
    """
    loaded = folded.traced.loaded
    if steps is None and with_gradients and xla is None and loaded.own is None:
        return folded.traced.as_traced
    body = step_body(folded, steps, with_gradients=with_gradients, xla=xla)
    compiled = True if xla is not None and xla.compiled else None  # None: as the function that calls it
    function = tf.function(body, autograph=False, jit_compile=compiled)
    return function.get_concrete_function(*loaded.input_specs, *loaded.label_specs)


def step_body(
    folded: FoldedStep,
    steps: Sequence[int] | None,
    *,
    with_gradients: bool = False,
    xla: XlaEmission | None = None,
) -> Callable[..., Any]:
    """Return the step as a Python function to be traced.

    It is the plain step (``steps`` None) or the scheduled one. The function returns (loss, predictions,
    gradients); no gradients unless asked for. ``xla``: as for ``compiled_step``.
    """
    loaded = folded.traced.loaded
    body: Callable[..., Any]
    own = folded.traced.unplanned
    if steps is None and own is not None:

        def body(*tensors: tf.Tensor) -> Any:
            loss, *found = own.function(*tensors)
            return loss, tuple(found), ()
    elif steps is None:
        plain = step_function(loaded)

        def body(*tensors: tf.Tensor) -> Any:
            loss, predictions, gradients = plain(*tensors)
            return loss, tuple(predictions), tuple(map(tuple, gradients)) if with_gradients else ()
    else:
        emit = step_from_schedule if xla is None else partial(tied_step, tied=xla.tied, compiled=xla.compiled)
        scheduled = emit(folded, Schedule.of(folded.graph, list(steps)), with_gradients=with_gradients)

        def body(*tensors: tf.Tensor) -> Any:
            outputs = scheduled(*tensors)
            return outputs.loss, outputs.predictions, outputs.gradients

    return body


def run_step(function: Any, batch: Sequence[tf.Tensor]) -> Any:
    """Run ``function`` once.

    Raises:
        CycleError: TensorFlow's passes merged ops across the emitted order.
        StepTooLargeError: memory ran out.
        CheckmateError: the step failed to run.
    """
    try:
        with explain_exhausted_memory("the step"):
            return function(*batch)
    except tf.errors.OpError as error:
        text = str(error).strip().splitlines()
        first = text[0][:300] if text else type(error).__name__
        if "cycle" in str(error).lower():
            raise CycleError(
                f"TensorFlow rejected the emitted order: {first}",
                hint="report the model; "
                "--device cpu with TF_ENABLE_ONEDNN_OPTS=0 avoids the fusion that causes it",
            ) from error
        raise CheckmateError(f"the step failed to run: {first}", hint="use a smaller batch") from error
