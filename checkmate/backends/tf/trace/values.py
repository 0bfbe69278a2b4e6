"""Copy a function, and what it calls, so that it takes values in place of variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.walks import execution_order, without_identities


def copied_body(
    graph: Any, function: Any, values: Mapping[int, tf.Tensor], without: Set[str] = frozenset()
) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
    """Copy the ops of ``function`` into ``graph``, but those named ``without``. ``values``: tensors like what
    is given in place of variables, by number of an input. Return the inputs, and what stands for each tensor.
    """
    made: dict[str, tf.Tensor] = {}
    inputs: list[tf.Tensor] = []
    for number, place in enumerate(function.inputs):
        inputs.append(private.placeholder_like(values.get(number, place), place.op.name))
        made |= {tensor.name: inputs[-1] for tensor in (place, *(_reads(place) if number in values else ()))}
    private.copy_functions(function, graph)
    copies: dict[str, tf.Operation] = {}
    ops = function.get_operations()
    for op in (ops[number] for number in execution_order(ops)):
        known = op.type == "Placeholder" or op.name in without
        if known or (op.outputs and all(tensor.name in made for tensor in op.outputs)):
            continue
        controls = [copies[control.name] for control in op.control_inputs if control.name in copies]
        copies[op.name] = _copied(graph, op, made, controls)
    return inputs, made


def _reads(variable: tf.Tensor) -> list[tf.Tensor]:
    reads = (op for op in variable.graph.get_operations() if op.type == "ReadVariableOp")
    return [op.outputs[0] for op in reads if without_identities(op.inputs[0]) is variable]


def _copied(
    graph: Any, op: tf.Operation, made: dict[str, tf.Tensor], controls: Sequence[tf.Operation]
) -> tf.Operation:
    given = [made[tensor.name] for tensor in op.inputs]
    pairs = enumerate(zip(op.inputs, given, strict=True))
    values = {number: new for number, (old, new) in pairs if old.dtype != new.dtype}
    if not values:
        return private.copy_op(graph, op, made, controls, op.name)
    if op.type in ("Identity", "VariableShape"):
        (output,), (value,) = op.outputs, given
        made[output.name] = value if op.type == "Identity" else tf.shape(value, output.dtype)
        return made[output.name].op
    functions, dtypes = dict[str, str](), list[tf.DType]()
    for name, body in private.called_bodies(op).items():
        before = len(op.inputs) - len(body.inputs)  # a branch is not given the condition
        functions[name], dtypes = _added(
            graph, name, body, {number - before: each for number, each in values.items()}
        )
    copy = private.create_stateless(graph, op, given, controls, op.name, functions, dtypes)
    for old, new in zip(op.outputs, copy.outputs, strict=True):
        if old.dtype == new.dtype:
            private.keep_shape(old, new)
        made[old.name] = new
    return copy


def _added(
    target: Any, name: str, function: Any, values: Mapping[int, tf.Tensor]
) -> tuple[str, list[tf.DType]]:
    """Add a copy of ``function`` to ``target``; return its name and the dtypes of its outputs."""
    dtypes: list[tf.DType] = []

    def build(graph: Any) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        inputs, made = copied_body(graph, function, values)
        outputs = [made[tensor.name] for tensor in function.outputs]
        dtypes[:] = [tensor.dtype for tensor in outputs]
        return inputs, outputs

    return private.add_function(target, name, build), dtypes
