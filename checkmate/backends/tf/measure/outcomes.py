"""Hold what a step came to, and compare it with what another came to.

Of Keras's own step that is its gradients. A step of the user's own need not show any: there it is what the
step returns, and all variables after a few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.measure.differences import (
    finite_norm,
    overall_error,
    relative_error,
    worst_of_largest,
)
from checkmate.backends.tf.trace.trace import Unplanned

STEPS = 2  # of a step of the user's own: the second one starts from what the first one wrote


@dataclass(frozen=True, eq=False)
class Outcome:
    """Hold what one run came to.

    ``loss``: None where the step returns no number. ``values``: what is compared, by ``names``. ``state``:
    the variables after it. ``steps``: how many were run; 0: ``values`` are the gradients of one step.
    """

    loss: float | None
    names: tuple[str, ...]
    values: list[np.ndarray]
    state: list[np.ndarray]
    steps: int = 0


def outcome_of_step(
    found: Any, gradients: Mapping[str, Sequence[tf.Tensor]], variables: Sequence[Any]
) -> Outcome:
    """Return what Keras's own step came to.

    ``found``: its loss, its predictions and its gradients. ``gradients``: the traced ones, by variable.
    """
    loss, _, groups = found
    names = tuple(path for path, group in gradients.items() for _ in group)
    values = [tensor.numpy() for group in groups for tensor in group]
    return Outcome(float(loss.numpy()), names, values, [variable.numpy() for variable in variables])


def outcome_of_steps(run: Callable[[], Any], own: Unplanned, variables: Sequence[Any]) -> Outcome:
    """Run a step of the user's own a few times; return what it came to.

    ``run``: runs it once and returns its loss, then what it returns.
    """
    names: list[str] = []
    values: list[np.ndarray] = []
    losses: list[float] = []
    for number in range(1, STEPS + 1):
        loss, results, _ = run()
        losses.append(float(loss.numpy()))
        names += [f"{name} of step {number}" for name in own.names]
        values += [np.array(tensor.numpy()) for tensor in results]
    state = [variable.numpy() for variable in variables]
    names += [str(getattr(variable, "name", f"variable {i}")) for i, variable in enumerate(variables)]
    return Outcome(None if own.loss is None else losses[0], tuple(names), [*values, *state], state, STEPS)


def compared(reference: Outcome, again: Outcome, found: Outcome) -> dict[str, Any]:
    """Return how far ``found`` is from ``reference``.

    ``again``: another run of what ``reference`` is of. An error is infinite where one of two values alone is
    not finite. See ``checkmate.backends.tf.measure.step.compare``.
    """
    real = [i for i, value in enumerate(reference.values) if _is_real(value)]
    names = [reference.names[i] for i in real]
    wanted, rerun, got = ([run.values[i] for i in real] for run in (reference, again, found))
    scale = finite_norm(wanted)
    pairs = list(zip(got, wanted, strict=True))
    errors = [relative_error(a, b, scale) for a, b in pairs]
    spread = [relative_error(a, b, scale) for a, b in zip(rerun, wanted, strict=True)]
    worst = int(np.argmax(errors)) if errors else 0
    whole = [i for i in range(len(reference.values)) if i not in real]
    return {
        "gradients": len(reference.values),
        "steps": found.steps,
        "bitwise": _same(found.values, reference.values),
        "whole_equal": _same([found.values[i] for i in whole], [reference.values[i] for i in whole]),
        "state_bitwise": _same(found.state, reference.state),
        "worst": {"name": names[worst] if names else "", "relative_error": errors[worst] if errors else 0.0},
        "worst_of_largest": worst_of_largest(names, pairs),
        "plain_rerun_relative_error": max(spread, default=0.0),
        "overall_relative_error": overall_error(got, wanted, scale),
        "loss": {"plain": reference.loss, "optimized": found.loss},
    }


def _is_real(value: np.ndarray) -> bool:
    """Return whether ``value`` holds numbers that may differ by rounding.

    Counters and random seeds are the same or not.
    """
    return value.dtype.kind not in "biuOSU"


def _same(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    return all(_same_bits(a, b) for a, b in zip(found, expected, strict=True))


def _same_bits(found: np.ndarray, expected: np.ndarray) -> bool:
    """Return whether two arrays are equal, NaN for NaN."""
    return bool(np.array_equal(found, expected)) or (
        found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    )
