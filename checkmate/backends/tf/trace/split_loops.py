"""Copy a traced step with its loops split and free of variables.

A loop that reads variables in each iteration is an op with side effects to TensorFlow. The copy reads them
once, before the loop, and the loop can be run again. What each iteration writes goes from one to the next,
and into the variable after the loop. A loop whose lists hold much for its gradient becomes
several, and so does the loop of its gradient. Each part of the forward loop fills lists of its own for one
part of the backward loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.loop_roles import (
    Loop,
    Role,
    Split,
    loop_of,
    tensor_of,
    understood,
    zeros_like,
)
from checkmate.backends.tf.trace.loop_variables import hindrance, reads_of
from checkmate.backends.tf.trace.loops import TRIPS, loop_lists, trip_count
from checkmate.backends.tf.trace.op_kinds import FIXED_TYPES, is_view
from checkmate.backends.tf.trace.sizes import total_bytes
from checkmate.backends.tf.trace.trace import TracedStep, needed_ops
from checkmate.backends.tf.trace.values import copied_body
from checkmate.backends.tf.trace.walks import source
from checkmate.backends.tf.trace.whole_loops import LEAST_TRIPS, sentences_on
from checkmate.errors import DynamicShapeError
from checkmate.ir import Phase

_MOST_PARTS = 8  # each takes time of its own; with more, schedules cost no less and reach hardly further
_NOTABLE = 0.05  # of the bytes that the forward pass makes: what a loop's lists must hold to be split


def with_split_loops(traced: TracedStep) -> TracedStep:
    """Return ``traced`` with its loops rewritten, not split where XLA compiles them: it has no lists that are
    scattered."""
    needed = frozenset(needed_ops(traced))
    loops = {
        op.name: found
        for op, phase in zip(traced.ops, traced.phases, strict=True)
        if op.name in needed and phase is not Phase.UPDATE and (found := loop_of(op, needed)) is not None
    }
    if not loops:
        return traced
    splits, whole = _splits(traced, loops)
    rewriter = _Rewriter(traced, loops, splits)

    def step(*tensors: tf.Tensor) -> tf.Tensor:
        rewriter.run(tf.compat.v1.get_default_graph(), tensors)
        return made[traced.loss.name]

    made = rewriter.made
    function = tf.function(step, autograph=False).get_concrete_function(*traced.loaded.specs)
    ops = function.graph.get_operations()[: rewriter.count]
    return dataclasses.replace(
        traced,
        function=function,
        ops=tuple(ops),
        phases=tuple(rewriter.phases.get(op.name, Phase.FORWARD) for op in ops),
        loss=made[traced.loss.name],
        predictions=tuple(made[tensor.name] for tensor in traced.predictions),
        gradients={path: tuple(made[t.name] for t in found) for path, found in traced.gradients.items()},
        held=traced.variables,
        unsplit=traced.as_traced,
        whole=sentences_on(traced, whole),
    )


def _splits(traced: TracedStep, loops: Mapping[str, Loop]) -> tuple[list[Split], list[Loop]]:
    """Return how to split loops, and those of the forward pass that hold much and stay whole."""
    used = frozenset(source(tensor).name for op in traced.ops for tensor in op.inputs)
    made = _forward_bytes(traced, used)
    phases = {op.name: phase for op, phase in zip(traced.ops, traced.phases, strict=True)}
    found: list[Split] = []
    whole: list[Loop] = []
    taken: set[str] = set()
    for name, loop in loops.items():
        held = sum(each.bytes for each in loop_lists(loop.op, used).values())
        if name in taken or held < _NOTABLE * made:
            continue
        split = None if traced.whole_loops else _split(loop, loops)
        if split is not None and not taken.intersection(split.roles):
            found.append(split)
            taken.update(split.roles)
        elif phases[name] is not Phase.BACKWARD:
            whole.append(loop)
    return found, whole


def _split(loop: Loop, loops: Mapping[str, Loop]) -> Split | None:
    trips = trip_count(loop.op)
    if trips < LEAST_TRIPS or hindrance(loop) is not None:
        return None
    count = min(_MOST_PARTS, round(trips**0.5))
    return understood(loop, loops, trips, tuple(trips * (number + 1) // count for number in range(count)))


def _forward_bytes(traced: TracedStep, used: frozenset[str]) -> int:
    total = 0
    for op, phase in zip(traced.ops, traced.phases, strict=True):
        if phase not in (Phase.FORWARD, Phase.LOSS) or op.type in FIXED_TYPES or op.type == "ReadVariableOp":
            continue
        if is_view(op):
            continue
        total += sum(each.bytes for each in loop_lists(op, used).values())
        try:
            total += total_bytes(op.outputs)
        except DynamicShapeError:
            continue
    return total


@dataclass(eq=False)
class _Rewriter:
    """The state while a step is copied; everything is keyed by name. ``made``: tensor of the trace → its
    copy. ``ends``: op of the trace → the new ops that control edges from it become. ``phases``: new op →
    phase."""

    traced: TracedStep
    loops: Mapping[str, Loop]
    splits: Sequence[Split]
    made: dict[str, tf.Tensor] = field(default_factory=dict)
    ends: dict[str, list[tf.Operation]] = field(default_factory=dict)
    phases: dict[str, Phase] = field(default_factory=dict)
    count: int = 0

    def run(self, target: Any, tensors: Sequence[tf.Tensor]) -> None:
        function = self.traced.function
        private.copy_functions(function.graph, target)
        given = private.given_inputs(function, target, tensors)
        private.stand_for(function.inputs, given, self.made)
        parts = _LoopParts(target, self.made, self.splits)
        for op, phase in zip(self.traced.ops, self.traced.phases, strict=True):
            before = len(target.get_operations())
            if op.type != "Placeholder":
                self._copy(target, op, parts)
            for new in target.get_operations()[before:]:
                self.phases[new.name] = phase
        self.count = len(target.get_operations())

    def _copy(self, target: Any, op: tf.Operation, parts: _LoopParts) -> None:
        controls = [end for control in op.control_inputs for end in self.ends.get(control.name, ())]
        if op.name in self.loops:
            loop = self.loops[op.name]
            self.ends[op.name] = parts.copied(loop, controls)
            # A fixed or written input leaves the loop unchanged, so readers read the input itself.
            for number in (*loop.fixed, *loop.writes):
                if op.outputs[number].dtype != tf.variant:
                    self.made[op.outputs[number].name] = self.made[op.inputs[number].name]
        elif (joined := parts.joined(op)) is not None:
            private.stand_for(op.outputs, joined.outputs, self.made)
            self.ends[op.name] = [joined]
        else:
            self.ends[op.name] = [private.copy_op(target, op, self.made, controls, op.name)]


@dataclass(eq=False)
class _LoopParts:
    """Copies loops, split into parts. ``made``: name of a tensor of the trace → its copy, filled in here.
    ``lists``: list of a forward loop → by part, the part's own list. ``pieces``: list that is read as one
    tensor → by part, the elements written."""

    target: Any
    made: dict[str, tf.Tensor]
    splits: Sequence[Split]
    lists: dict[str, dict[int, tf.Tensor]] = field(default_factory=dict)
    pieces: dict[str, dict[int, tf.Tensor]] = field(default_factory=dict)

    def copied(self, loop: Loop, controls: Sequence[tf.Operation]) -> list[tf.Operation]:
        """Copy ``loop``; return its parts in the order in which they run, or the loop that stays whole."""
        maker = _LoopMaker(self.target, loop, self.made)
        split = next((each for each in self.splits if loop.op.name in each.roles), None)
        inputs = maker.inputs(controls)
        if split is None:
            found = [maker.make(inputs, controls, loop.op.name)]
        else:
            found = self._parts(split, loop, maker, inputs, controls)
        for old, new in zip(loop.op.outputs, found[-1].outputs, strict=True):
            self.made[old.name] = new
        return [*found, *maker.writes(inputs, found[-1].outputs, controls)]

    def _parts(
        self,
        split: Split,
        loop: Loop,
        maker: _LoopMaker,
        given: Sequence[tf.Tensor],
        controls: Sequence[tf.Operation],
    ) -> list[tf.Operation]:
        backward, count, length = loop is not split.forward, len(split.ends), split.ends[-1]
        state = list(given)
        found: list[tf.Operation] = []
        for number in reversed(range(count)) if backward else range(count):
            start, end = split.starts[number], split.ends[number]
            part = _Part(self.target, number, start, end, length, f"{loop.op.name}_{number + 1}_of_{count}")
            inputs = self._inputs(split, loop, part, state)
            if backward and start and loop.limit is not None:
                less = part.constant(start, inputs[loop.limit].dtype, "start")
                inputs[loop.limit] = tf.raw_ops.Sub(x=inputs[loop.limit], y=less, name=f"{part.scope}/trips")
            stop = None if backward or end == length else end
            found.append(maker.make(inputs, controls, part.scope, end=stop, trips=end - start))
            self._note_outputs(split, loop, part, found[-1])
            for place, role in enumerate(split.roles[loop.op.name]):
                if role is Role.STATE:
                    state[place] = found[-1].outputs[place]
        return found

    def joined(self, op: tf.Operation) -> tf.Operation | None:
        """Return what reads a list as one tensor, if parts wrote the list."""
        pieces = self.pieces.get(source(op.inputs[0]).name) if op.type == "TensorListStack" else None
        if pieces is None:
            return None
        axis = _constant(self.target, 0, tf.int32, f"{op.name}/axis")
        return tf.raw_ops.ConcatV2(
            values=[pieces[part] for part in sorted(pieces)], axis=axis, name=op.name
        ).op

    def _inputs(self, split: Split, loop: Loop, part: _Part, state: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        found = list(state)
        for number, role in enumerate(split.roles[loop.op.name]):
            given = loop.op.inputs[number]
            if role is Role.TAKEN:
                made = split.forward.op.outputs[split.taken[loop.op.name, number]]
                found[number] = self.lists[made.name][part.number]
            elif role in (Role.READ, Role.REPLACED) and (tensor := tensor_of(given)) is not None:
                rows = part.rows(self.made[tensor.name], f"given_{number}")
                found[number] = part.list_of(rows, f"given_{number}")
            elif role is Role.SUMMED and (like := zeros_like(given)) is not None:
                found[number] = part.list_of(part.zeros(like, f"zeros_{number}"), f"zeros_{number}")
        return found

    def _note_outputs(self, split: Split, loop: Loop, part: _Part, copy: tf.Operation) -> None:
        for number, role in enumerate(split.roles[loop.op.name]):
            old, new = loop.op.outputs[number], copy.outputs[number]
            if role is Role.APPENDED:
                self.lists.setdefault(old.name, {})[part.number] = new
            elif role in (Role.WRITTEN, Role.SUMMED) and (readers := loop.readers(number)):
                stack = readers[0][0].outputs[0]
                piece = part.written(new, stack, f"written_{number}")
                self.pieces.setdefault(old.name, {})[part.number] = piece


@dataclass(frozen=True, eq=False)
class _Part:
    """The iterations ``start`` to ``end`` of a loop of ``length``; its ops are named below ``scope``."""

    target: Any
    number: int
    start: int
    end: int
    length: int
    scope: str

    def rows(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        rest = tensor.shape[1:].as_list()
        begin = self.constant([self.start, *(0 for _ in rest)], tf.int32, f"{name}/begin")
        size = self.constant([self.end - self.start, *rest], tf.int32, f"{name}/size")
        return tf.raw_ops.Slice(input=tensor, begin=begin, size=size, name=f"{self.scope}/{name}/rows")

    def zeros(self, like: tf.Tensor, name: str) -> tf.Tensor:
        """Return as many zeros as the part has rows of ``like``."""
        shape = [self.end - self.start, *like.shape[1:]]
        dims = self.constant(shape, tf.int32, f"{name}/shape")
        zero = self.constant(0, like.dtype, f"{name}/zero")
        return tf.raw_ops.Fill(dims=dims, value=zero, name=f"{self.scope}/{name}/fill")

    def list_of(self, rows: tf.Tensor, name: str) -> tf.Tensor:
        """Return a list as long as the loop's, with ``rows`` where needed."""
        return tf.raw_ops.TensorListScatterV2(
            tensor=rows,
            indices=self._places(name),
            element_shape=self.constant(rows.shape[1:].as_list(), tf.int32, f"{name}/element"),
            num_elements=self.constant(self.length, tf.int32, f"{name}/length"),
            name=f"{self.scope}/{name}",
        )

    def written(self, handle: tf.Tensor, stack: tf.Tensor, name: str) -> tf.Tensor:
        """Return what the part wrote into the list ``handle``, which is read as ``stack``."""
        piece = tf.raw_ops.TensorListGather(
            input_handle=handle,
            indices=self._places(name),
            element_shape=self.constant(stack.shape[1:].as_list(), tf.int32, f"{name}/shape"),
            element_dtype=stack.dtype,
            name=f"{self.scope}/{name}",
        )
        piece.set_shape([self.end - self.start, *stack.shape[1:]])
        return piece

    def _places(self, name: str) -> tf.Tensor:
        return self.constant(list(range(self.start, self.end)), tf.int32, f"{name}/places")

    def constant(self, value: Any, dtype: tf.DType, name: str) -> tf.Tensor:
        return _constant(self.target, value, dtype, f"{self.scope}/{name}")


