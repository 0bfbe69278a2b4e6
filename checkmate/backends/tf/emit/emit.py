"""Emit a schedule as a TensorFlow function that runs its ops in order.

Ops are copied into the new function step by step. A recomputation gets fresh copies of its ops; a reader is
wired to the newest copy at its place in the schedule. The first ops of each step run only after the last ops
of the step before (control dependencies). Without that the runtime merges identical copies and starts ready
ops as early as it can, and nothing is saved. Light ops are copied once, when first needed; views once per
step that looks at a buffer. What a step reads of earlier steps passes gates (``backends.tf.emit.barriers``),
so that TensorFlow's passes merge nothing across steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.emit.barriers import PAIRED_TYPES, StepGates
from checkmate.backends.tf.emit.constants import disguised_constant, disguised_input
from checkmate.backends.tf.emit.copies import Copies, EmittedOutputs, let_go
from checkmate.backends.tf.emit.layout import has_layout, layout_is_chosen
from checkmate.backends.tf.emit.powers import exponents, power
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.loops import is_branch, is_loop
from checkmate.backends.tf.trace.op_kinds import OpKind, transposed_inputs
from checkmate.backends.tf.trace.over_variables import OverVariable
from checkmate.backends.tf.trace.replica import exchange, exchange_of
from checkmate.backends.tf.trace.walks import source
from checkmate.ir.graph import Phase
from checkmate.ir.schedule import Schedule


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
class _Emitter(Copies):
    """Hold the state of one emission into ``graph``."""

    with_gradients: bool
    last: list[tf.Operation] = field(default_factory=list)  # the last ops of the step before
    gates: StepGates = field(init=False)  # the step being emitted
    gated: bool = True  # whether what is copied now reads earlier steps through gates

    def __post_init__(self) -> None:
        self._enter("start")
        super().__post_init__()
        self._keeps_layouts = layout_is_chosen(self.folded.graph.device)
        self._late = False  # whether what is copied waits for the whole schedule
        self._in_variables = {update.ops[0]: update for update in self.structure.in_variables}
        self._rewrites = private.rewrites_graphs()
        self._exponents = exponents(self.structure, self._constant) if self._rewrites else {}
        self._assigned = {update.assign for update in self.structure.in_variables}

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
            if member in self._in_variables:
                controls.append(self._let_go(self._in_variables[member]))
            copy = self._copy(member, inputs, controls)
            self.gates.add(copy, waits=True)
            self.gated = True
            self.current[member] = copy
            if one_by_one:
                self.last = leaves = [copy]
            elif original.name not in read:
                leaves.append(copy)
        self.last = leaves

    def _let_go(self, update: OverVariable) -> tf.Operation:
        """Have the variable of ``update`` let go of its buffer, which was read."""
        reads = [self._operation(self.structure.ops[read]) for read in update.reads]
        name = f"{self.gates.scope}/let_go"
        return let_go(self.graph, reads[-1], [*reads, *self.last], name)

    def _waiting(self) -> list[tf.Operation]:
        """Return an op that waits for the step before; none in the first step.

        It is an op of its own, because TensorFlow leaves out a control edge beside an edge of data.
        """
        if not self.last:
            return []
        with self.graph.control_dependencies(None), self.graph.control_dependencies(self.last):
            return [tf.no_op(name=f"{self.gates.scope}/wait")]

    def emit_side_effects(self) -> None:
        """Copy the light stateful ops that nothing has asked for yet."""
        self._enter("end")
        for index in self._light_stateful():
            self._late = index in self.structure.late_updates
            self._operation(self.structure.ops[index])
        self._late = False

    def outputs(self) -> EmittedOutputs:
        """Return the tensors that leave the step, read from the newest copies."""
        return self._outputs(with_gradients=self.with_gradients, last=self.last)

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
        sources = list(original.inputs)
        for turned in self._turned(original):
            sources[turned] = sources[turned].op.inputs[0]
        inputs = [self._tensor(tensor) if paired else self._read(tensor) for tensor in sources]
        if (
            self.structure.kinds[index] is OpKind.HEAVY
            and (number := disguised_input(self.structure, self._constant, index)) is not None
        ):
            inputs[number] = disguised_constant(self.structure, self.graph, sources[number])
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
        if self.replica is not None and (how := exchange_of(original)):
            with self.graph.control_dependencies(None), self.graph.control_dependencies(list(after.values())):
                return tf.identity(exchange(how, inputs[0]), name=name).op
        if (exponent := self._exponents.get(index)) is not None:
            return power(self.graph, inputs[0], exponent, list(after.values()), name)
        preserved = self._keeps_layouts and has_layout(original)
        return private.create_op(
            self.graph,
            original,
            inputs,
            list(after.values()),
            name,
            preserved=preserved,
            any_shape=index in self._assigned,
            turned=self._turned(original).values(),
        )

    def _turned(self, original: tf.Operation) -> dict[int, str]:
        """Return the inputs that the copy reads without their transposition."""
        return transposed_inputs(original) if self._rewrites else {}

    def _copy_light(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        late = self._late and index in self.structure.late_updates
        copy = self._copy(index, inputs, [*controls, *(self.last if late else ())])
        self.gates.add(copy, waits=self.gates.waits(inputs))
        return copy

    def _copy_once(self, index: int) -> None:
        # No control edges order light ops, so only gates keep those of different steps apart.
        gated, self.gated = self.gated, True
        super()._copy_once(index)
        self.gated = gated


def _leaf(name: str) -> str:
    return name.rsplit("/", 1)[-1]
