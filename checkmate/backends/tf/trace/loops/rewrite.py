"""Copy a traced step with its loops split and free of variables.

A loop reads its variables in each iteration, so TensorFlow takes it for an op with side effects. The copy
reads them once, before the loop, and the loop can be run again. A loop whose lists hold much for its gradient
becomes several, one after the other, and so does the loop of its gradient. Each part of the forward loop
fills lists of its own for one part of the backward loop. The iterations, and what each computes, stay what
they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.dataflow import needed_ops
from checkmate.backends.tf.trace.loops.functions import reads_of
from checkmate.backends.tf.trace.loops.maker import LoopMaker
from checkmate.backends.tf.trace.loops.parts import LoopParts
from checkmate.backends.tf.trace.loops.tensor_lists import loop_lists, trip_count
from checkmate.backends.tf.trace.loops.understood import Loop, Split, loop_of, understood
from checkmate.backends.tf.trace.op_kinds import FIXED_TYPES, is_view, source
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.backends.tf.trace.trace import TracedStep
from checkmate.errors import DynamicShapeError
from checkmate.ir.graph import Phase

_LEAST_TRIPS = 4
_MOST_PARTS = 16  # more make a graph that takes longer to solve than it saves
_NOTABLE = 0.05  # of the bytes that the forward pass makes: what a loop's lists must hold to be split


def with_split_loops(traced: TracedStep) -> TracedStep:
    """Return ``traced`` with its loops rewritten; the same if it has none.

    Loops are not split where XLA compiles them: XLA has no lists that are scattered or gathered.
    """
    needed = frozenset(needed_ops(traced))
    loops = {
        op.name: found
        for op, phase in zip(traced.ops, traced.phases, strict=True)
        if op.name in needed and phase is not Phase.UPDATE and (found := loop_of(op, needed)) is not None
    }
    if not loops:
        return traced
    rewriter = _Rewriter(traced, loops, [] if traced.whole_loops else _splits(traced, loops))

    def step(*tensors: tf.Tensor) -> tf.Tensor:
        rewriter.run(tf.compat.v1.get_default_graph(), tensors)
        return rewriter.made[traced.loss.name]

    specs = (*traced.loaded.input_specs, *traced.loaded.label_specs)
    function = tf.function(step, autograph=False).get_concrete_function(*specs)
    ops = function.graph.get_operations()[: rewriter.count]
    made = rewriter.made
    return dataclasses.replace(
        traced,
        function=function,
        ops=tuple(ops),
        phases=tuple(rewriter.phases.get(op.name, Phase.FORWARD) for op in ops),
        loss=made[traced.loss.name],
        predictions=tuple(made[tensor.name] for tensor in traced.predictions),
        gradients={
            path: tuple(made[tensor.name] for tensor in found) for path, found in traced.gradients.items()
        },
        held=traced.variables,
        unsplit=traced.function,
    )


def _splits(traced: TracedStep, loops: Mapping[str, Loop]) -> list[Split]:
    """Return how to split the loops that are worth it and understood."""
    used = frozenset(source(tensor).name for op in traced.ops for tensor in op.inputs)
    made = _forward_bytes(traced, used)
    found: list[Split] = []
    taken: set[str] = set()
    for name, loop in loops.items():
        trips = trip_count(loop.op)
        if trips < _LEAST_TRIPS or reads_of(loop.body, loop.fixed) is None or name in taken:
            continue
        count = min(_MOST_PARTS, round(trips**0.5))
        ends = tuple(trips * (number + 1) // count for number in range(count))
        held = sum(each.bytes for each in loop_lists(traced.graph, loop.op, used).values())
        split = understood(loop, loops, trips, ends) if held >= _NOTABLE * made else None
        if split is not None and not taken.intersection(split.roles):
            found.append(split)
            taken.update(split.roles)
    return found


def _forward_bytes(traced: TracedStep, used: frozenset[str]) -> int:
    """Return about how many bytes the forward pass makes."""
    total = 0
    for op, phase in zip(traced.ops, traced.phases, strict=True):
        if phase not in (Phase.FORWARD, Phase.LOSS) or op.type in FIXED_TYPES or op.type == "ReadVariableOp":
            continue
        if is_view(op):
            continue
        total += sum(each.bytes for each in loop_lists(traced.graph, op, used).values())
        try:
            total += sum(tensor_bytes(tensor) for tensor in op.outputs)
        except DynamicShapeError:
            continue
    return total


@dataclass(eq=False)
class _Rewriter:
    """Hold the state of one copy.

    ``made``: what stands for each tensor of the trace, by name. ``ends``: what stands for each op, where
    others wait for it. ``phases``: the part of the step that each new op belongs to, by name.
    """

    traced: TracedStep
    loops: Mapping[str, Loop]
    splits: Sequence[Split]
    made: dict[str, tf.Tensor] = field(default_factory=dict)
    ends: dict[str, list[tf.Operation]] = field(default_factory=dict)
    phases: dict[str, Phase] = field(default_factory=dict)
    count: int = 0

    def run(self, target: Any, tensors: Sequence[tf.Tensor]) -> None:
        """Copy the step into ``target``; ``tensors``: its arguments."""
        graph = self.traced.graph
        private.copy_functions(graph, target)
        outside = {inner.name: external for external, inner in private.captures(graph)}
        left = iter(tensors)
        for tensor in self.traced.function.inputs:
            given = tensor.name in outside
            self.made[tensor.name] = private.capture(target, outside[tensor.name]) if given else next(left)
        parts = LoopParts(target, self.made, self.splits)
        for op, phase in zip(self.traced.ops, self.traced.phases, strict=True):
            before = len(target.get_operations())
            if op.type != "Placeholder":
                self._copy(target, op, parts)
            for new in target.get_operations()[before:]:
                self.phases[new.name] = phase
        self.count = len(target.get_operations())

    def _copy(self, target: Any, op: tf.Operation, parts: LoopParts) -> None:
        controls = [end for control in op.control_inputs for end in self.ends.get(control.name, ())]
        if op.name in self.loops:
            loop = self.loops[op.name]
            found = parts.split(loop, controls) or [self._whole(target, loop, controls)]
            self.ends[op.name] = found
            for number in loop.fixed:  # read what goes into the loop; nothing of it lives in the loop
                if op.outputs[number].dtype != tf.variant:
                    self.made[op.outputs[number].name] = self.made[op.inputs[number].name]
            return
        joined = parts.joined(op)
        if joined is None:
            inputs = [self.made[tensor.name] for tensor in op.inputs]
            joined = private.create_op(target, op, inputs, controls, op.name)
        self.ends[op.name] = [joined]
        for old, new in zip(op.outputs, joined.outputs, strict=True):
            private.keep_shape(old, new)
            self.made[old.name] = new

    def _whole(self, target: Any, loop: Loop, controls: Sequence[tf.Operation]) -> tf.Operation:
        """Copy a loop that stays one op; give it values of what it only reads."""
        maker = LoopMaker(target, loop, self.made)
        copy = maker.make(maker.inputs(), controls, loop.op.name)
        for old, new in zip(loop.op.outputs, copy.outputs, strict=True):
            self.made[old.name] = new
        return copy