def _constant(target: Any, value: Any, dtype: tf.DType, name: str) -> tf.Tensor:
    with target.control_dependencies(None):
        return tf.constant(np.asarray(value, dtype.as_numpy_dtype), dtype, name=name)


class _LoopMaker:
    """Make copies of a loop that take values in place of its variables. ``made``: as in the parts."""

    def __init__(self, target: Any, loop: Loop, made: Mapping[str, tf.Tensor]) -> None:
        self.target, self.loop, self.made = target, loop, made
        inside = loop.condition.get_operations()
        free = not any(private.is_stateful(op) and op.type != "Placeholder" for op in inside)
        found = reads_of(loop) if free else None
        self.stateless = found is not None
        self.values = found or {}
        self.functions: dict[str, str] = {}
        if self.values:
            self.functions = {"body": self._function("body"), "cond": self._function("cond")}

    def inputs(self, controls: Sequence[tf.Operation]) -> list[tf.Tensor]:
        """Return the loop's inputs, with values in place of variables; a variable that the loop writes is
        read after ``controls``."""
        found = [self.made[tensor.name] for tensor in self.loop.op.inputs]
        for number, read in self.values.items():
            name = f"{self.loop.op.name}/{read.op.name.rsplit('/', 1)[-1]}"
            after = controls if number in self.loop.writes else ()
            copy = private.create_op(self.target, read.op, [found[number]], after, name)
            private.keep_shape(read, copy.outputs[0])
            found[number] = copy.outputs[0]
        return found

    def writes(
        self, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor], controls: Sequence[tf.Operation]
    ) -> list[tf.Operation]:
        """Write the ``outputs`` of the last part into the variables that ``inputs`` were read from."""
        made = []
        for number in self.loop.writes.keys() & self.values.keys():
            read, write = inputs[number].op, self.loop.writes[number]
            name = f"{self.loop.op.name}/{write.name.rsplit('/', 1)[-1]}"
            given = [read.inputs[0], outputs[number]]
            made.append(private.create_op(self.target, write, given, [*controls, read], name))
        return made

    def make(
        self,
        inputs: Sequence[tf.Tensor],
        controls: Sequence[tf.Operation],
        name: str,
        *,
        end: int | None = None,
        trips: int | None = None,
    ) -> tf.Operation:
        """Make a loop that also ends before iteration ``end``. It makes at most ``trips`` iterations."""
        functions = self.functions if end is None else {**self.functions, "cond": self._function("cond", end)}
        copy = private.create_loop(
            self.target,
            self.loop.op,
            inputs,
            controls,
            name,
            stateless=self.stateless,
            functions=functions,
            numbers={} if trips is None else {TRIPS: trips},
        )
        for number, (old, new) in enumerate(zip(self.loop.op.outputs, copy.outputs, strict=True)):
            if number not in self.values:
                private.keep_shape(old, new)
        return copy

    def _function(self, which: str, end: int | None = None) -> str:
        """Add the loop's function of values, which ends it at count ``end`` too; return its name."""
        function = self.loop.body if which == "body" else self.loop.condition
        writes = self.loop.writes if which == "body" else {}

        def build(graph: Any) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
            inputs, made = copied_body(
                graph, function, self.values, {write.name for write in writes.values()}
            )
            outputs = [made[tensor.name] for tensor in function.outputs]
            for number, write in writes.items():
                outputs[number] = made[write.inputs[1].name]
            if end is not None:
                goes_on = tf.less(inputs[0], tf.constant(end, inputs[0].dtype))
                outputs = [tf.logical_and(outputs[0], goes_on)]
            return inputs, outputs

        return private.add_function(self.target, self.loop.op.node_def.attr[which].func.name, build)
