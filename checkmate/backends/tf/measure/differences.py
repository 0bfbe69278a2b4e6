"""Say how far the tensors of two runs of a step are apart."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Eight units in the last place, because one unit grows on its way back through a network; at most a percent.
_ROUNDING = {tf.float64: 2.0**-49, tf.float32: 2.0**-20, tf.float16: 2.0**-7, tf.bfloat16: 0.01}

# A gradient that is zero on paper (a bias before BatchNorm) is rounding noise. Its error is relative to this
# share of the norm of all gradients; else it would always look like 100 %.
_NEGLIGIBLE = 1e-4


def relative_error(found: np.ndarray, expected: np.ndarray, scale: float) -> float:
    """Return how much ``found`` differs from ``expected``, relatively.

    ‖found − expected‖ / max(‖expected‖, 10⁻⁴ ``scale``) in float64, where ``scale`` is the norm of all
    gradients together. Infinity where one of them alone is not finite in some place.
    """
    size = max(finite_norm([expected]), _NEGLIGIBLE * scale)
    return _share(total_norm([_difference(found, expected)]), size)


def _difference(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return ``found`` − ``expected`` in float64.

    It is 0 where both are the same, NaN and infinities too, and infinity where only one of them is finite.
    """
    got, wanted = found.astype(np.float64), expected.astype(np.float64)
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    both = np.isfinite(got) & np.isfinite(wanted)
    apart = np.where(same, 0.0, np.inf)
    return np.subtract(got, wanted, out=apart, where=both & ~same)


def _share(difference: float, size: float) -> float:
    """Return ``difference`` relative to ``size``, where that is not 0."""
    share = difference / size if size > 0 else difference
    return share if math.isfinite(share) else math.inf


def worst_of_largest(names: Sequence[str], pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, Any]:
    """Return which gradient differs most, and by how much.

    That is a share of the step's largest gradient.

    A gradient that is zero but for rounding differs from itself by as much as it is. Beside the others that
    is nothing.
    """
    differences = [total_norm([_difference(got, want)]) for got, want in pairs]
    largest = max((finite_norm([want]) for _, want in pairs), default=0.0)
    worst = int(np.argmax(differences)) if differences else 0
    most = differences[worst] if differences else 0.0
    return {"name": names[worst] if names else "", "error": _share(most, largest)}


def total_norm(tensors: Sequence[np.ndarray]) -> float:
    """Return the norm of all ``tensors`` as one vector, in float64."""
    return float(np.sqrt(sum(float(np.square(tensor.astype(np.float64)).sum()) for tensor in tensors)))


def finite_norm(tensors: Sequence[np.ndarray]) -> float:
    """Return the norm of what is finite in all ``tensors``, in float64."""
    finite = (np.where(np.isfinite(tensor), tensor, 0) for tensor in tensors)
    return total_norm(list(finite))


def overall_error(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], scale: float) -> float:
    """Return how far all of ``found`` together are off, relative to ``scale``."""
    pairs = zip(found, expected, strict=True)
    return _share(total_norm([_difference(got, want) for got, want in pairs]), scale)


def sum_rounding(ops: Iterable[tf.Operation]) -> float:
    """Return how much all gradients together may differ by rounding.

    The difference is relative; 0.0: nothing. Each op computes the same, but ``AddN`` begins with the first
    input whose memory it can take over (``forward_input_or_allocate_output`` in TensorFlow's
    aggregate_ops.cc). So three terms or more are added in an order that depends on what else is still in
    memory.
    """
    found = {op.outputs[0].dtype for op in ops if op.type == "AddN" and len(op.inputs) > 2}
    return max((_ROUNDING[dtype] for dtype in found if dtype in _ROUNDING), default=0.0)
