"""How many bytes a tensor of the traced step occupies; for lists of tensors see ``checkmate.tf.lists``."""

from __future__ import annotations

import math
from collections.abc import Iterable

import tensorflow as tf

from checkmate.errors import DynamicShapeError

_HANDLES = (tf.resource, tf.variant)
# Vectors of dimension numbers: of unknown length, but never longer than a tensor's rank.
_DIMENSION_LISTS = frozenset({"BroadcastGradientArgs", "BroadcastArgs"})
_RESERVE = ("FusedBatchNormV3", 5)  # room for a GPU's kernel, of unknown shape; empty on a CPU


def tensor_bytes(tensor: tf.Tensor) -> int:
    """Bytes of ``tensor``'s elements; 0 for a resource or variant handle (for tensor lists see ``checkmate.tf.lists``).

    Raises:
        DynamicShapeError: a dimension is unknown.
    """
    if tensor.dtype in _HANDLES or tensor.dtype == tf.string or tensor.op.type in _DIMENSION_LISTS:
        return 0
    if (tensor.op.type, tensor.value_index) == _RESERVE:
        return 0
    if tensor.shape.rank is None or None in tensor.shape.as_list():
        raise DynamicShapeError(
            f"op {tensor.op.name!r} has output shape {tensor.shape}, so its size is not known before it runs",
            hint="give the inputs fixed shapes (--input-shape), or replace the layer that makes the shape data-dependent",
        )
    return int(math.prod(tensor.shape.as_list())) * int(tensor.dtype.size)


def bounded_bytes(tensor: tf.Tensor, known: dict[str, int]) -> int:
    """``tensor_bytes``, or an upper bound where the optimizer's handling of sparse gradients leaves a size open.

    Repeated rows of a sparse gradient are summed (``Unique``, segment sums, a branch around them): what comes out is never
    larger than the largest tensor that went in. ``known``: sizes found so far, by tensor name.
    """
    if tensor.name not in known:
        try:
            known[tensor.name] = tensor_bytes(tensor)
        except DynamicShapeError:
            known[tensor.name] = max((bounded_bytes(read, known) for read in tensor.op.inputs), default=0)
    return known[tensor.name]


def total_bytes(tensors: Iterable[tf.Tensor]) -> int:
    """Sum of ``tensor_bytes``."""
    return sum(tensor_bytes(tensor) for tensor in tensors)
