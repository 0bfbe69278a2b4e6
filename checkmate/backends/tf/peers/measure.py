"""Measure peer methods in this process, which has to be a fresh one.

Measured are the peak, the time in turns, and gradients and state beside those of the plain step. An error
that a peer raises is an answer here: its type and the first line of its text. An error of this program's own
code, while a peer is built or run, is told apart from it.
"""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf.costs.session import choose_device, flat_batch, prepare
from checkmate.backends.tf.devices import make_exact, peak_bytes, reset_peak, warms_up
from checkmate.backends.tf.measure.differences import relative_error, total_norm
from checkmate.backends.tf.measure.step import compiled_step, in_turns, run_deterministically, run_step
from checkmate.backends.tf.peers.build import BuiltStep, build, recomputable_layers
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.catalog.peers import PLAIN, find_method
from checkmate.errors import NotApplicableError
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

Answer = dict[str, Any]
_T = TypeVar("_T")

_BOLD = re.compile("\x1b\\[1m(.*?)\x1b\\[0m", re.DOTALL)
_SAME_UPDATE = 1e-3  # relative: float32 rounding in a difference of two statistics


def measure_peer(task: Mapping[str, Any]) -> Answer:
    """Measure the peak of one method.

    ``task``: ``request``, ``method`` (a name), ``layers`` (for ``list_of_layers``), ``runs``. Returns
    ``peak_bytes`` (largest of all runs, on the allocator's meter), ``first_peak_bytes``, ``note``, and for
    the plain step ``layers``; or ``failed`` or ``not_applicable``: a sentence.
    """
    request = ModelRequest.from_json(task["request"])
    kind = choose_device(request, here=True).kind
    meter = f"{kind.upper()}:0"

    def run() -> tuple[BuiltStep, list[int]]:
        built = build(request, find_method(task["method"]), task.get("layers") or ())
        batch = flat_batch(built.loaded)
        gc.collect()
        if warms_up(kind):
            built.function(*batch)[0].numpy()
        return built, [_peak(built, batch, meter) for _ in range(1 + int(task.get("runs", 3)))]

    try:
        found = result_or_sentence(run)
    except NotApplicableError as error:
        return {"not_applicable": str(error)}
    if isinstance(found, str):
        return {"failed": found}
    built, peaks = found
    layers = recomputable_layers(built.loaded.model) if task["method"] == PLAIN.name else []
    return {"peak_bytes": max(peaks), "first_peak_bytes": peaks[0], "note": built.note, "layers": layers}


def result_or_sentence(run: Callable[[], _T]) -> _T | str:
    """Return what ``run`` returns, or the error that it raised, in a sentence.

    Raises:
        NotApplicableError: the method does not exist for this model.
    """
    try:
        return run()
    except NotApplicableError:
        raise
    except Exception as error:  # Keras and TensorFlow may raise anything; a failed peer is a row of the table
        return error_sentence(error)


def _peak(built: BuiltStep, batch: Sequence[tf.Tensor], meter: str) -> int:
    reset_peak(meter)
    outputs = built.function(*batch)
    outputs[0].numpy()  # waits for the device
    del outputs
    return peak_bytes(meter)


def time_peers(task: Mapping[str, Any]) -> Answer:
    """Time several methods and schedules of one model, in turns.

    ``task``: ``request``, ``methods`` (names), ``layers``, ``schedules`` (lists of steps), ``rounds``,
    ``limit_s`` (after that many seconds no further round is started, from the third). Returns ``methods``:
    name → seconds per round, or a sentence if it failed; ``schedules``: a list of seconds for each.
    """
    return timed_in_turns(task, lambda built: built.function, compiled_step)


