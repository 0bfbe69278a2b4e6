"""Emit a schedule as a TensorFlow function, with control dependencies that keep its peak.

The first ops of a step have control dependencies on the steps that it waits for. Without them the runtime
would merge identical copies and start ready ops as early as it can, and nothing would be saved. What a step
reads from the steps that it waits for passes gates, so that TensorFlow's graph passes merge nothing across
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.emit.copies import (
    Copies,
    EmittedOutputs,
    disguised_constant,
    disguised_input,
    value_of_constant,
)
from checkmate.backends.tf.emit.side_by_side import side_by_side
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.dataflow import OverVariable, Structure
from checkmate.backends.tf.trace.loops import is_branch, is_loop
from checkmate.backends.tf.trace.op_kinds import OpKind, is_cube, transposed_inputs
from checkmate.backends.tf.trace.replica import exchange, exchange_of
from checkmate.backends.tf.trace.walks import source
from checkmate.ir import Phase, Schedule

# oneDNN passes these gradients a workspace of their forward op, if they read that op's output directly,
# without a gate. That only adds an edge from the earlier op to the later one, so it makes no cycle. With a
# gate, the gradient of a pooling would take memory that is not predicted.
PAIRED_TYPES = frozenset({"MaxPoolGrad", "MaxPool3DGrad", "LRNGrad"})
# An op with this attribute can be rewritten if it reads or writes images or volumes. A dense bias cannot.
_FORMAT = "data_format"
_LEAST_RANK = 4
# Powers that have a kernel of their own.
_AS = {1.0: tf.identity, 2.0: tf.square, 0.5: tf.sqrt, -0.5: tf.math.rsqrt, -1.0: tf.math.reciprocal}


# TensorFlow's graph passes merge neighbours: padding with the convolution that reads it, a filter gradient
# with a bias gradient that reads the same tensor, a factor with the sum it is hoisted out of. They ignore
# control dependencies, so merging an op with one that it waits for makes a cycle ("nodes in a cycle"). A list
# of such pairs would never be complete. A gate separates each op from the ops that it waits for; ops without
# a gate between them have the same control dependencies, and may be merged.
@dataclass(eq=False)
class Gates:
    """The gates of steps that wait for the same ops.

    A gate is an op that forwards its input's buffer, has control dependencies, and is opaque to the graph
    passes: a placeholder with a default, which could be fed with anything. ``Identity`` would not do, because
    TensorFlow 2.21 removes it. On three models with all of the forward pass recomputed, gates changed no
    requested bytes, and step times within the noise.

    ``scope``: name prefix of the ops. ``before``: the ops waited for. ``made``: names of the ops emitted in
    these steps. ``waiting``: those of them, and gates, that cannot start before ``before`` has ended.
    """

    graph: Any
    scope: str
    before: Sequence[tf.Operation]
    made: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    passed: dict[str, tf.Tensor] = field(default_factory=dict)

    def read(self, tensor: tf.Tensor) -> tf.Tensor:
        # Integers (shapes, indices) need no gate, since no pass merges their readers; on a GPU they may be
        # in host memory.
        if tensor.op.name in self.made or not (tensor.dtype.is_floating or tensor.dtype.is_complex):
            return tensor
        if tensor.name not in self.passed:
            controls = [op for op in self.before if op is not tensor.op]
            with self.graph.control_dependencies(None), self.graph.control_dependencies(controls):
                gate = tf.raw_ops.PlaceholderWithDefault(
                    input=tensor, shape=tensor.shape, name=f"{self.scope}/gate"
                )
            self.passed[tensor.name] = gate
            self.waiting.add(gate.op.name)
        return self.passed[tensor.name]

    def waits(self, inputs: Sequence[tf.Tensor]) -> bool:
        return not self.before or any(tensor.op.name in self.waiting for tensor in inputs)

    def add(self, copy: tf.Operation, *, waits: bool) -> None:
        self.made.add(copy.name)
        if waits:
            self.waiting.add(copy.name)


def ordered_step(
    folded: FoldedStep, schedule: Schedule, *, with_gradients: bool = False
) -> Callable[..., EmittedOutputs]:
    """Return the scheduled step as a function of flat inputs and labels, to be traced by ``tf.function``.

    ``with_gradients`` keeps every gradient to the end, which changes the step's memory.
    """
    schedule.require_graph(folded.graph)
    steps = schedule.steps.tolist()
    order = side_by_side(folded, schedule)

    def step(*tensors: tf.Tensor) -> EmittedOutputs:
        emitter = _Emitter(folded, tf.compat.v1.get_default_graph(), tensors)
        for node, first, at_once in zip(steps, order.waits_for, order.iterations, strict=True):
            emitter.emit_node(node, first, at_once)
        emitter.emit_side_effects()
        return emitter.outputs(with_gradients=with_gradients, last=emitter.gates.before)

    return step


@dataclass(eq=False)
class _Emitter(Copies):
    gates: Gates = field(init=False)  # of what the step being emitted waits for
    ended: int = 0  # how many steps that means
    ends: list[list[tf.Operation]] = field(default_factory=list)  # the last ops of each step
    waits_for: list[int] = field(default_factory=list)  # ``ended`` of each step
    read_at: dict[str, int] = field(default_factory=dict)  # op's name → the first step that reads it
    users: dict[str, list[int]] = field(default_factory=dict)  # variable → steps that use its present value

    def __post_init__(self) -> None:
        self.gates = Gates(self.graph, "start", ())
        super().__post_init__()
        self._keeps_layouts = self.folded.graph.device_kind == "gpu"
        self._late = False  # whether what is copied waits for the whole schedule
        self._iterations = 1  # of a loop that may run at once
        self._in_variables = {update.ops[0]: update for update in self.structure.in_variables}
        self._rewrites = private.rewrites_graphs()
        self._exponents = exponents(self.structure, self._constant) if self._rewrites else {}
        self._assigned = {update.assign for update in self.structure.in_variables}

    def emit_node(self, node: int, first: int, iterations: int = 1) -> None:
        """Emit the next step: ``node``, to start when the ``first`` steps have ended."""
        self._iterations = iterations
        members = self.folded.nodes[node]
        self._begin(f"step{len(self.ends)}/{_leaf(self.folded.graph.ops[node].name)}", first)
        ops = self.structure.ops
        inside = {ops[member].name for member in members}
        read = {tensor.op.name for member in members for tensor in self._sources_within(member)}
        leaves: list[tf.Operation] = []
        gates, updates = self.gates, self.structure.phase(members[0]) is Phase.UPDATE
        if updates:
            self.gates = Gates(self.graph, gates.scope, [*gates.before, *self._ends_of_users(members)])
        before = self.gates.before
        for member in members:
            original = ops[member]
            starts = not any(tensor.op.name in inside for tensor in self._sources_within(member))
            controls = self._controls(member)
            inputs = self._inputs(member)
            # A loop or a condition starts with each input by itself, so a gate on one holds back no other. A
            # no-op joins the control dependencies, because TensorFlow drops one that repeats a data edge.
            if is_loop(original) or is_branch(original):
                controls += self._joined(before, self.gates.scope) if before else []
            elif updates or (starts and not self.gates.waits(inputs)):
                controls += before
            if member in self._in_variables:
                controls.append(self._let_go(self._in_variables[member], before))
            copy = self._copy(member, inputs, controls)
            self.gates.add(copy, waits=True)
            for tensor in self._sources_within(member):
                if (found := self.current.get(self.structure.index[tensor.op.name])) is not None:
                    self.read_at.setdefault(found.name, len(self.ends))
            self.current[member] = copy
            if updates:
                # Nothing in an update is fused, so its ops run one by one to hold less at once.
                before = leaves = [copy]
            elif original.name not in read or _calls(copy):
                leaves.append(copy)
            for name in self.structure.variables_read(member) | self.structure.variables_taken(member):
                self.users.setdefault(name, []).append(len(self.ends))
        self.ends.append(leaves)
        self.gates = gates

    def _ends_of_users(self, members: Sequence[int]) -> list[tf.Operation]:
        """Return the last ops of the steps that use the variables written by ``members``. The update waits
        for them, because TensorFlow copies a variable that it updates while a tensor read from it is in
        use."""
        written = set().union(*map(self.structure.variables_taken, members))
        steps = {step for name in written for step in self.users.pop(name, ()) if step >= self.ended}
        return [op for step in sorted(steps) for op in self.ends[step]]

    def _begin(self, scope: str, first: int) -> None:
        """Begin a step that starts when the ``first`` steps have ended."""
        if first > self.ended or not self.ends:
            steps = range(self.ended, first)
            ends = [op for step in steps for op in self.ends[step] if not self._ended_by(op, first)]
            # If one of the new steps has the present control dependencies, waiting for it implies them.
            if not any(self.waits_for[step] == self.ended for step in steps):
                ends = [*self.gates.before, *ends]
            # A loop's output may be ready before the loop has ended; a no-op with a control edge waits for
            # all.
            if first < len(self.ends) or any(map(_calls, ends)):
                ends = self._joined(ends, scope)
            self.ended, self.gates = first, Gates(self.graph, scope, ends)
        self.gates.scope = scope
        self.waits_for.append(self.ended)

    def _ended_by(self, op: tf.Operation, first: int) -> bool:
        """Return whether one of the ``first`` steps reads ``op``, so that waiting for that step is enough."""
        return self.read_at.get(op.name, first) < first and not _calls(op)

    def _joined(self, ops: Sequence[tf.Operation], scope: str) -> list[tf.Operation]:
        with self.graph.control_dependencies(None), self.graph.control_dependencies(ops):
            return [tf.no_op(name=f"{scope}/wait")]

    def _let_go(self, update: OverVariable, before: Sequence[tf.Operation]) -> tf.Operation:
        # An empty tensor is assigned to the variable until its new value is computed, so that only the tensor
        # that was read refers to the buffer. Nothing reads the variable in between: earlier readers are
        # emitted before, and later ones wait for the final assignment.
        reads = [self._operation(self.structure.ops[read]) for read in update.reads]
        read, ended = reads[-1], {op.name: op for op in (*reads, *before)}
        with (
            self.graph.control_dependencies(None),
            self.graph.control_dependencies(list(ended.values())),
            tf.device(read.device),
        ):
            shape = tf.raw_ops.PlaceholderWithDefault(input=tf.constant([0]), shape=[None])
            hidden = tf.raw_ops.Empty(shape=shape, dtype=read.outputs[0].dtype)
            name = f"{self.gates.scope}/let_go"
            return tf.raw_ops.AssignVariableOp(resource=read.inputs[0], value=hidden, name=name)

    def emit_side_effects(self) -> None:
        self._begin("end", len(self.ends))
        for index in self._light_stateful():
            self._late = index in self.structure.late_updates
            self._operation(self.structure.ops[index])
        self._late = False

    def _sources_within(self, member: int) -> list[tf.Tensor]:
        # A view between the node's own ops counts as the tensor behind it.
        found: list[tf.Tensor] = []
        for tensor in self.structure.ops[member].inputs:
            root = self.structure.root(tensor)
            found.append(tensor if root is None else self.structure.ops[root[0]].outputs[0])
        return found

    def _inputs(self, index: int) -> list[tf.Tensor]:
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
        original = source(tensor)
        found = self._tensor(original)
        index = self.structure.index[original.op.name]
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
            iterations=self._iterations,
        )

    def _turned(self, original: tf.Operation) -> dict[int, str]:
        return transposed_inputs(original) if self._rewrites else {}

    def _copy_light(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        late = self._late and index in self.structure.late_updates
        copy = self._copy(index, inputs, [*controls, *(self.gates.before if late else ())])
        self.gates.add(copy, waits=self.gates.waits(inputs))
        return copy


def _calls(op: tf.Operation) -> bool:
    return any(private.called_functions(op))


def _leaf(name: str) -> str:
    return name.rsplit("/", 1)[-1]


# On a GPU, TensorFlow's layout pass rewrites convolutions, poolings and biases from channels last to channels
# first where it expects faster kernels, with a transposition between such an op and any other. In a plain
# step most transpositions cancel out. In a scheduled step the gates keep them apart: the transposed copies
# remain, have no control dependencies, and live as long as the values that recomputation should free. So each
# op that the pass would rewrite is marked to be preserved by TensorFlow's graph rewriting. The mark is an
# attribute of the op, so it is saved in a SavedModel and survives inlining. The price is that the op is not
# fused with the bias and activation after it. On a CPU the pass does nothing, so no op is marked.
def has_layout(op: tf.Operation) -> bool:
    if _FORMAT not in op.node_def.attr:
        return False
    ranks = [tensor.shape.rank for tensor in (*op.inputs, *op.outputs)]
    return any(rank is None or rank >= _LEAST_RANK for rank in ranks)


# A general power takes many times as long as a product: 46 of the 253 ms of a BERT's step. Scheduled steps on
# a CPU run without TensorFlow's rewriting that sees to it.
def exponents(structure: Structure, constant: frozenset[int]) -> dict[int, float]:
    """Return the exponents of powers that have a kernel of their own, by the ops' indices."""
    found: dict[int, float] = {}
    for index in structure.heavy:
        op = structure.ops[index]
        if op.type != "Pow" or not op.outputs[0].dtype.is_floating:
            continue
        base, exponent = op.inputs
        if base.shape != op.outputs[0].shape or exponent.shape.num_elements() != 1:
            continue
        if structure.index[exponent.op.name] not in constant:
            continue
        value = float(value_of_constant(structure, exponent).item())
        if value in _AS or is_cube(op):
            found[index] = value
    return found


def power(
    graph: Any, base: tf.Tensor, exponent: float, controls: Sequence[tf.Operation], name: str
) -> tf.Operation:
    def made(function: Callable[..., tf.Tensor], name: str, *inputs: tf.Tensor) -> tf.Tensor:
        # TensorFlow leaves out a control edge that an input from the same context has.
        with graph.control_dependencies(None), graph.control_dependencies(list(controls)):
            return function(*inputs, name=name)

    if exponent not in _AS:  # the third power
        return made(tf.multiply, name, base, made(tf.square, f"{name}/square", base)).op
    return made(_AS[exponent], name, base).op
