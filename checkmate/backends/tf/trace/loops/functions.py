"""Make the functions of rewritten loops.

They are a body without reads, and a condition with an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.loops.trips import without_identities
from checkmate.backends.tf.trace.trace import execution_order


def reads_of(body: Any, fixed: frozenset[int]) -> dict[int, tf.Tensor] | None:
    """Return the variables that a loop's body only reads, by input number.

    Each comes with the tensor that is read. None where the body has any other side effect or state, or where
    a variable is not known to be the same in each iteration.
    """
    places = {id(place): number for number, place in enumerate(body.inputs)}
    found: dict[int, tf.Tensor] = {}
    for op in body.get_operations():
        if not private.is_stateful(op) or op.type == "Placeholder":
            continue
        number = places.get(id(without_identities(op.inputs[0]))) if op.inputs else None
        if op.type != "ReadVariableOp" or number not in fixed or not op.outputs[0].shape.is_fully_defined():
            return None
        found[number] = op.outputs[0]
    for number in found:
        others = {reader.type for reader in body.inputs[number].consumers()} - {"ReadVariableOp", "Identity"}
        if others or any(read.dtype != found[number].dtype for read in _reads(body, number)):
            return None
    return found


def _reads(body: Any, number: int) -> list[tf.Tensor]:
    return [
        op.outputs[0]
        for op in body.get_operations()
        if op.type == "ReadVariableOp" and without_identities(op.inputs[0]) is body.inputs[number]
    ]


def body_of_values(target: Any, name: str, body: Any, values: Mapping[int, tf.Tensor]) -> str:
    """Add to ``target`` the ``body`` that takes values, not variables.

    ``values``: for the number of each such input a tensor of its shape and dtype. Returns the function's
    name.
    """

    def build(graph: Any) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        made: dict[str, tf.Tensor] = {}
        inputs: list[tf.Tensor] = []
        for number, place in enumerate(body.inputs):
            like = values.get(number, place)
            inputs.append(private.placeholder_like(like, place.op.name))
            made[place.name] = inputs[-1]
            for read in _reads(body, number) if number in values else ():
                made[read.name] = inputs[-1]
        private.copy_functions(body, graph)
        copy_ops(graph, body, made)
        return inputs, [made[tensor.name] for tensor in body.outputs]

    return private.add_function(target, name, build)


def condition_of_values(
    target: Any, name: str, condition: Any, values: Mapping[int, tf.Tensor], end: int | None
) -> str:
    """Add to ``target`` the ``condition`` that takes values, not variables.

    With an ``end`` the loop also ends where its first state, a counter, has reached that. Returns the
    function's name.
    """

    def build(graph: Any) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        inputs = [
            private.placeholder_like(values.get(number, place), place.op.name)
            for number, place in enumerate(condition.inputs)
        ]
        made = {place.name: new for place, new in zip(condition.inputs, inputs, strict=True)}
        private.copy_functions(condition, graph)
        copy_ops(graph, condition, made)
        goes_on = made[condition.outputs[0].name]
        if end is not None:
            goes_on = tf.logical_and(goes_on, tf.less(inputs[0], tf.constant(end, inputs[0].dtype)))
        return inputs, [goes_on]

    return private.add_function(target, name, build)


def copy_ops(graph: Any, source: Any, made: dict[str, tf.Tensor]) -> None:
    """Copy the ops of ``source`` into ``graph``.

    ``made``: what stands for a tensor there, by name; it is filled in. An op that makes nothing else is not
    copied.
    """
    copies: dict[str, tf.Operation] = {}
    ops = source.get_operations()
    for op in (ops[number] for number in execution_order(ops)):
        if op.type == "Placeholder" or (op.outputs and all(tensor.name in made for tensor in op.outputs)):
            continue
        controls = [copies[control.name] for control in op.control_inputs if control.name in copies]
        copy = private.create_op(graph, op, [made[tensor.name] for tensor in op.inputs], controls, op.name)
        copies[op.name] = copy
        for old, new in zip(op.outputs, copy.outputs, strict=True):
            private.keep_shape(old, new)
            made[old.name] = new
