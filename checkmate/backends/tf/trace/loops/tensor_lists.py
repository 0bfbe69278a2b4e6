"""Count the bytes in lists of tensors, and find lists that share elements.

A recurrent layer runs its time steps in a loop. The loop reads its input from a list with one element per
time step. It hands what its gradient needs to the backward loop, in lists of the same length. The handle of a
list has no shape, so its size is read off the ops that made it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.loops.trips import (
    constant,
    counted_trips,
    is_loop,
    is_part,
    without_identities,
)
from checkmate.backends.tf.trace.sizes import tensor_bytes


@dataclass(frozen=True)
class LoopList:
    """Hold the size of a list that a loop returns, and where it came from.

    ``bytes``: the bytes of its elements, without those that another list of the loop counts.
    ``given``: the number of the loop's input whose list has the same bytes and dies into this one. Its
    elements are in both lists, or each is replaced in turn. None: the loop makes the elements itself.
    """

    bytes: int
    given: int | None = None


def is_zeros(op: tf.Operation) -> bool:
    """Return whether ``op`` makes a list of zeros like another list.

    It is the first value of a list of gradients.
    """
    return bool(op.type == "ZerosLike" and op.outputs[0].dtype == tf.variant)


def list_bytes(tensor: tf.Tensor) -> int:
    """Return the bytes of the list ``tensor``, if the loop did not fill it.

    Such a list is made from a tensor, or zeros like such a list, and may have passed through a loop. 0 for
    every other list: it is empty, or a loop fills it (``loop_lists``).
    """
    op = without_identities(tensor).op
    if op.type in ("TensorListFromTensor", "TensorListScatterV2"):
        return tensor_bytes(op.inputs[0])
    if is_zeros(op):
        return list_bytes(op.inputs[0])
    return list_bytes(op.inputs[without_identities(tensor).value_index]) if is_loop(op) else 0


def loop_lists(graph: Any, op: tf.Operation, read: Set[str]) -> dict[int, LoopList]:
    """Return the tensor lists that the loop ``op`` returns, by output index.

    ``read``: names of the tensors in use. What the loop appends counts as the size of an element times the
    trip count. The size of an element is read off the op that appends to the list inside the loop's body. The
    number of elements is read off the op that reserved the list (or the bound of the loop). Lists whose
    element cannot be found count as 0. So do lists whose elements belong to another: a variable that is read
    in each iteration, or the state that another list keeps too.
    """
    body = private.function_body(graph, op.node_def.attr["body"].func.name) if is_loop(op) else None
    if body is None:
        return {}
    trips = trip_count(op)
    places = {id(place): number for number, place in enumerate(body.inputs)}
    found: dict[int, LoopList] = {}
    kept: set[int] = set()
    # Lists for the backward loop come last and live longest: of two that share elements, count the later one.
    for index, output in reversed(list(enumerate(op.outputs))):
        if output.dtype != tf.variant or index >= len(body.outputs):
            continue
        found[index] = LoopList(0)
        given = list_bytes(op.inputs[index])
        if given:
            if output.name in read and id(body.inputs[index]) not in kept:
                found[index] = LoopList(given, index)
            continue
        appended = _appended_tensor(body.outputs[index])
        if appended is None or appended.shape.rank is None or None in appended.shape.as_list():
            continue
        element = without_identities(appended)
        if id(element) in places:
            # The state as the iteration found it; an earlier iteration made it, except for the first.
            element = without_identities(body.outputs[places[id(element)]])
        if id(element) in places and element is without_identities(body.outputs[places[id(element)]]):
            continue  # the loop was given it, and hands it on
        elements = _elements(op.inputs[index]) or trips
        size = tensor_bytes(appended) * (min(elements, trips) if is_part(op) else elements)
        # If the element comes from a list that the loop was given, that list's elements are in this one too.
        origin = (
            without_identities(element.op.inputs[0]) if element.op.type == "TensorListGetItem" else element
        )
        if element.op.type == "ReadVariableOp" or id(origin) in kept:
            continue
        kept.add(id(origin))
        source = places.get(id(origin))
        taken = source is not None and list_bytes(op.inputs[source]) == size
        found[index] = LoopList(size, source if taken else None)
    return found


def _appended_tensor(tensor: tf.Tensor) -> tf.Tensor | None:
    """Return the tensor that the loop's body adds to the list ``tensor``.

    ``tensor`` is the list as the body returns it.
    """
    op = without_identities(tensor).op
    if op.type == "TensorListPushBack":
        return op.inputs[1]
    if op.type == "TensorListSetItem":
        return op.inputs[2]
    return None


def _elements(tensor: tf.Tensor) -> int | None:
    """Return how many elements the list ``tensor`` has or is reserved for. None where nothing tells."""
    op = without_identities(tensor).op
    count: int | None = None
    if op.type in ("TensorListReserve", "EmptyTensorList"):
        count = constant(op.inputs[1])
    elif op.type == "TensorListFromTensor" and op.inputs[0].shape.rank:
        count = op.inputs[0].shape[0]
    return count if count is not None and count > 0 else None


def trip_count(op: tf.Operation) -> int:
    """Return how often the loop's body runs.

    Where its condition does not tell, it is the length of the longest list that the loop is given, or else
    the largest constant scalar, or else 1.
    """
    counted = counted_trips(op)
    if counted is not None:
        return counted
    lengths = [
        n for tensor in op.inputs if tensor.dtype == tf.variant and (n := _elements(tensor)) is not None
    ]
    if lengths:
        return max(lengths)
    bounds = [
        value for tensor in op.inputs if tensor.shape.rank == 0 and (value := constant(tensor)) is not None
    ]
    return max([value for value in bounds if value < 2**20], default=1)
