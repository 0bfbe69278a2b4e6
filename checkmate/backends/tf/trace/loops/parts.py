"""Make the parts of loops that are split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.trace.loops.maker import LoopMaker
from checkmate.backends.tf.trace.loops.understood import Loop, Role, Split, limit_of, tensor_of, zeros_like
from checkmate.backends.tf.trace.op_kinds import source


@dataclass(eq=False)
class LoopParts:
    """Make the parts of the loops of ``splits`` in the graph ``target``.

    ``made``: what stands for each tensor of the trace, by name; it is filled in. ``lists``: per list of the
    forward loops, by its name in the trace, those of the parts. ``pieces``: per list that is read as one
    tensor what each part wrote.
    """

    target: Any
    made: dict[str, tf.Tensor]
    splits: Sequence[Split]
    lists: dict[str, dict[int, tf.Tensor]] = field(default_factory=dict)
    pieces: dict[str, dict[int, tf.Tensor]] = field(default_factory=dict)

    def split(self, loop: Loop, controls: Sequence[tf.Operation]) -> list[tf.Operation]:
        """Make the parts of ``loop`` in the order in which they run. There are none if it stays whole."""
        split = next((each for each in self.splits if loop.op.name in each.roles), None)
        if split is None:
            return []
        maker = LoopMaker(self.target, loop, self.made)
        backward = loop is not split.forward
        parts = list(range(len(split.ends)))
        state = maker.inputs()
        found: list[tf.Operation] = []
        for part in reversed(parts) if backward else parts:
            scope = f"{loop.op.name}_{part + 1}_of_{len(parts)}"
            start, end = split.starts[part], split.ends[part]
            inputs = self._inputs(split, loop, part, scope, state)
            if backward and start and (limit := limit_of(loop)) is not None:
                less = self._constant(start, inputs[limit].dtype, f"{scope}/start")
                inputs[limit] = tf.raw_ops.Sub(x=inputs[limit], y=less, name=f"{scope}/trips")
            stop = None if backward or part == parts[-1] else end
            found.append(maker.make(inputs, controls, scope, end=stop, trips=end - start))
            self._note_outputs(split, loop, part, scope, found[-1])
            for number, role in enumerate(split.roles[loop.op.name]):
                if role is Role.STATE:
                    state[number] = found[-1].outputs[number]
        for old, new in zip(loop.op.outputs, found[-1].outputs, strict=True):
            self.made[old.name] = new
        return found

    def joined(self, op: tf.Operation) -> tf.Operation | None:
        """Return what reads a list as one tensor, if parts wrote the list."""
        pieces = self.pieces.get(source(op.inputs[0]).name) if op.type == "TensorListStack" else None
        if pieces is None:
            return None
        values = [pieces[part] for part in sorted(pieces)]
        axis = self._constant(0, tf.int32, f"{op.name}/axis")
        return tf.raw_ops.ConcatV2(values=values, axis=axis, name=op.name).op

    def _inputs(
        self, split: Split, loop: Loop, part: int, scope: str, state: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the inputs of a part. ``state``: as the part before left it."""
        found = list(state)
        for number, role in enumerate(split.roles[loop.op.name]):
            given = loop.op.inputs[number]
            if role is Role.TAKEN:
                made = split.forward.op.outputs[split.taken[loop.op.name, number]]
                found[number] = self.lists[made.name][part]
            elif role in (Role.READ, Role.REPLACED):
                tensor = tensor_of(given)
                assert tensor is not None
                rows = self._rows(self.made[tensor.name], split, part, f"{scope}/given_{number}")
                found[number] = self._list(rows, split, part, f"{scope}/given_{number}")
            elif role is Role.SUMMED:
                like = zeros_like(given)
                assert like is not None
                rows = self._zeros(like, split, part, f"{scope}/zeros_{number}")
                found[number] = self._list(rows, split, part, f"{scope}/zeros_{number}")
        return found

    def _note_outputs(self, split: Split, loop: Loop, part: int, scope: str, copy: tf.Operation) -> None:
        """Note the lists that a part returns, and what it wrote for others."""
        for number, role in enumerate(split.roles[loop.op.name]):
            old, new = loop.op.outputs[number], copy.outputs[number]
            if role is Role.APPENDED:
                self.lists.setdefault(old.name, {})[part] = new
            elif role in (Role.WRITTEN, Role.SUMMED) and (readers := loop.readers(number)):
                stack = readers[0][0].outputs[0]
                scope_of = f"{scope}/written_{number}"
                piece = tf.raw_ops.TensorListGather(
                    input_handle=new,
                    indices=self._places(split, part, scope_of),
                    element_shape=self._constant(stack.shape[1:].as_list(), tf.int32, f"{scope_of}/shape"),
                    element_dtype=stack.dtype,
                    name=scope_of,
                )
                piece.set_shape([split.ends[part] - split.starts[part], *stack.shape[1:]])
                self.pieces.setdefault(old.name, {})[part] = piece

    def _rows(self, tensor: tf.Tensor, split: Split, part: int, scope: str) -> tf.Tensor:
        start, rest = split.starts[part], tensor.shape[1:].as_list()
        begin = self._constant([start, *(0 for _ in rest)], tf.int32, f"{scope}/begin")
        size = self._constant([split.ends[part] - start, *rest], tf.int32, f"{scope}/size")
        return tf.raw_ops.Slice(input=tensor, begin=begin, size=size, name=f"{scope}/rows")

    def _zeros(self, like: tf.Tensor, split: Split, part: int, scope: str) -> tf.Tensor:
        shape = [split.ends[part] - split.starts[part], *like.shape[1:]]
        dims = self._constant(shape, tf.int32, f"{scope}/shape")
        return tf.raw_ops.Fill(
            dims=dims, value=self._constant(0, like.dtype, f"{scope}/zero"), name=f"{scope}/fill"
        )

    def _list(self, rows: tf.Tensor, split: Split, part: int, scope: str) -> tf.Tensor:
        """Return a list as long as the loop's, with ``rows`` where needed."""
        return tf.raw_ops.TensorListScatterV2(
            tensor=rows,
            indices=self._places(split, part, scope),
            element_shape=self._constant(rows.shape[1:].as_list(), tf.int32, f"{scope}/element"),
            num_elements=self._constant(split.ends[-1], tf.int32, f"{scope}/length"),
            name=scope,
        )

    def _places(self, split: Split, part: int, scope: str) -> tf.Tensor:
        places = list(range(split.starts[part], split.ends[part]))
        return self._constant(places, tf.int32, f"{scope}/places")

    def _constant(self, value: Any, dtype: tf.DType, name: str) -> tf.Tensor:
        with self.target.control_dependencies(None):
            return tf.constant(np.asarray(value, dtype.as_numpy_dtype), dtype, name=name)
