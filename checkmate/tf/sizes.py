"""How many bytes a tensor of the traced step occupies, lists of a loop's intermediates included."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.errors import DynamicShapeError
from checkmate.tf import private

_HANDLES = (tf.resource, tf.variant)
# Vectors of dimension numbers: of unknown length, but never longer than a tensor's rank.
_DIMENSION_LISTS = frozenset({"BroadcastGradientArgs", "BroadcastArgs"})
_RESERVE = ("FusedBatchNormV3", 5)  # room for a GPU's kernel, of unknown shape; empty on a CPU


def tensor_bytes(tensor: tf.Tensor) -> int:
    """Bytes of ``tensor``'s elements; 0 for a resource or variant handle (see ``list_bytes`` for tensor lists).

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


def list_bytes(graph: Any, op: tf.Operation) -> dict[int, int]:
    """Return output index → bytes for the tensor lists that a loop op returns: element size times trip count.

    A recurrent layer's ``While`` hands its intermediates to the backward loop as tensor lists, whose size no shape tells.
    The element's size is read off the op that appends to the list inside the loop's body, the number of elements off
    the op that reserved the list (or the loop's bound). Lists whose element cannot be found count as 0, and so do those
    whose elements are another's: a variable that is read in each iteration, the state that another list keeps too.
    """
    body_attribute = op.node_def.attr.get("body")
    if body_attribute is None:
        return {}
    body = private.function_body(graph, body_attribute.func.name)
    if body is None:
        return {}
    trips = _trip_count(op)
    carried = {id(place): value for place, value in zip(body.inputs, body.outputs, strict=False)}
    found: dict[int, int] = {}
    kept: set[int] = set()
    # Lists for the backward loop come last, and live longest: of two that share elements, theirs counts.
    for index, output in reversed(list(enumerate(op.outputs))):
        if output.dtype != tf.variant or index >= len(body.outputs):
            continue
        appended = _appended_tensor(body.outputs[index])
        if appended is None or appended.shape.rank is None or None in appended.shape.as_list():
            continue
        element = _without_identities(carried.get(id(_without_identities(appended)), appended))
        if element.op.type == "ReadVariableOp" or id(element) in kept:
            continue
        kept.add(id(element))
        found[index] = tensor_bytes(appended) * (_elements(op.inputs[index]) or trips)
    return found


def _without_identities(tensor: tf.Tensor) -> tf.Tensor:
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _appended_tensor(tensor: tf.Tensor) -> tf.Tensor | None:
    """The tensor that the loop's body adds to the list it returns as ``tensor``."""
    op = _without_identities(tensor).op
    if op.type == "TensorListPushBack":
        return op.inputs[1]
    if op.type == "TensorListSetItem":
        return op.inputs[2]
    return None


def _constant(tensor: tf.Tensor) -> int | None:
    value = tf.get_static_value(tensor)
    return int(np.asarray(value).reshape(-1)[0]) if value is not None and np.asarray(value).size else None


def _elements(tensor: tf.Tensor) -> int | None:
    """Return how many elements the list ``tensor`` has or is reserved for; None where nothing tells."""
    op = _without_identities(tensor).op
    count: int | None = None
    if op.type in ("TensorListReserve", "EmptyTensorList"):
        count = _constant(op.inputs[1])
    elif op.type == "TensorListFromTensor" and op.inputs[0].shape.rank:
        count = op.inputs[0].shape[0]
    return count if count is not None and count > 0 else None


def _trip_count(op: tf.Operation) -> int:
    """Return the length of the longest list that the loop is given; else its largest constant scalar, or 1."""
    lengths = [n for tensor in op.inputs if tensor.dtype == tf.variant and (n := _elements(tensor)) is not None]
    if lengths:
        return max(lengths)
    bounds = [value for tensor in op.inputs if tensor.shape.rank == 0 and (value := _scalar(tensor)) is not None]
    return max([value for value in bounds if value < 2**20], default=1)


def _scalar(tensor: tf.Tensor) -> int | None:
    return _constant(tensor) if tensor.dtype in (tf.int32, tf.int64) else None


def total_bytes(tensors: Iterable[tf.Tensor]) -> int:
    """Sum of ``tensor_bytes``."""
    return sum(tensor_bytes(tensor) for tensor in tensors)
