"""Measure peer methods in this process, which has to be a fresh one.

An error that a peer raises is an answer here: its type and the first line of its text.
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

from checkmate.backends.outcomes import relative_error, total_norm
from checkmate.backends.tf.devices import choose_device, make_exact, peak_bytes, reset_peak, warms_up
from checkmate.backends.tf.measure.concrete import compiled_step, run_deterministically, run_step
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.benchmarks.peer_methods import PLAIN, BuiltStep, build, find_method, recomputable_layers

Answer = dict[str, Any]
_T = TypeVar("_T")

_BOLD = re.compile("\x1b\\[1m(.*?)\x1b\\[0m", re.DOTALL)
_SAME_UPDATE = 1e-3  # relative: float32 rounding in a difference of two statistics
_ROUNDS, _LEAST_ROUNDS, _TIMING_S = 9, 3, 60.0  # no further round is started after so many seconds
_RUNS = 4


def measure_peer(request: Mapping[str, Any], method: str, layers: Sequence[str] = ()) -> Answer:
    """Measure the peak of one method in bytes, on the allocator's meter.

    ``layers``: for ``list_of_layers``; the plain step's answer has them. Or the answer is ``failed``.
    """
    asked = ModelRequest.from_json(request)
    kind = choose_device(asked, here=True).kind

    def run() -> Answer:
        built = build(asked, find_method(method), layers)
        batch = built.loaded.make_batch()
        gc.collect()
        if warms_up(kind):
            built.function(*batch)[0].numpy()
        peak = max(_peak(built, batch, f"{kind.upper()}:0") for _ in range(_RUNS))
        chosen = recomputable_layers(built.loaded.model) if method == PLAIN.name else []
        return {"peak_bytes": peak, "note": built.note, "layers": chosen}

    found = result_or_sentence(run)
    return {"failed": found} if isinstance(found, str) else found


def result_or_sentence(run: Callable[[], _T]) -> _T | str:
    """Return what ``run`` returns, or the error that it raised in a sentence.

    Of an error of Keras the first line only names the layer, so the line that it prints bold is added.
    """
    try:
        return run()
    except Exception as error:  # Keras and TensorFlow may raise anything; a failed peer is a row of the table
        text = str(error).strip()
        reason = _BOLD.search(text)
        lines = [*text.splitlines()[:1], *(reason[1].splitlines()[:1] if reason else [])]
        said = _BOLD.sub(r"\1", " ".join(lines))[:300]
        return f"{type(error).__name__}: {said}"


def _peak(built: BuiltStep, batch: Sequence[tf.Tensor], meter: str) -> int:
    reset_peak(meter)
    outputs = built.function(*batch)
    outputs[0].numpy()  # waits for the device
    del outputs
    return peak_bytes(meter)


def time_in_turns(
    request: Mapping[str, Any],
    methods: Sequence[str],
    schedules: Sequence[Sequence[int]],
    layers: Sequence[str] = (),
) -> Answer:
    """Time methods and schedules of one model in turns.

    Returns ``methods``: name → seconds per round, without those that failed; ``schedules``: a list of seconds
    for each.
    """
    asked = ModelRequest.from_json(request)
    choose_device(asked, here=True)
    functions: dict[str, Any] = {}
    for name in methods:
        keras.utils.clear_session()  # layers get the names that they have in a fresh process
        made = result_or_sentence(partial(build, asked, find_method(name), layers))
        if not isinstance(made, str):
            functions[name] = made.function
    keras.utils.clear_session()
    folded = trace_request(asked, here=True, report=silent, cancelled=never)
    emitted = [compiled_step(folded, list(schedule)) for schedule in schedules]
    batch = folded.traced.loaded.make_batch()
    seconds = _rounds([*functions.values(), *emitted], batch)
    return {
        "methods": dict(zip(functions, seconds, strict=False)),
        "schedules": seconds[len(functions) :],
    }


def _rounds(functions: Sequence[Any], batch: Sequence[tf.Tensor]) -> list[list[float]]:
    for function in [*functions, *functions]:
        run_step(function, batch)[0].numpy()
    found: list[list[float]] = [[] for _ in functions]
    started = time.perf_counter()
    for number in range(_ROUNDS):
        if number >= _LEAST_ROUNDS and time.perf_counter() - started > _TIMING_S:
            break
        for function, seconds in zip(functions, found, strict=True):
            begun = time.perf_counter()
            run_step(function, batch)[0].numpy()
            seconds.append(time.perf_counter() - begun)
    return found


def compare_peers(
    request: Mapping[str, Any], methods: Sequence[str], layers: Sequence[str] = (), exact: bool = False
) -> Answer:
    """Compare one step of each method with the plain step, from the same weights, state and batch.

    ``exact``: TensorFlow's graph rewriting is off, so that all run the same kernels; the caller also chooses
    Eigen's kernels by the process's environment. Returns what ``comparison`` does by name, or ``failed``.
    """
    asked = ModelRequest.from_json(request)
    kind = choose_device(asked, here=True).kind if exact else "cpu"
    if exact:
        make_exact(kind, 0)
    plain = build(asked, PLAIN, with_gradients=True)
    batch = plain.loaded.make_batch()
    start = [variable.numpy() for variable in plain.variables]
    expected, _ = run_deterministically(kind, lambda: partial(outcome, plain, start, batch))
    found: Answer = {}
    for name in methods:
        keras.utils.clear_session()
        traced = partial(build, asked, find_method(name), layers, with_gradients=True)
        got = result_or_sentence(partial(_built_outcome, kind, traced, start, batch))
        found[name] = {"failed": got} if isinstance(got, str) else comparison(expected, got)
    return found


def _built_outcome(
    kind: str, traced: Callable[[], BuiltStep], start: Sequence[np.ndarray], batch: Sequence[tf.Tensor]
) -> Answer:
    return run_deterministically(kind, lambda: partial(outcome, traced(), start, batch))[0]


def outcome(built: BuiltStep, start: Sequence[np.ndarray], batch: Sequence[tf.Tensor]) -> Answer:
    """Run one step from the values ``start``; return what it computed.

    This is the loss, the flat gradients, and what is not trained: (value before, value after).
    """
    for variable, value in zip(built.variables, start, strict=True):
        variable.assign(value)
    untrained = built.loaded.model.non_trainable_variables
    before = [variable.numpy() for variable in untrained]
    loss, _, gradients = run_step(built.function, batch)
    after = [variable.numpy() for variable in untrained]
    return {
        "loss": float(loss.numpy()),
        "gradients": [tensor.numpy() for group in gradients for tensor in group],
        "state": list(zip(before, after, strict=True)),
    }


def comparison(expected: Mapping[str, Any], got: Mapping[str, Any]) -> Answer:
    """Return how ``got`` differs from the plain step's ``expected``.

    ``relative_error`` is of all gradients as one vector, ``worst`` of one gradient, ``loss_difference``
    relative. ``state`` counts moving statistics, seeds and counters, and how many were updated ``twice`` or
    ``differ``.
    """
    if [each.shape for each in got["gradients"]] != [each.shape for each in expected["gradients"]]:
        return {"failed": "the step does not have the gradients of the plain step"}
    pairs = list(zip(got["gradients"], expected["gradients"], strict=True))
    scale = total_norm(expected["gradients"])
    differences = [a.astype(np.float64) - b.astype(np.float64) for a, b in pairs]
    updates = [
        times_updated(before, after, now)
        for (before, after), (_, now) in zip(expected["state"], got["state"], strict=True)
    ]
    return {
        "bitwise": all(np.array_equal(a, b) for a, b in pairs),
        "relative_error": total_norm(differences) / scale if scale else total_norm(differences),
        "worst": max((relative_error(a, b, scale) for a, b in pairs), default=0.0),
        "loss_difference": abs(got["loss"] - expected["loss"]) / max(abs(expected["loss"]), 1e-12),
        "state": {
            "count": len(updates),
            "twice": updates.count("twice"),
            "differs": updates.count("differs"),
        },
    }


def times_updated(before: np.ndarray, once: np.ndarray, found: np.ndarray) -> str:
    """Return if ``found`` was updated ``once``, ``twice``, or ``differs``.

    One update leads from ``before`` to ``once``. A moving average that is updated twice towards the same
    statistic moves by (1 + momentum) times the step, a counter by twice the step. So ``found`` counts as
    updated twice if it lies on that line, between 1 and 2 steps.
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
    allowed = _SAME_UPDATE + 4 * precision * float(np.linalg.norm(once.astype(np.float64))) / size
    factor = float(step @ moved) / size**2
    if float(np.linalg.norm(moved - factor * step)) / size > allowed:
        return "differs"
    if abs(factor - 1) <= allowed:
        return "once"
    return "twice" if 1.5 < factor <= 2 + allowed else "differs"
