"""Keep big constant tensors from being held in memory forever.

TensorFlow computes an op whose inputs are all constant once, when the function is first run, and keeps the
result (up to 10 MiB each). The gradient of a mean that is a loss by itself is such a tensor. A schedule
cannot free what the function holds. So the constant behind it is passed into the function as a disguised
argument, and the op runs when its turn comes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.dataflow import Structure
from checkmate.backends.tf.trace.op_kinds import SHAPE_TYPES, OpKind
from checkmate.backends.tf.trace.walks import source

_LONG = 256  # captured tensors of up to 128 elements are written into the function as constants


def constant_ops(structure: Structure) -> frozenset[int]:
    """Return the indices of the ops that depend on constants alone."""
    found: set[int] = set()
    for index, op in enumerate(structure.ops):
        sources = [structure.index[source(tensor).op.name] for tensor in op.inputs]
        computed = bool(sources) and all(each in found for each in sources) and not private.is_stateful(op)
        if op.type == "Const" or _is_shape(structure, index) or computed:
            found.add(index)
    return frozenset(found)


def disguised_input(structure: Structure, constant: frozenset[int], index: int) -> int | None:
    """Return which input of heavy op ``index`` to disguise.

    It is the first one that holds real numbers and is no heavy op's result. None where the op does not depend
    on constants alone, or reads no such input.
    """
    if index not in constant:
        return None
    for number, tensor in enumerate(structure.ops[index].inputs):
        if tensor.dtype.is_floating and structure.root(tensor) is None:
            return number
    return None


def disguised_constant(structure: Structure, graph: Any, tensor: tf.Tensor) -> tf.Tensor:
    """Return the value of a traced constant as a tensor in ``graph``.

    TensorFlow does not know that the tensor is constant.
    """
    value = value_of_constant(structure, tensor)
    flat = np.resize(value.ravel(), max(_LONG, value.size))
    with tf.init_scope():  # an eager tensor; one made inside the function would be a constant of it
        outside = tf.constant(flat, tensor.dtype)
    captured = private.capture(graph, outside)
    return tf.reshape(captured[: value.size], value.shape)


def value_of_constant(structure: Structure, tensor: tf.Tensor) -> np.ndarray:
    """Return the value of the constant ``tensor``."""
    known: np.ndarray | None = tf.get_static_value(tensor)
    if known is not None:
        return known

    def copied() -> tf.Tensor:
        graph = tf.compat.v1.get_default_graph()
        made: dict[str, tf.Operation] = {}
        for index in sorted(_needed(structure, tensor)):
            original = structure.ops[index]
            if _is_shape(structure, index):
                shapes = [
                    tf.constant(static_shape(original, n), t.dtype) for n, t in enumerate(original.outputs)
                ]
                made[original.name] = tf.identity_n(shapes)[0].op
                continue
            inputs = [made[read.op.name].outputs[read.value_index] for read in map(source, original.inputs)]
            made[original.name] = private.create_op(graph, original, inputs, [], f"constant/{index}")
        wanted = source(tensor)
        return made[wanted.op.name].outputs[wanted.value_index]

    with tf.init_scope():
        value: np.ndarray = tf.function(copied, autograph=False).get_concrete_function()().numpy()
    return value


def _needed(structure: Structure, tensor: tf.Tensor) -> set[int]:
    """Return the indices of the ops that ``tensor`` is computed from."""
    found: set[int] = set()
    stack = [source(tensor).op]
    while stack:
        op = stack.pop()
        index = structure.index[op.name]
        if index not in found:
            found.add(index)
            if not _is_shape(structure, index):
                stack.extend(source(read).op for read in op.inputs)
    return found


def _is_shape(structure: Structure, index: int) -> bool:
    """Return whether the op tells a shape that is known.

    Such an op is a constant, no matter which tensor's shape it tells.
    """
    return structure.kinds[index] is OpKind.FIXED and structure.ops[index].type in SHAPE_TYPES


def static_shape(op: tf.Operation, number: int) -> int | list[int]:
    """Return output ``number`` of an op of ``SHAPE_TYPES``. The shapes of its inputs are known."""
    shape: list[int] = op.inputs[number].shape.as_list()
    if op.type == "Size":
        return math.prod(shape)
    return len(shape) if op.type == "Rank" else shape
