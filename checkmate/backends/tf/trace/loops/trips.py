"""Tell how often a loop's body runs, if that is known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private

TRIPS = "_checkmate_trips"
"""Attribute of a loop that is a part of another one: how often its body runs at most."""

_SUMS = frozenset({"Add", "AddV2"})


def is_loop(op: tf.Operation) -> bool:
    """Return whether ``op`` runs a function again and again."""
    return "body" in op.node_def.attr


def is_part(op: tf.Operation) -> bool:
    """Return whether the loop ``op`` runs some iterations of another one."""
    return TRIPS in op.node_def.attr


def without_identities(tensor: tf.Tensor) -> tf.Tensor:
    """Return ``tensor``, or the tensor behind plain identities."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def constant(tensor: tf.Tensor) -> int | None:
    """Return the value of an integer that is known; else None."""
    if tensor.dtype not in (tf.int32, tf.int64) or tensor.shape.num_elements() == 0:
        return None
    value = tf.get_static_value(tensor)
    return int(np.asarray(value).reshape(-1)[0]) if value is not None and np.asarray(value).size else None


def counted_trips(op: tf.Operation) -> int | None:
    """Return the trips of the loop ``op`` as its condition counts them.

    None where the condition compares no counter with a known number.
    """
    attributes = op.node_def.attr
    if TRIPS in attributes:
        return int(attributes[TRIPS].i)
    body = private.function_body(op.graph, attributes["body"].func.name)
    condition = private.function_body(op.graph, attributes["cond"].func.name)
    if body is None or condition is None:
        return None
    places = {id(place): number for number, place in enumerate(condition.inputs)}
    found: list[int] = []
    for less in _comparisons(condition.outputs[0]):
        number = places.get(id(without_identities(less.inputs[0])))
        if number is None:
            continue
        step, start = step_of(body, number), value_of(op.inputs[number])
        bound = without_identities(less.inputs[1])
        place = places.get(id(bound))
        end = constant(bound) if place is None else value_of(op.inputs[place])
        if step and start is not None and end is not None:
            found.append(max(0, -(-(end + (less.type == "LessEqual") - start) // step)))
    return min(found, default=None)


def _comparisons(tensor: tf.Tensor) -> Iterator[tf.Operation]:
    """Yield the comparisons that must all hold for ``tensor`` to be true."""
    op = without_identities(tensor).op
    if op.type == "LogicalAnd":
        for part in op.inputs:
            yield from _comparisons(part)
    elif op.type in ("Less", "LessEqual"):
        yield op


def step_of(body: Any, number: int) -> int | None:
    """Return what each iteration adds to input ``number`` of a loop's body. None where it is no counter."""
    op = without_identities(body.outputs[number]).op
    if op.type not in _SUMS:
        return None
    for place, other in (tuple(op.inputs), tuple(op.inputs)[::-1]):
        if without_identities(place) is body.inputs[number]:
            return constant(other)
    return None


def value_of(tensor: tf.Tensor) -> int | None:
    """Return the value of an integer, which may be a loop's last count."""
    op = without_identities(tensor).op
    if not is_loop(op):
        return constant(tensor)
    number = without_identities(tensor).value_index
    body = private.function_body(op.graph, op.node_def.attr["body"].func.name)
    trips, start = counted_trips(op), value_of(op.inputs[number])
    step = None if body is None else step_of(body, number)
    return None if trips is None or start is None or step is None else start + trips * step
