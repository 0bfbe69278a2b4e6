"""Emit a schedule as a TensorFlow function for XLA to compile.

XLA ignores control edges, and orders ops by their data alone. So recomputations are *tied*: they read an
operand through a select that waits for a value of the steps before them. That is the value with the longest
path of computation behind it, since a value that is known early would delay nothing. A recomputation that
reads another one of the same run already waits through it, and a select of its own would keep XLA from fusing
the two: a dense network's smallest schedule took 25 MiB without such selects, and 40 with them. An
MLP-Mixer's took 17 MiB without, because XLA ran ahead, and 13 with them. So both are tried. Steps that run
once are tied only if all steps are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.costs.profile import node_operations
from checkmate.backends.tf.emit.copies import Copies, EmittedOutputs
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.walks import source
from checkmate.backends.tf.xla.cpu_help import ForCpu, Ties, can_be_tied, help_for, instead_of, tensor_bytes
from checkmate.backends.tf.xla.op_costs import SUMS, is_filter_slope, is_known_early, is_product
from checkmate.backends.xla_policy.for_cpu import Gate
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.ir import Schedule


@dataclass(frozen=True)
class XlaEmission:
    """How a step is emitted for XLA.

    ``tied``: which steps of a schedule wait. ``compiled``: False to run the same ops one by one without XLA,
    to compare results to the bit. ``region``: bytes that a CPU's allocator fetches at once before the first
    step.
    """

    tied: WaitPolicy = WaitPolicy.RUNS
    compiled: bool = True
    region: int = 0

    def op_by_op(self) -> XlaEmission:
        return replace(self, compiled=False)

    def to_json(self) -> dict[str, Any]:
        return {"tied": self.tied.name, "compiled": self.compiled, "region": self.region}


def emission_of(task: Mapping[str, Any]) -> XlaEmission | None:
    """Return how the step of a task is emitted; None: for the executor."""
    said = task.get("xla")
    if said is None:
        return None
    return XlaEmission(WaitPolicy[said["tied"]], bool(said["compiled"]), int(said["region"]))


@dataclass(eq=False)
class Depths:
    """The longest path of computation to each op seen so far, in operations."""

    known: dict[str, float] = field(default_factory=dict)

    def add(self, op: tf.Operation, cost: float) -> None:
        self.known[op.name] = cost + max((self.of(tensor) for tensor in op.inputs), default=0.0)

    def of(self, tensor: tf.Tensor) -> float:
        waiting = [tensor.op]
        while waiting:
            this = waiting[-1]
            unknown = [each.op for each in this.inputs if each.op.name not in self.known]
            if this.name not in self.known and unknown:
                waiting += unknown
                continue
            waiting.pop()
            if this.name not in self.known:
                self.known[this.name] = max((self.known[each.op.name] for each in this.inputs), default=0.0)
        return self.known[tensor.op.name]


def tied_step(
    folded: FoldedStep,
    schedule: Schedule,
    *,
    with_gradients: bool = False,
    tied: WaitPolicy = WaitPolicy.RUNS,
    compiled: bool = True,
) -> Callable[..., EmittedOutputs]:
    """Return the scheduled step as a function of flat inputs and labels, for
    ``tf.function(jit_compile=True)``.

    With ``WaitPolicy.NONE`` XLA merges all recomputations away, which is for experiments. The values to wait
    for are chosen by counted operations, not by the graph's measured costs, so that every process emits the
    same step. If not ``compiled`` (to compare results to the bit), no op is replaced by others.
    """
    schedule.require_graph(folded.graph)
    operations, steps = node_operations(folded), schedule.steps.tolist()
    for_cpu = help_for(folded, steps, tied, compiled=compiled)

    def step(*tensors: tf.Tensor) -> EmittedOutputs:
        emitter = _TiedEmitter(folded, tf.compat.v1.get_default_graph(), tensors, tied, operations, for_cpu)
        for position in for_cpu.order:
            emitter.emit_node(position, steps[position])
        emitter.scope = "end"
        emitter.emit_side_effects()
        return emitter.outputs(with_gradients=with_gradients)

    return step


@dataclass(eq=False)
class _TiedEmitter(Copies):
    """Copies ops in a schedule's order, with ties. ``operations``: per node."""

    tied: WaitPolicy
    operations: Sequence[float]
    cpu: ForCpu
    runs: dict[int, int] = field(default_factory=dict)  # how often each node was emitted
    waiting: set[str] = field(default_factory=set)  # new ops that already wait: of this run, or this step
    late: dict[str, tf.Tensor] = field(default_factory=dict)  # value → its tied copy, for later readers
    original: dict[str, str] = field(default_factory=dict)  # tied copy → the value's name
    before: tf.Tensor | None = None  # the value to wait for: the deepest one so far
    scope: str = "start"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ties, self._depths = Ties(self.arguments), Depths()
        self._gate: Gate[tf.Tensor] = Gate()

    def emit_node(self, position: int, node: int) -> None:
        members = self.folded.nodes[node]
        leaf = self.folded.graph.ops[node].name.rsplit("/", 1)[-1]
        self.scope = f"step{position}/{leaf}"
        again = self.runs.get(node, 0) > 0
        self.runs[node] = self.runs.get(node, 0) + 1
        waits = self.tied.holds(again=again)
        copies: list[tf.Operation] = []
        for member in members:
            inputs = self._inputs(member)
            if waits and not self._waits(inputs):
                inputs = self._tie(member, inputs)
            copy = self._made(member, self._helped(node, member, inputs))
            self.waiting.add(copy.name)
            self.current[member] = copy
            copies.append(copy)
            self._note(node, self.structure.ops[member], copy)
        self._pin(position, node)
        for copy in copies:
            self._depths.add(copy, self.operations[node] / len(copies))
        if not (again and self.tied.once):
            self._look_for_deepest(copies)
            self.waiting.clear()

    def _made(self, member: int, inputs: list[tf.Tensor]) -> tf.Operation:
        op, controls = self.structure.ops[member], self._controls(member)
        if self.cpu.rewrites:
            with tf.control_dependencies(controls or None), tf.name_scope(f"{self.scope}/instead"):
                made = instead_of(op, inputs, self._ties, self.scope)
            if made is not None:
                return made
        return self._copy(member, inputs, controls)

    def _helped(self, node: int, member: int, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        op, inputs = self.structure.ops[member], list(inputs)
        if self.cpu.helps and is_filter_slope(op) and can_be_tied(inputs[0]) and can_be_tied(inputs[2]):
            first, slope = inputs[0], inputs[2]
            inputs[0] = self._ties.tie(first, [slope], self.scope)  # costs nothing: XLA transposes it anyway
            if self.tied is WaitPolicy.HELD:  # else its copy is made while ``first`` is still recomputed
                inputs[2] = self._ties.tie(slope, [first], self.scope)
        if self._gate.waits(product=is_product(op), end=node in self.cpu.ends):
            number = self._operand(member, inputs, largest=False)
            if number is not None:
                most = max(tensor_bytes(tensor) for tensor in inputs if can_be_tied(tensor))
                if passed := self._gate.opened(tensor_bytes(inputs[number]), most):
                    inputs[number] = self._ties.tie(inputs[number], passed, self.scope)
        return inputs

    def _note(self, node: int, op: tf.Operation, copy: tf.Operation) -> None:
        if node in self.cpu.ends:
            made = [tensor for tensor in copy.outputs[:1] if can_be_tied(tensor)]
            self._gate.note(made, product=is_product(op), sums=op.type in SUMS)

    def _pin(self, position: int, node: int) -> None:
        for value in self.folded.graph.ops[node].outputs:
            index, output = self.folded.values[value]
            if self.cpu.pins(value, position) and output < len(self.current[index].outputs):
                made = self.current[index].outputs[output]
                self.late[made.name] = kept = self._ties.pin(made, self.scope)
                self.original[kept.name] = made.name
                self.waiting.add(kept.op.name)

    def _look_for_deepest(self, copies: Sequence[tf.Operation]) -> None:
        for tensor in (tensor for copy in copies for tensor in copy.outputs if can_be_tied(tensor)):
            if self.before is None or self._depths.of(tensor) >= self._depths.of(self.before):
                self.before = tensor

    def _waits(self, inputs: Sequence[tf.Tensor]) -> bool:
        return any(_behind_views(tensor, self.waiting) for tensor in inputs)

    def _tensor(self, tensor: tf.Tensor) -> tf.Tensor:
        found = super()._tensor(tensor)
        return self.late.get(found.name, found)

    def _tie(self, member: int, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        number = self._operand(member, inputs, largest=self.tied is WaitPolicy.VALUES)
        if number is None or self.before is None:
            return inputs
        value = inputs[number]
        inputs[number] = tied = self._ties.tie(value, [self.before], self.scope)
        if self.tied is WaitPolicy.VALUES:
            name = self.original.get(value.name, value.name)
            self.late[name], self.original[tied.name] = tied, name
        return inputs

    def _operand(self, member: int, inputs: Sequence[tf.Tensor], *, largest: bool) -> int | None:
        # Tie the smallest floating-point operand, else the smallest other one, because a select may copy it;
        # or the ``largest``, if later readers are to wait for the value too. Constants are left out: XLA may
        # need them at compile time (a shape), and values made of constants alone take no memory.
        found: list[tuple[bool, int, int]] = []
        for number, (tensor, original) in enumerate(
            zip(inputs, self.structure.ops[member].inputs, strict=True)
        ):
            index = self.structure.index[source(original).op.name]
            if index in self._constant or not can_be_tied(tensor):
                continue
            if is_known_early(self.structure.ops[member], number):
                continue
            size = -tensor_bytes(tensor) if largest else tensor_bytes(tensor)
            found.append((not tensor.dtype.is_floating, size, number))
        return min(found)[2] if found else None

    def _copy(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        original = self.structure.ops[index]
        name = f"{self.scope}/{original.name.rsplit('/', 1)[-1]}"
        return private.create_op(self.graph, original, inputs, list(controls), name)


def _behind_views(tensor: tf.Tensor, names: set[str]) -> bool:
    op = tensor.op
    while op.name not in names:
        if op.type not in _ONE_INPUT_VIEWS:
            return False
        op = op.inputs[0].op
    return True


_ONE_INPUT_VIEWS = frozenset(
    {"Reshape", "Squeeze", "ExpandDims", "Identity", "StopGradient", "PreventGradient"}
)