def timed_in_turns(
    task: Mapping[str, Any],
    callable_of: Callable[[BuiltStep], Any],
    emitted: Callable[[FoldedStep, Any], Any],
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Answer:
    """Time methods and schedules as ``time_peers`` does.

    ``callable_of``: what is called of a built step. ``emitted``: the function of one of the ``schedules``.
    ``clock``: tells seconds.
    """
    request = ModelRequest.from_json(task["request"])
    choose_device(request, here=True)
    functions: list[Any] = []
    failed: dict[str, str] = {}
    built: list[str] = []
    for name in task["methods"]:
        keras.utils.clear_session()  # layers get the names that they have in a fresh process
        made = result_or_sentence(partial(build, request, find_method(name), task.get("layers") or ()))
        if isinstance(made, str):
            failed[name] = made
        else:
            functions.append(callable_of(made))
            built.append(name)
    keras.utils.clear_session()
    folded = prepare(request, here=True, report=silent, cancelled=never)
    functions += [emitted(folded, schedule) for schedule in task["schedules"]]
    seconds = in_turns(
        functions,
        flat_batch(folded.traced.loaded),
        rounds=int(task["rounds"]),
        limit_s=float(task["limit_s"]),
        clock=clock,
    )
    return {
        "methods": {**dict(zip(built, seconds, strict=False)), **failed},
        "schedules": seconds[len(built) :],
    }


def compare_peers(task: Mapping[str, Any]) -> Answer:
    """Compare one step of each method with the plain step.

    All start from the same weights, state and batch. ``task``: ``request``, ``methods``, ``layers``,
    ``exact`` (TensorFlow's graph rewriting off, so that all run the same kernels; the caller also chooses
    Eigen kernels by the process's environment). Returns by name ``bitwise``, ``relative_error`` (all
    gradients as one vector), ``worst`` (of one gradient), ``loss_difference`` (relative), and ``state``: what
    ``state_verdict`` returns; or ``failed``.
    """
    request = ModelRequest.from_json(task["request"])
    kind = choose_device(request, here=True).kind
    exact_on = kind if task.get("exact") else "cpu"
    if task.get("exact"):
        make_exact(kind, 0)
    plain = build(request, PLAIN, with_gradients=True)
    batch = flat_batch(plain.loaded)
    start = [variable.numpy() for variable in plain.variables]
    expected, _ = run_deterministically(exact_on, lambda: partial(outcome, plain, start, batch))
    found: Answer = {}
    for name in task["methods"]:
        keras.utils.clear_session()
        traced = partial(build, request, find_method(name), task.get("layers") or (), with_gradients=True)
        got = result_or_sentence(partial(_built_outcome, exact_on, traced, start, batch))
        found[name] = {"failed": got} if isinstance(got, str) else comparison(expected, got)
    return found


def _built_outcome(
    kind: str, traced: Callable[[], BuiltStep], start: Sequence[np.ndarray], batch: Sequence[tf.Tensor]
) -> Answer:
    return run_deterministically(kind, lambda: partial(outcome, traced(), start, batch))[0]


def outcome(built: BuiltStep, start: Sequence[np.ndarray], batch: Sequence[tf.Tensor]) -> Answer:
    """Run one step from the values ``start``; return what it computed.

    This is the loss, the flat gradients, and what is not trained: (name, value before, value after).
    """
    for variable, value in zip(built.variables, start, strict=True):
        variable.assign(value)
    untrained = built.loaded.model.non_trainable_variables
    before = [variable.numpy() for variable in untrained]
    loss, _, gradients = run_step(built.function, batch)
    flat = [tensor.numpy() for group in gradients for tensor in group]
    after = [variable.numpy() for variable in untrained]
    names = [variable.path for variable in untrained]
    return {
        "loss": float(loss.numpy()),
        "gradients": flat,
        "state": list(zip(names, before, after, strict=True)),
    }


def comparison(
    expected: Mapping[str, Any], got: Mapping[str, Any], *, same_update: float = _SAME_UPDATE
) -> Answer:
    """Return how ``got`` differs from the plain step's ``expected``.

    ``same_update``: as for ``times_updated``.
    """
    if [each.shape for each in got["gradients"]] != [each.shape for each in expected["gradients"]]:
        return {"failed": "the step does not have the gradients of the plain step"}
    pairs = list(zip(got["gradients"], expected["gradients"], strict=True))
    scale = total_norm(expected["gradients"])
    differences = [a.astype(np.float64) - b.astype(np.float64) for a, b in pairs]
    updates = [
        times_updated(before, after, now, same_update)
        for (_, before, after), (_, _, now) in zip(expected["state"], got["state"], strict=True)
    ]
    return {
        "bitwise": all(np.array_equal(a, b) for a, b in pairs),
        "relative_error": total_norm(differences) / scale if scale else total_norm(differences),
        "worst": max((relative_error(a, b, scale) for a, b in pairs), default=0.0),
        "loss_difference": abs(got["loss"] - expected["loss"]) / max(abs(expected["loss"]), 1e-12),
        "state": state_verdict([name for name, _, _ in expected["state"]], updates),
    }


def times_updated(
    before: np.ndarray, once: np.ndarray, found: np.ndarray, same_update: float = _SAME_UPDATE
) -> str:
    """Return if ``found`` was updated ``once``, ``twice``, or ``differs``.

    One update leads from ``before`` to ``once``. A moving average that is updated twice towards the same
    statistic moves by (1 + momentum) times the step, a counter by twice the step. So ``found`` counts as
    updated twice if it lies on that line, between 1 and 2 steps. ``same_update``: how far two updates of a
    statistic may be apart by rounding, as a share of the step.
    """
    if np.array_equal(once, found):
        return "once"
    step = once.astype(np.float64).ravel() - before.astype(np.float64).ravel()
    moved = found.astype(np.float64).ravel() - before.astype(np.float64).ravel()
    size = float(np.linalg.norm(step))
    if size == 0:
        return "differs"
    # A statistic that is large beside its step loses its last digits; a counter does not.
    real = np.issubdtype(once.dtype, np.floating)
    precision = float(np.finfo(once.dtype).eps) if real else 0.0
    rounding = 4 * precision * float(np.linalg.norm(once.astype(np.float64))) / size
    allowed = (same_update if real else _SAME_UPDATE) + rounding
    factor = float(step @ moved) / size**2
    if float(np.linalg.norm(moved - factor * step)) / size > allowed:
        return "differs"
    if abs(factor - 1) <= allowed:
        return "once"
    return "twice" if 1.5 < factor <= 2 + allowed else "differs"


def state_verdict(names: Sequence[str], updates: Sequence[str]) -> Answer:
    """Return how many variables that are not trained were updated how often.

    These are moving statistics, seeds and counters. ``example`` is the first that was not updated once.
    """
    wrong = [(name, update) for name, update in zip(names, updates, strict=True) if update != "once"]
    return {
        "count": len(names),
        "twice": sum(update == "twice" for update in updates),
        "differs": sum(update == "differs" for update in updates),
        "example": wrong[0][0] if wrong else "",
    }


def error_sentence(error: BaseException) -> str:
    """Return the type of ``error`` and the first line of its text.

    Of an error of Keras the first line only names the layer, so the line that it prints bold is added. If
    this program's own code raised the error, the sentence says so.
    """
    own = "in Checkmate itself: " if raised_here(error) else ""
    text = str(error).strip()
    if not text:
        return f"{own}{type(error).__name__}"
    reason = _BOLD.search(text)
    lines = [text.splitlines()[0], *(reason.group(1).splitlines()[:1] if reason else [])]
    return f"{own}{type(error).__name__}: {_BOLD.sub(_inner, ' '.join(lines))[:300]}"


def raised_here(error: BaseException) -> bool:
    """Return whether this program's own code raised ``error``.

    The innermost code that it came from is then not TensorFlow's, Keras's or a model's.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and str(at.tb_frame.f_globals.get("__name__", "")).startswith("checkmate.")


def _inner(bold: re.Match[str]) -> str:
    return bold.group(1)
