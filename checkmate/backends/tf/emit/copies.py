"""Copy the ops of a traced step into another graph.

A heavy op is copied when the schedule says so; its readers get the newest copy. Light and fixed ops are
copied once, when first needed; views once per buffer that they look at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.dataflow import Structure
from checkmate.backends.tf.trace.op_kinds import OpKind
from checkmate.backends.tf.trace.replica import this_replica
from checkmate.backends.tf.trace.walks import source


@dataclass(frozen=True)
class EmittedOutputs:
    """``last``: the ops that end the schedule; later ops wait for them, so as not to add to its peak."""

    loss: tf.Tensor
    predictions: tuple[tf.Tensor, ...]
    gradients: tuple[tuple[tf.Tensor, ...], ...]
    last: tuple[tf.Operation, ...] = ()


@dataclass(eq=False)
class Copies:
    """Copies the ops of ``folded`` into ``graph``, the body of a function of ``arguments``."""

    folded: FoldedStep
    graph: Any
    arguments: Sequence[tf.Tensor]
    copied_once: dict[int, tf.Operation] = field(default_factory=dict, kw_only=True)  # fixed and light ops
    placeholders: dict[str, tf.Tensor] = field(default_factory=dict, kw_only=True)  # inputs and captures
    current: dict[int, tf.Operation] = field(default_factory=dict, kw_only=True)  # newest of each heavy op
    views: dict[tuple[int, tuple[str, ...]], tf.Operation] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        self.replica = this_replica()
        private.copy_functions(self.traced_graph, self.graph)
        arguments = [tensor for tensor in self.folded.traced.function.inputs if tensor.dtype != tf.resource]
        inside = {inner.name: external for external, inner in self.traced_graph.captures}
        plain = [tensor for tensor in arguments if tensor.name not in inside]
        self.placeholders = {inner.name: given for inner, given in zip(plain, self.arguments, strict=True)}
        self._captured = inside
        self._constant = constant_ops(self.structure)

    @property
    def structure(self) -> Structure:
        return self.folded.structure

    @property
    def traced_graph(self) -> Any:
        return self.folded.traced.graph

    def _copy(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        raise NotImplementedError

    def _copy_light(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        return self._copy(index, inputs, controls)

    def _inputs(self, index: int) -> list[tf.Tensor]:
        return [self._tensor(tensor) for tensor in self.structure.ops[index].inputs]

    def _controls(self, index: int) -> list[tf.Operation]:
        return [self._operation(self.structure.ops[each]) for each in self.structure.waits_for(index)]

    def _tensor(self, tensor: tf.Tensor) -> tf.Tensor:
        tensor = source(tensor)
        if tensor.op.type == "Placeholder":
            return self._placeholder(tensor)
        index = self.structure.index[tensor.op.name]
        if self.structure.tells_shape(index):
            return self._static_shape(index, tensor)
        if self.structure.kinds[index] is OpKind.VIEW and tensor.op.type == "IdentityN":
            return self._view(index, [self._tensor(tensor.op.inputs[tensor.value_index])]).outputs[0]
        return self._operation(tensor.op).outputs[tensor.value_index]

    def _operation(self, original: tf.Operation) -> tf.Operation:
        index = self.structure.index[original.name]
        kind = self.structure.kinds[index]
        if kind is OpKind.HEAVY:
            return self.current[index]  # there is one: a node's inputs include all that its ops need
        if kind is OpKind.VIEW:
            return self._view(index, self._inputs(index))
        if index not in self.copied_once:
            self._copy_once(index)
        return self.copied_once[index]

    def _view(self, index: int, inputs: Sequence[tf.Tensor]) -> tf.Operation:
        key = index, tuple(tensor.name for tensor in inputs)
        if key not in self.views:
            self.views[key] = self._copy_light(index, inputs, self._controls(index))
        return self.views[key]

    def _copy_once(self, index: int) -> None:
        # Its inputs are copied first, in the trace's order; no recursion, for chains of thousands of ops.
        for number in self._not_copied(index):
            # Views are copied per buffer, and known shapes become constants; open shapes are computed.
            if self.structure.kinds[number] is not OpKind.VIEW and not self.structure.tells_shape(number):
                self.copied_once[number] = self._copy_light(
                    number, self._inputs(number), self._controls(number)
                )

    def _not_copied(self, index: int) -> list[int]:
        wanted: set[int] = set()
        stack = [index]
        while stack:
            number = stack.pop()
            known = number in wanted or number in self.copied_once
            heavy = self.structure.kinds[number] is OpKind.HEAVY
            if not known and not heavy and self.structure.ops[number].type != "Placeholder":
                wanted.add(number)
                stack += [*self.structure.reads(number), *self.structure.waits_for(number)]
        return sorted(wanted)

    def _light_stateful(self) -> Iterator[int]:
        for index, kind in enumerate(self.structure.kinds):
            op = self.structure.ops[index]
            if kind is OpKind.LIGHT and private.is_stateful(op) and op.type != "ReadVariableOp":
                yield index

    def emit_side_effects(self) -> None:
        for index in self._light_stateful():
            self._operation(self.structure.ops[index])

    def outputs(self, *, with_gradients: bool, last: Sequence[tf.Operation] = ()) -> EmittedOutputs:
        traced = self.folded.traced
        kept = traced.gradients.values() if with_gradients else ()
        gradients = tuple(tuple(self._tensor(tensor) for tensor in tensors) for tensors in kept)
        predictions = tuple(self._tensor(tensor) for tensor in traced.predictions)
        return EmittedOutputs(self._tensor(traced.loss), predictions, gradients, tuple(last))

    def _placeholder(self, tensor: tf.Tensor) -> tf.Tensor:
        if tensor.name not in self.placeholders:
            external = self._captured[tensor.name]
            if self.replica is not None:
                external = private.local_handle(external, self.replica)
            self.placeholders[tensor.name] = self.graph.capture(external)
        return self.placeholders[tensor.name]

    def _static_shape(self, index: int, tensor: tf.Tensor) -> tf.Tensor:
        # A constant: a copied Shape op would keep a big tensor live only to read its shape.
        key = (-1 - index, (str(tensor.value_index),))
        if key not in self.views:
            value = static_shape(tensor.op, tensor.value_index)
            with tf.control_dependencies(None):
                self.views[key] = tf.constant(value, dtype=tensor.dtype, name="shape").op
        return self.views[key].outputs[0]


_LONG = 256  # captured tensors of up to 128 elements are written into the function as constants


# TensorFlow folds an op of constant inputs when a function is first run, and the function keeps the result
# (up to 10 MiB each), which no schedule can free. The gradient of a loss that is a mean is such a tensor. So
# the constant is passed into the function as a disguised argument, and the op runs when its turn comes.
def constant_ops(structure: Structure) -> frozenset[int]:
    found: set[int] = set()
    for index, op in enumerate(structure.ops):
        sources = [structure.index[source(tensor).op.name] for tensor in op.inputs]
        computed = bool(sources) and all(each in found for each in sources) and not private.is_stateful(op)
        # An op that returns a known shape is constant, whatever its input.
        if op.type == "Const" or structure.tells_shape(index) or computed:
            found.add(index)
    return frozenset(found)


def disguised_input(structure: Structure, constant: frozenset[int], index: int) -> int | None:
    """Return which input of a heavy op to disguise. It holds real numbers, and is no heavy op's result.

    None where the op does not depend on constants alone, or reads no such input.
    """
    if index not in constant:
        return None
    for number, tensor in enumerate(structure.ops[index].inputs):
        if tensor.dtype.is_floating and structure.root(tensor) is None:
            return number
    return None


def disguised_constant(structure: Structure, graph: Any, tensor: tf.Tensor) -> tf.Tensor:
    value = value_of_constant(structure, tensor)
    flat = np.resize(value.ravel(), max(_LONG, value.size))
    with tf.init_scope():  # an eager tensor; one made inside the function would be a constant of it
        outside = tf.constant(flat, tensor.dtype)
    captured = graph.capture(outside)
    return tf.reshape(captured[: value.size], value.shape)


def value_of_constant(structure: Structure, tensor: tf.Tensor) -> np.ndarray:
    known: np.ndarray | None = tf.get_static_value(tensor)
    if known is not None:
        return known

    def copied() -> tf.Tensor:
        graph = tf.compat.v1.get_default_graph()
        made: dict[str, tf.Operation] = {}
        for index in sorted(_needed(structure, tensor)):
            original = structure.ops[index]
            if structure.tells_shape(index):
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
    found: set[int] = set()
    stack = [source(tensor).op]
    while stack:
        op = stack.pop()
        index = structure.index[op.name]
        if index not in found:
            found.add(index)
            if not structure.tells_shape(index):
                stack.extend(source(read).op for read in op.inputs)
    return found


def static_shape(op: tf.Operation, number: int) -> int | list[int]:
    """Return output ``number`` of an op of ``SHAPE_TYPES``; the shapes of its inputs are known."""
    shape: list[int] = op.inputs[number].shape.as_list()
    if op.type == "Size":
        return math.prod(shape)
    return len(shape) if op.type == "Rank" else shape
