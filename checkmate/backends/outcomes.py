"""The results of a step, and how much the results of two steps differ: one definition for all backends.

For Keras's own step the results are its gradients; for a user's own step what it returns, and all variables
after a few steps; for JAX the whole state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkmate.ir import CostUnit, Graph

TAKEN_OUT = (
    "the step's own recomputation (tf.recompute_grad, jax.checkpoint, keras.remat, keras.RematScope) is "
    "taken out: what is recomputed is planned anew; a share is of what the step takes as written, or without "
    "it where that is less"
)

# A gradient that is zero on paper (a bias before BatchNorm) is rounding noise. Its error is relative to this
# share of the norm of all gradients; else it would always look like 100 %.
_NEGLIGIBLE = 1e-4


@dataclass(frozen=True, eq=False)
class Outcome:
    """The results of one run. ``loss``: None if the step returns no number. ``values``: the arrays to
    compare, with ``names``. ``state``: the variables afterwards. ``steps``: how many steps ran; 0 if
    ``values`` are the gradients of one step."""

    loss: float | None
    names: Sequence[str]
    values: Sequence[np.ndarray]
    state: Sequence[np.ndarray] = ()
    steps: int = 0


@dataclass(frozen=True)
class Difference:
    """How much the results of two steps differ.

    ``bitwise``: they are equal to the bit. ``whole_equal``: integers, random keys and booleans are equal.
    ``overall``: ‖difference‖ / ‖expected‖ over all real arrays together. ``worst``: the largest relative
    error of a single array, named ``where``. ``largest``: name and error norm of the array that differs most,
    as a share of the largest array's norm, so that a gradient that is zero up to rounding does not count.
    ``count``: number of arrays. An error is infinite if only one of two values is finite.
    """

    bitwise: bool
    whole_equal: bool
    overall: float
    worst: float
    where: str
    largest: tuple[str, float]
    count: int


def difference(found: Outcome, expected: Outcome) -> Difference:
    """Return how far ``found`` is from ``expected``, which has the same names."""
    real = [number for number, value in enumerate(expected.values) if _may_differ_by_rounding(value)]
    whole = [number for number in range(len(expected.values)) if number not in real]
    names = [expected.names[number] for number in real]
    wanted = [expected.values[number] for number in real]
    got = [found.values[number] for number in real]
    scale = finite_norm(wanted)
    errors = [relative_error(one, other, scale) for one, other in zip(got, wanted, strict=True)]
    apart = list(map(_apart, got, wanted))
    norms = [total_norm([gap]) for gap in apart]
    worst, most = (int(np.argmax(each)) if each else -1 for each in (errors, norms))
    largest = max((finite_norm([want]) for want in wanted), default=0.0)
    return Difference(
        bitwise=same_arrays(found.values, expected.values),
        whole_equal=all(_same(found.values[number], expected.values[number]) for number in whole),
        overall=_share(total_norm(apart), scale),
        worst=errors[worst] if errors else 0.0,
        where=names[worst] if names else "",
        largest=(names[most], _share(norms[most], largest)) if names else ("", 0.0),
        count=len(expected.values),
    )


def compared(reference: Outcome, again: Outcome, found: Outcome) -> dict[str, Any]:
    """Return how far ``found`` is from ``reference``, as JSON-able data; ``again``: another run of the
    latter.
    """
    apart = difference(found, reference)
    return {
        "gradients": apart.count,
        "steps": found.steps,
        "bitwise": apart.bitwise,
        "whole_equal": apart.whole_equal,
        "state_bitwise": same_arrays(found.state, reference.state),
        "worst": {"name": apart.where, "relative_error": apart.worst},
        "worst_of_largest": {"name": apart.largest[0], "error": apart.largest[1]},
        "plain_rerun_relative_error": difference(again, reference).worst,
        "overall_relative_error": apart.overall,
        "loss": {"plain": reference.loss, "optimized": found.loss},
    }


def reported_seconds(
    graph: Graph, cost: float, measured: float | None, plain_measured: float | None
) -> dict[str, float | None]:
    """Return the seconds of a scheduled step of ``cost`` and of the plain step, predicted and measured.
    ``predicted_today`` is scaled by how long the plain step takes now.
    """
    in_seconds = graph.cost_unit is CostUnit.SECONDS
    scaled = in_seconds and plain_measured and graph.base_cost
    return {
        "predicted": cost if in_seconds else None,
        "predicted_today": cost * (plain_measured or 0.0) / graph.base_cost if scaled else None,
        "measured": measured,
        "plain_predicted": graph.base_cost if in_seconds else None,
        "plain_measured": plain_measured,
    }


def relative_error(found: np.ndarray, expected: np.ndarray, scale: float) -> float:
    """Return how much ``found`` differs from ``expected``, relatively. ‖found − expected‖ / max(‖expected‖,
    10⁻⁴ ``scale``) in double precision, where ``scale`` is the norm of all gradients together. Infinity where
    one of them alone is not finite in some place.
    """
    return _share(total_norm([_apart(found, expected)]), max(finite_norm([expected]), _NEGLIGIBLE * scale))


def total_norm(tensors: Sequence[np.ndarray]) -> float:
    return math.sqrt(sum(float(np.square(np.abs(_wide(tensor))).sum()) for tensor in tensors))


def finite_norm(tensors: Sequence[np.ndarray]) -> float:
    return total_norm([np.where(np.isfinite(tensor), tensor, 0) for tensor in tensors])


def same_arrays(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
    """Return whether arrays are equal, NaN for NaN."""
    return all(_same(one, other) for one, other in zip(found, expected, strict=True))


def _same(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.array_equal(found, expected)) or (
        found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    )


def _may_differ_by_rounding(value: np.ndarray) -> bool:
    return value.dtype.kind not in "biuOSU"


def _wide(tensor: np.ndarray) -> np.ndarray:
    return tensor.astype(np.complex128 if np.iscomplexobj(tensor) else np.float64)


def _apart(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return ``found`` − ``expected`` in double precision. Equal elements give 0, also NaN and infinite ones;
    elements that differ give infinity if one of them is not finite."""
    got, wanted = _wide(found), _wide(expected)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    both = np.isfinite(got) & np.isfinite(wanted)
    apart = np.where(same, 0.0, np.inf).astype(got.dtype)
    np.subtract(got, wanted, out=apart, where=both & ~same)
    return apart


def _share(difference: float, size: float) -> float:
    share = difference / size if size > 0 else difference
    return share if math.isfinite(share) else math.inf
