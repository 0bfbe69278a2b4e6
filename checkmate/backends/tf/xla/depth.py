"""Tell how much has to be computed before a value is known.

A compiler orders ops by their data alone. So a value is known no earlier than the longest path of computation
that leads to it, and what waits for the value waits for that path.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import tensorflow as tf


@dataclass(eq=False)
class Depths:
    """Hold the longest path to each op seen so far, in the graph's unit."""

    known: dict[str, float] = field(default_factory=dict)

    def add(self, op: tf.Operation, cost: float) -> None:
        self.known[op.name] = cost + self._behind(op)

    def of(self, tensor: tf.Tensor) -> float:
        """Return the cost of the longest path to ``tensor``."""
        self._find(tensor.op)
        return self.known[tensor.op.name]

    def _behind(self, op: tf.Operation) -> float:
        return max((self.of(tensor) for tensor in op.inputs), default=0.0)

    def _find(self, op: tf.Operation) -> None:
        """Find the depth of ``op``; ops that were not added cost nothing."""
        waiting = [op]
        while waiting:
            this = waiting[-1]
            if this.name in self.known:
                waiting.pop()
                continue
            unknown = [tensor.op for tensor in this.inputs if tensor.op.name not in self.known]
            if unknown:
                waiting += unknown
            else:
                waiting.pop()
                self.known[this.name] = max((self.known[each.op.name] for each in this.inputs), default=0.0)
