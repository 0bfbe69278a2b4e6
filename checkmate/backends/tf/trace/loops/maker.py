"""Make copies of a loop that take values, not variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.trace.loops.functions import body_of_values, condition_of_values, reads_of
from checkmate.backends.tf.trace.loops.trips import TRIPS
from checkmate.backends.tf.trace.loops.understood import Loop


class LoopMaker:
    """Make copies of a loop that take values in place of its variables.

    ``made``: what stands for each tensor of the trace, by name.
    """

    def __init__(self, target: Any, loop: Loop, made: Mapping[str, tf.Tensor]) -> None:
        self.target, self.loop, self.made = target, loop, made
        inside = loop.condition.get_operations()
        free = not any(private.is_stateful(op) and op.type != "Placeholder" for op in inside)
        found = reads_of(loop.body, loop.fixed) if free else None
        self.stateless = found is not None
        self.values = found or {}
        self.functions: dict[str, str] = {}
        if self.values:
            name = loop.op.node_def.attr["body"].func.name
            self.functions["body"] = body_of_values(target, name, loop.body, self.values)
            self.functions["cond"] = self._condition(None)

    def _condition(self, end: int | None) -> str:
        name = self.loop.op.node_def.attr["cond"].func.name
        return condition_of_values(self.target, name, self.loop.condition, self.values, end)

    def inputs(self) -> list[tf.Tensor]:
        """Return the inputs of the loop; variables are read."""
        found = [self.made[tensor.name] for tensor in self.loop.op.inputs]
        for number, read in self.values.items():
            name = f"{self.loop.op.name}/{read.op.name.rsplit('/', 1)[-1]}"
            copy = private.create_op(self.target, read.op, [found[number]], [], name)
            private.keep_shape(read, copy.outputs[0])
            found[number] = copy.outputs[0]
        return found

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
        functions = self.functions if end is None else {**self.functions, "cond": self._condition(end)}
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
