"""Emit a schedule as a TensorFlow function for XLA to compile.

XLA orders the ops of a step itself, by their data alone. So there are no control edges and no gates; only
recomputations are *tied* (``checkmate.tf.xla.ties``): they read through a select that waits for a value of
the steps before them. That is the value with the longest path of computation behind it
(``checkmate.tf.xla.depth``): what is computed early would hold nothing back. A recomputation that reads one
of the same run waits by that already. A select of its own keeps XLA from fusing the two: a dense network's
smallest schedule takes 25 MiB without, and 40 with it. But an MLP-Mixer's took 17 MiB without, and 13 with
it, where XLA would run ahead. So both are tried. What runs once is left to XLA, unless all steps are tied.
Light ops are copied once, when first needed; views once per buffer that they look at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from checkmate.ir.schedule import Schedule
from checkmate.tf import private
from checkmate.tf.costs.operations import node_operations
from checkmate.tf.emit.copies import Copies, EmittedOutputs
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.trace.op_kinds import source
from checkmate.tf.xla.depth import Depths
from checkmate.tf.xla.ties import Tied, Ties, can_be_tied


def tied_step(
    folded: FoldedStep, schedule: Schedule, *, with_gradients: bool = False, tied: Tied = Tied.RUNS
) -> Callable[..., EmittedOutputs]:
    """Return the scheduled training step as a Python function for XLA.

    It takes flat inputs and labels, and is to be traced by ``tf.function`` with ``jit_compile=True``.
    ``with_gradients`` returns every gradient, for comparisons. Where nothing is ``tied`` XLA merges
    what is recomputed; that is for measurements of what ties do. What recomputations wait for is chosen by
    counts of operations, not by the graph's costs: every process has to emit the same step.

    Raises:
        ExportError: (when traced) the schedule reads what it has not computed.
    """
    schedule.require_graph(folded.graph)
    operations = node_operations(folded)

    def step(*tensors: tf.Tensor) -> EmittedOutputs:
        emitter = _TiedEmitter(folded, tf.compat.v1.get_default_graph(), tensors, tied, operations)
        for position, node in enumerate(schedule.steps.tolist()):
            emitter.emit_node(position, node)
        emitter.emit_side_effects()
        return emitter.outputs(with_gradients)

    return step


@dataclass(eq=False)
class _TiedEmitter(Copies):
    """Hold the state of one emission into ``graph``.

    ``operations``: of each node.
    """

    tied: Tied
    operations: Sequence[float]
    runs: dict[int, int] = field(default_factory=dict)  # how often each node was emitted
    waiting: set[str] = field(default_factory=set)  # ops of this run of recomputations, or of this step
    late: dict[str, tf.Tensor] = field(default_factory=dict)  # what stands for a value that waits by now
    original: dict[str, str] = field(default_factory=dict)  # of what stands for a value: the value's name
    before: tf.Tensor | None = None  # of what was made so far, what can be known last
    scope: str = "start"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ties = Ties(self.graph)
        self._depths = Depths()

    def emit_node(self, position: int, node: int) -> None:
        """Copy the ops of ``node``, tied to the step before if they run again."""
        members = self.folded.nodes[node]
        leaf = self.folded.graph.ops[node].name.rsplit("/", 1)[-1]
        self.scope = f"step{position}/{leaf}"
        again = self.runs.get(node, 0) > 0
        self.runs[node] = self.runs.get(node, 0) + 1
        waits = self.tied is Tied.ALL or (self.tied is not Tied.NONE and again)
        copies: list[tf.Operation] = []
        for member in members:
            inputs = self._inputs(member)
            if waits and not self._waits(inputs):
                inputs = self._tie(member, inputs)
            copy = self._copy(member, inputs, self._controls(member))
            self.waiting.add(copy.name)
            self.current[member] = copy
            copies.append(copy)
        for copy in copies:
            self._depths.add(copy, self.operations[node] / len(copies))
        if not (again and self.tied in (Tied.RUNS, Tied.VALUES)):
            self._look_for_deepest(copies)
            self.waiting.clear()

    def _look_for_deepest(self, copies: Sequence[tf.Operation]) -> None:
        """Remember what the next recomputation is to wait for."""
        for tensor in (tensor for copy in copies for tensor in copy.outputs if can_be_tied(tensor)):
            if self.before is None or self._depths.of(tensor) >= self._depths.of(self.before):
                self.before = tensor

    def _waits(self, inputs: Sequence[tf.Tensor]) -> bool:
        """Return whether one of ``inputs`` waits already, and so its reader."""
        return any(_behind_views(tensor, self.waiting) for tensor in inputs)

    def _tensor(self, tensor: tf.Tensor) -> tf.Tensor:
        """Return what stands for the traced ``tensor`` at this place."""
        found = super()._tensor(tensor)
        return self.late.get(found.name, found)

    def _tie(self, member: int, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
        """Return ``inputs`` with one of them tied to the step before."""
        number = self._operand(member, inputs)
        if number is None or self.before is None:
            return inputs
        value = inputs[number]
        inputs[number] = tied = self._ties.tie(value, self.before, self.scope)
        if self.tied is Tied.VALUES:
            name = self.original.get(value.name, value.name)
            self.late[name], self.original[tied.name] = tied, name
        return inputs

    def _operand(self, member: int, inputs: Sequence[tf.Tensor]) -> int | None:
        """Return which input to tie: the smallest of real numbers, else another.

        It is the largest where the value itself is to wait.
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
            size = tensor.shape.num_elements() * tensor.dtype.size
            size = -size if self.tied is Tied.VALUES else size
            found.append((not tensor.dtype.is_floating, size, number))
        return min(found)[2] if found else None

    def emit_side_effects(self) -> None:
        """Copy the light stateful ops that nothing has asked for yet."""
        self.scope = "end"
        for index in self._light_stateful():
            self._operation(self.structure.ops[index])

    def outputs(self, with_gradients: bool) -> EmittedOutputs:
        """Return the tensors that leave the step, read from the newest copies."""
        return self._outputs(with_gradients=with_gradients)

    def _copy(
        self, index: int, inputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> tf.Operation:
        original = self.structure.ops[index]
        name = f"{self.scope}/{original.name.rsplit('/', 1)[-1]}"
        return private.create_op(self.graph, original, inputs, list(controls), name)


def _behind_views(tensor: tf.Tensor, names: set[str]) -> bool:
    """Return whether ``tensor`` is of an op in ``names``, or a view of one."""
    op = tensor.op
    while op.name not in names:
        if op.type not in _ONE_INPUT_VIEWS:
            return False
        op = op.inputs[0].op
    return True


_ONE_INPUT_VIEWS = frozenset(
    {"Reshape", "Squeeze", "ExpandDims", "Identity", "StopGradient", "PreventGradient"}
)
