"""Emit a schedule as a TensorFlow function that runs its ops in order.

Ops are copied into the new function step by step. A recomputation gets fresh copies of its ops; a reader is
wired to the newest copy at its place in the schedule. The first ops of each step run only after the last ops
of the step before (control dependencies). Without that the runtime merges identical copies and starts ready
ops as early as it can, and nothing is saved. Light ops are copied once, when first needed; views once per
step that looks at a buffer. What a step reads of earlier steps passes gates (``checkmate.tf.emit.barriers``),
so that TensorFlow's passes merge nothing across steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from checkmate.errors import ExportError
from checkmate.ir.graph import Phase
from checkmate.ir.schedule import Schedule
from checkmate.tf import private
from checkmate.tf.emit.barriers import PAIRED_TYPES, StepGates
from checkmate.tf.emit.constants import constant_ops, disguised_constant, disguised_input, static_shape
from checkmate.tf.emit.layout import has_layout, layout_is_chosen
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.trace.dataflow import Structure, source
from checkmate.tf.trace.inside import is_branch
from checkmate.tf.trace.op_kinds import SHAPE_TYPES, OpKind
from checkmate.tf.trace.trips import is_loop


@dataclass(frozen=True)
class EmittedOutputs:
    """Hold the tensors of the emitted step.

    These are the loss, the predictions, and the tensors of the gradients in the order of the trace. ``last``:
    the ops that end the schedule; what must not run beside it has to wait for them.
    """

    loss: tf.Tensor
    predictions: tuple[tf.Tensor, ...]
    gradients: tuple[tuple[tf.Tensor, ...], ...]
    last: tuple[tf.Operation, ...] = ()


def step_from_schedule(
    folded: FoldedStep, schedule: Schedule, *, with_gradients: bool = False
) -> Callable[..., EmittedOutputs]:
    """Return the scheduled training step as a Python function.

    It takes flat inputs and labels, and is to be traced by ``tf.function``. ``with_gradients`` keeps every
    gradient to the end, for comparisons; that changes the step's memory.

    Raises:
        ExportError: (when traced) the schedule reads what it has not computed.
    """
    schedule.require_graph(folded.graph)

    def step(*tensors: tf.Tensor) -> EmittedOutputs:
        emitter = _Emitter(folded, tf.compat.v1.get_default_graph(), tensors, with_gradients)
        for position, node in enumerate(schedule.steps.tolist()):
            emitter.emit_node(position, node)
        emitter.emit_side_effects()
        return emitter.outputs()

    return step


@dataclass(eq=False)
class _Emitter:
    """Hold the state of one emission into ``graph``."""

    folded: FoldedStep
    graph: Any
    arguments: Sequence[tf.Tensor]
    with_gradients: bool
    copied_once: dict[int, tf.Operation] = field(default_factory=dict)  # fixed and light ops, copied once
    placeholders: dict[str, tf.Tensor] = field(default_factory=dict)  # the trace's inputs and captures
    current: dict[int, tf.Operation] = field(default_factory=dict)  # newest copy of each heavy op
    views: dict[tuple[int, tuple[str, ...]], tf.Operation] = field(default_factory=dict)
    last: list[tf.Operation] = field(default_factory=list)  # the last ops of the step before
    gates: StepGates = field(init=False)  # the step being emitted
    gated: bool = True  # whether what is copied now reads earlier steps through gates

    def __post_init__(self) -> None:
        self._enter("start")
        private.copy_functions(self.traced_graph, self.graph)
        arguments = [tensor for tensor in self.folded.traced.function.inputs if tensor.dtype != tf.resource]
        inside = {inner.name: external for external, inner in private.captures(self.traced_graph)}
        plain = [tensor for tensor in arguments if tensor.name not in inside]
        self.placeholders = {inner.name: given for inner, given in zip(plain, self.arguments, strict=True)}
        self._captured = inside
        self._constant = constant_ops(self.structure)
        self._keeps_layouts = layout_is_chosen(self.folded.graph.device)
        self._late = False  # whether what is copied waits for the whole schedule

    @property
    def structure(self) -> Structure:
        """Return what is known of the traced step."""
        return self.folded.structure

    @property
    def traced_graph(self) -> Any:
        """Return the graph that the step was traced into."""
        return self.folded.traced.graph

    def emit_node(self, position: int, node: int) -> None:
        """Copy the ops of ``node`` behind everything emitted so far."""
        members = self.folded.nodes[node]
        self._enter(f"step{position}/{_leaf(self.folded.graph.ops[node].name)}")
        ops = self.structure.ops
        inside = {ops[member].name for member in members}
        read = {tensor.op.name for member in members for tensor in self._sources_within(member)}
        leaves: list[tf.Operation] = []
        # Nothing fuses in an update, so its ops can run one by one; side by side they hold more at once.
        one_by_one = self.structure.phase(members[0]) is Phase.UPDATE
        for member in members:
            original = ops[member]
            starts = one_by_one or not any(
                tensor.op.name in inside for tensor in self._sources_within(member)
            )
            controls = [self._operation(control) for control in original.control_inputs]
            self.gated = not starts or self._follows_by_data(member)
            inputs = self._inputs(member)
            # Each input of a loop or a condition goes its own way inside; that one waits holds back no other.
            if is_loop(original) or is_branch(original):
                controls += self._waiting()
            elif starts and not (self.gated and self.gates.waits(inputs)):
                controls += self.last
            copy = self._copy(member, inputs, controls)
            self.gates.add(copy, waits=True)
            self.gated = True
            self.current[member] = copy
            if one_by_one:
                self.last = leaves = [copy]
            elif original.name not in read:
                leaves.append(copy)
        self.last = leaves

    def _waiting(self) -> list[tf.Operation]:
        """Return an op that waits for the step before; none in the first step.

        It is an op of its own, because TensorFlow leaves out a control edge beside an edge of data.
        """
        if not self.last:
            return []
        with self.graph.control_dependencies(None), self.graph.control_dependencies(self.last):
            return [tf.no_op(name=f"{self.gates.scope}/wait")]

    def emit_side_effects(self) -> None:
        """Copy the light stateful ops that nothing has asked for yet.

        These are counters, moving averages and small updates.
        """
        self._enter("end")
        for index, kind in enumerate(self.structure.kinds):
            op = self.structure.ops[index]
            if kind is OpKind.LIGHT and private.is_stateful(op) and op.type != "ReadVariableOp":
                self._late = index in self.structure.late_updates
                self._operation(op)
        self._late = False

    def outputs(self) -> EmittedOutputs:
        """Return the tensors that leave the step, read from the newest copies."""
        traced = self.folded.traced
        gradients: tuple[tuple[tf.Tensor, ...], ...] = ()
        if self.with_gradients:
            gradients = tuple(
                tuple(self._tensor(t) for t in tensors) for tensors in traced.gradients.values()
            )
        predictions = tuple(self._tensor(tensor) for tensor in traced.predictions)
        return EmittedOutputs(self._tensor(traced.loss), predictions, gradients, tuple(self.last))

    def _sources_within(self, member: int) -> list[tf.Tensor]:
        """Return the tensors that ``member`` reads.

        A view between the node's own ops counts as the tensor behind it.
        """
        found: list[tf.Tensor] = []
        for tensor in self.structure.ops[member].inputs:
            root = self.structure.root(tensor)
            found.append(tensor if root is None else self.structure.ops[root[0]].outputs[0])
        return found

    def _enter(self, scope: str) -> None:
        """Begin the step ``scope``, behind everything copied so far."""
        self.gates = StepGates(self.graph, scope, self.last)

    def _follows_by_data(self, index: int) -> bool:
        """Return whether op ``index`` reads everything that ends the step before.

        Then no control edge to it would survive, because TensorFlow removes redundant ones. An op that keeps
        such an edge is only merged with ops that have the same edge.
        """
        read = {self.current[key[0]].name for key in self.structure.inputs(index) if key[0] in self.current}
        return all(op.name in read for op in self.last)

    def _inputs(self, index: int) -> list[tf.Tensor]:
        """Return what the copy of op ``index`` reads at this place."""
        original = self.structure.ops[index]
        paired = original.type in PAIRED_TYPES
        inputs = [self._tensor(tensor) if paired else self._read(tensor) for tensor in original.inputs]
        if (
            self.structure.kinds[index] is OpKind.HEAVY
            and (number := disguised_input(self.structure, self._constant, index)) is not None
        ):
            inputs[number] = disguised_constant(self.structure, self.graph, original.inputs[number])
        return inputs

    def _read(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return ``_tensor`` through a gate, if it is from an earlier step."""
        original = source(tensor)
        found = self._tensor(original)
        index = self.structure.index[original.op.name]
        if not self.gated:
            return found
        # Constants, parameters and inputs need no gate: no op runs there that a pass could move.
        if (
            index in self._constant
            or self.structure.kinds[index] is OpKind.FIXED
            or original.op.type == "ReadVariableOp"
        ):
            return found
        return self.gates.read(found)

    def _copy(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        original = self.structure.ops[index]
        direct = {tensor.op.name for tensor in inputs}
        after = {control.name: control for control in controls if control.name not in direct}
        name = f"{self.gates.scope}/{_leaf(original.name)}"
        preserved = self._keeps_layouts and has_layout(original)
        return private.create_op(
            self.graph, original, inputs, list(after.values()), name, preserved=preserved
        )

    def _tensor(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return what stands for the traced ``tensor`` at this place."""
        tensor = source(tensor)
        if tensor.op.type == "Placeholder":
            return self._placeholder(tensor)
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
            inputs = self._inputs(index)
            key = index, tuple(tensor.name for tensor in inputs)
            if key not in self.views:
                self.views[key] = self._copy(index, inputs, self._controls(original))
                self.gates.add(self.views[key], waits=self.gates.waits(inputs))
            return self.views[key]
        if index not in self.copied_once:
            self._copy_once(index)
        return self.copied_once[index]

    def _copy_once(self, index: int) -> None:
        """Copy a light or fixed op and every light op it needs.

        They are copied in the order of the trace; a chain may be thousands of ops long.
        """
        wanted: set[int] = set()
        stack = [self.structure.ops[index]]
        while stack:
            op = stack.pop()
            number = self.structure.index[op.name]
            kind = self.structure.kinds[number]
            if (
                kind in (OpKind.HEAVY, OpKind.DEAD)
                or number in wanted
                or number in self.copied_once
                or op.type == "Placeholder"
            ):
                continue
            if kind is not OpKind.FIXED or op.type not in SHAPE_TYPES:
                stack.extend(source(tensor).op for tensor in op.inputs)
                stack.extend(op.control_inputs)
            wanted.add(number)
        # No control edges order light ops, so only gates keep those of different steps apart.
        gated, self.gated = self.gated, True
        for number in sorted(wanted):
            if (
                self.structure.kinds[number] is not OpKind.VIEW
                and self.structure.ops[number].type not in SHAPE_TYPES
            ):
                inputs = self._inputs(number)
                controls = self._controls(self.structure.ops[number])
                if self._late and number in self.structure.late_updates:
                    controls += self.last
                self.copied_once[number] = self._copy(number, inputs, controls)
                self.gates.add(self.copied_once[number], waits=self.gates.waits(inputs))
        self.gated = gated

    def _controls(self, original: tf.Operation) -> list[tf.Operation]:
        return [
            self._operation(control)
            for control in original.control_inputs
            if self.structure.kinds[self.structure.index[control.name]] is not OpKind.DEAD
        ]

    def _placeholder(self, tensor: tf.Tensor) -> tf.Tensor:
        if tensor.name not in self.placeholders:
            self.placeholders[tensor.name] = private.capture(self.graph, self._captured[tensor.name])
        return self.placeholders[tensor.name]

    def _static_shape(self, index: int, tensor: tf.Tensor) -> tf.Tensor:
        """Return a constant shape in place of an op that computes it.

        The op would hold on to a big tensor only to ask for its shape.
        """
        key = (-1 - index, (str(tensor.value_index),))
        if key not in self.views:
            value = static_shape(tensor.op, tensor.value_index)
            with tf.control_dependencies(None):
                self.views[key] = tf.constant(value, dtype=tensor.dtype, name="shape").op
        return self.views[key].outputs[0]


def _leaf(name: str) -> str:
    return name.rsplit("/", 1)[-1]
