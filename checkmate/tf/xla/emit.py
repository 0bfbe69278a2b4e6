"""Emit a schedule as a TensorFlow function for XLA to compile.

XLA orders the ops of a step itself, by their data alone. So there are no control edges and no gates; only
recomputations are *tied* (``checkmate.tf.xla.ties``): they read through a select that waits for the step of
the schedule before them. What runs once is left to XLA. Light ops are copied once, when first needed; views
once per buffer that they look at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from checkmate.errors import ExportError
from checkmate.ir.schedule import Schedule
from checkmate.tf import private
from checkmate.tf.emit.constants import constant_ops, static_shape
from checkmate.tf.emit.emit import EmittedOutputs
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.trace.dataflow import Structure, source
from checkmate.tf.trace.op_kinds import SHAPE_TYPES, OpKind
from checkmate.tf.xla.ties import Ties, can_be_tied


def tied_step(
    folded: FoldedStep, schedule: Schedule, *, with_gradients: bool = False, ties: bool = True
) -> Callable[..., EmittedOutputs]:
    """Return the scheduled training step as a Python function for XLA.

    It takes flat inputs and labels, and is to be traced by ``tf.function`` with ``jit_compile=True``.
    ``with_gradients`` returns every gradient, for comparisons. Without ``ties`` XLA merges what is
    recomputed; that is for measurements of what ties do.

    Raises:
        ExportError: (when traced) the schedule reads what it has not computed.
    """
    schedule.require_graph(folded.graph)

    def step(*tensors: tf.Tensor) -> EmittedOutputs:
        emitter = _TiedEmitter(folded, tf.compat.v1.get_default_graph(), tensors, ties)
        for position, node in enumerate(schedule.steps.tolist()):
            emitter.emit_node(position, node)
        emitter.emit_side_effects()
        return emitter.outputs(with_gradients)

    return step


@dataclass(eq=False)
class _TiedEmitter:
    """Hold the state of one emission into ``graph``."""

    folded: FoldedStep
    graph: Any
    arguments: Sequence[tf.Tensor]
    tied: bool
    copied_once: dict[int, tf.Operation] = field(default_factory=dict)
    placeholders: dict[str, tf.Tensor] = field(default_factory=dict)
    current: dict[int, tf.Operation] = field(default_factory=dict)  # newest copy of each heavy op
    views: dict[tuple[int, tuple[str, ...]], tf.Operation] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)  # how often each node was emitted
    before: tuple[tf.Tensor, ...] = ()  # what the last step with a usable result made
    scope: str = "start"

    def __post_init__(self) -> None:
        private.copy_functions(self.traced_graph, self.graph)
        arguments = [tensor for tensor in self.folded.traced.function.inputs if tensor.dtype != tf.resource]
        self._captured = {inner.name: external for external, inner in private.captures(self.traced_graph)}
        plain = [tensor for tensor in arguments if tensor.name not in self._captured]
        self.placeholders = {inner.name: given for inner, given in zip(plain, self.arguments, strict=True)}
        self._constant = constant_ops(self.structure)
        self._ties = Ties(self.graph)

    @property
    def structure(self) -> Structure:
        """Return what is known of the traced step."""
        return self.folded.structure

    @property
    def traced_graph(self) -> Any:
        """Return the graph that the step was traced into."""
        return self.folded.traced.graph

    def emit_node(self, position: int, node: int) -> None:
        """Copy the ops of ``node``, tied to the step before if they run again."""
        members = self.folded.nodes[node]
        leaf = self.folded.graph.ops[node].name.rsplit("/", 1)[-1]
        self.scope = f"step{position}/{leaf}"
        again = self.runs.get(node, 0) > 0
        self.runs[node] = self.runs.get(node, 0) + 1
        copies: list[tf.Operation] = []
        fresh: set[str] = set()  # ops that wait for the step before
        for member in members:
            original = self.structure.ops[member]
            inputs = [self._tensor(tensor) for tensor in original.inputs]
            if again and self.tied and not self._waits(inputs, fresh):
                inputs = self._tie(member, inputs)
            copy = self._copy(member, inputs, self._controls(original))
            fresh.add(copy.name)
            self.current[member] = copy
            copies.append(copy)
        made = tuple(tensor for copy in copies for tensor in copy.outputs if can_be_tied(tensor))
        self.before = made or self.before

    def _waits(self, inputs: Sequence[tf.Tensor], fresh: set[str]) -> bool:
        """Return whether one of ``inputs`` is of this step, and so tied already."""
        return any(_behind_views(tensor, fresh) for tensor in inputs)

    def _tie(self, member: int, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return ``inputs`` with the smallest one tied to the step before."""
        number = self._operand(member, inputs)
        if number is None or not self.before:
            return inputs
        inputs[number] = self._ties.tie(inputs[number], self.before[-1], self.scope)
        return inputs

    def _operand(self, member: int, inputs: Sequence[tf.Tensor]) -> int | None:
        """Return which input to tie: the smallest of real numbers, else another.

        A constant may be an argument that XLA has to know when it compiles, such as a shape; and what is made
        of constants alone costs XLA no memory.
        """
        found: list[tuple[bool, int, int]] = []
        for number, (tensor, original) in enumerate(
            zip(inputs, self.structure.ops[member].inputs, strict=True)
        ):
            index = self.structure.index[source(original).op.name]
            if index in self._constant or not can_be_tied(tensor):
                continue
            real = tensor.dtype.is_floating
            found.append((not real, tensor.shape.num_elements() * tensor.dtype.size, number))
        return min(found)[2] if found else None

    def emit_side_effects(self) -> None:
        """Copy the light stateful ops that nothing has asked for yet."""
        self.scope = "end"
        for index, kind in enumerate(self.structure.kinds):
            op = self.structure.ops[index]
            if kind is OpKind.LIGHT and private.is_stateful(op) and op.type != "ReadVariableOp":
                self._operation(op)

    def outputs(self, with_gradients: bool) -> EmittedOutputs:
        """Return the tensors that leave the step, read from the newest copies."""
        traced = self.folded.traced
        kept = traced.gradients.values() if with_gradients else ()
        gradients = tuple(tuple(self._tensor(tensor) for tensor in tensors) for tensors in kept)
        predictions = tuple(self._tensor(tensor) for tensor in traced.predictions)
        return EmittedOutputs(self._tensor(traced.loss), predictions, gradients)

    def _copy(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        original = self.structure.ops[index]
        name = f"{self.scope}/{original.name.rsplit('/', 1)[-1]}"
        return private.create_op(self.graph, original, inputs, list(controls), name)

    def _tensor(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return what stands for the traced ``tensor`` at this place."""
        tensor = source(tensor)
        if tensor.op.type == "Placeholder":
            if tensor.name not in self.placeholders:
                self.placeholders[tensor.name] = private.capture(self.graph, self._captured[tensor.name])
            return self.placeholders[tensor.name]
        index = self.structure.index[tensor.op.name]
        if self.structure.kinds[index] is OpKind.FIXED and tensor.op.type in SHAPE_TYPES:
            return self._static_shape(index, tensor)
        return self._operation(tensor.op).outputs[tensor.value_index]

    def _operation(self, original: tf.Operation) -> tf.Operation:
        """Return what stands for the traced op ``original`` at this place."""
        index = self.structure.index[original.name]
        kind = self.structure.kinds[index]
        if kind is OpKind.HEAVY:
            if index not in self.current:
                raise ExportError(f"the schedule reads {original.name!r} before it is computed")
            return self.current[index]
        if kind is OpKind.VIEW:
            inputs = [self._tensor(tensor) for tensor in original.inputs]
            key = index, tuple(tensor.name for tensor in inputs)
            if key not in self.views:
                self.views[key] = self._copy(index, inputs, self._controls(original))
            return self.views[key]
        if index not in self.copied_once:
            self._copy_once(index)
        return self.copied_once[index]

    def _copy_once(self, index: int) -> None:
        """Copy a light or fixed op and every light op it needs, in their order."""
        wanted: set[int] = set()
        stack = [self.structure.ops[index]]
        while stack:
            op = stack.pop()
            number = self.structure.index[op.name]
            kind = self.structure.kinds[number]
            known = number in wanted or number in self.copied_once
            if known or kind in (OpKind.HEAVY, OpKind.DEAD) or op.type == "Placeholder":
                continue
            if kind is not OpKind.FIXED or op.type not in SHAPE_TYPES:
                stack.extend(source(tensor).op for tensor in op.inputs)
                stack.extend(op.control_inputs)
            wanted.add(number)
        for number in sorted(wanted):
            op = self.structure.ops[number]
            if self.structure.kinds[number] is not OpKind.VIEW and op.type not in SHAPE_TYPES:
                inputs = [self._tensor(tensor) for tensor in op.inputs]
                self.copied_once[number] = self._copy(number, inputs, self._controls(op))

    def _controls(self, original: tf.Operation) -> list[tf.Operation]:
        return [
            self._operation(control)
            for control in original.control_inputs
            if self.structure.kinds[self.structure.index[control.name]] is not OpKind.DEAD
        ]

    def _static_shape(self, index: int, tensor: tf.Tensor) -> tf.Tensor:
        key = (-1 - index, (str(tensor.value_index),))
        if key not in self.views:
            value = static_shape(tensor.op, tensor.value_index)
            with tf.control_dependencies(None):
                self.views[key] = tf.constant(value, dtype=tensor.dtype, name="shape").op
        return self.views[key].outputs[0]


def _behind_views(tensor: tf.Tensor, fresh: set[str]) -> bool:
    """Return whether ``tensor`` is of an op in ``fresh``, or a view of one."""
    op = tensor.op
    while op.name not in fresh:
        if op.type not in _ONE_INPUT_VIEWS:
            return False
        op = op.inputs[0].op
    return True


_ONE_INPUT_VIEWS = frozenset(
    {"Reshape", "Squeeze", "ExpandDims", "Identity", "StopGradient", "PreventGradient"}
)
