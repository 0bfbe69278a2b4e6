"""A training step traced at two batch sizes.

Every other size is on the line through both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import UsageError
from checkmate.ir.arrays import read_only
from checkmate.ir.graph import Graph, Op, Value
from checkmate.largest.scaling import LARGEST_TOTAL, BatchScaling

_APART = 2  # between the two batch sizes: odd ones by default, which seldom are some other dimension as well
FIRST_BATCH = 5


@dataclass(frozen=True, eq=False)
class TracedScaling(BatchScaling):
    """A graph and the same step at a larger batch.

    Costs are ``graph``'s, taken to be proportional to the batch.

    Raises:
        UsageError: the two differ in more than sizes, or a size falls with the batch.
    """

    larger: Graph = field(kw_only=True)

    def __post_init__(self) -> None:
        _require_same_step(self.graph, self.larger)
        super().__post_init__()

    @property
    def _apart(self) -> int:
        return (self.larger.batch_size or 0) - self.batch

    @cached_property
    def grows(self) -> NDArray[np.bool_]:
        """Return bool[m]: whether a value's buffer grows with the batch.

        It is the buffer that the value is in.
        """
        owner = self.graph.owner
        return read_only(self.larger.value_bytes[owner] > self.graph.value_bytes[owner], np.bool_)

    @cached_property
    def _workspace_grows(self) -> NDArray[np.bool_]:
        return np.asarray(self.larger.workspace_bytes > self.graph.workspace_bytes, np.bool_)

    def largest(self) -> int:
        """Return the largest batch whose sizes can be stated at all."""
        graph = self.larger
        total = graph.fixed_bytes + int(graph.value_bytes.sum()) + int(graph.workspace_bytes.sum())
        return max(self.batch, LARGEST_TOTAL // max(1, total) * self._apart)

    def _scaled(self, batch: int) -> Graph:
        graph, larger = self.graph, self.larger

        def on_line(one: int, other: int) -> int:
            # Rounded up, so that what is a fraction of a byte per example is not left out.
            return max(0, one - (other - one) * (self.batch - batch) // self._apart)

        values = [
            replace(self._value(value, batch) if grows else value, bytes=on_line(value.bytes, other.bytes))
            for value, other, grows in zip(graph.values, larger.values, self.grows.tolist(), strict=True)
        ]
        ops = [
            replace(
                scaled,
                workspace_bytes=on_line(op.workspace_bytes, other.workspace_bytes),
                takes_over=tuple(pair for pair in scaled.takes_over if pair in other.takes_over),
            )
            for op, other in zip(graph.ops, larger.ops, strict=True)
            for scaled in (self._op(op, batch),)
        ]
        return replace(
            graph,
            ops=tuple(ops),
            values=tuple(values),
            fixed_bytes=on_line(graph.fixed_bytes, larger.fixed_bytes),
            fixed={name: on_line(held, larger.fixed.get(name, held)) for name, held in graph.fixed.items()},
            batch_size=batch,
            metadata={**self._kept_facts, "traced_at_batches": [self.batch, self.larger.batch_size]},
            declared_fingerprint=None,
        )

    def _alike(self, output: int, read: int) -> bool:
        one, other = int(self.graph.owner[output]), int(self.graph.owner[read])
        return all(
            bool(graph.value_bytes[one] == graph.value_bytes[other]) for graph in (self.graph, self.larger)
        )

    def note(self) -> str:
        """Say what was traced, in a sentence."""
        return (
            f"traced at batch sizes {self.batch} and {self.larger.batch_size}, and extrapolated from these; "
            f"costs are operation counts at {self.batch}; {self.standing} of {self._produced} values do "
            "not grow"
        )


def traced_at_two(trace: Callable[[int], Graph], batch: int | None = None) -> TracedScaling:
    """Trace the step at ``batch`` and at a slightly larger one.

    Raises:
        UsageError: the two are not the same step. Whatever ``trace`` raises.
    """
    first = FIRST_BATCH if batch is None else batch
    return TracedScaling(trace(first), larger=trace(first + _APART))


def _require_same_step(graph: Graph, larger: Graph) -> None:
    def shape(op: Op) -> tuple[object, ...]:
        return op.type, op.phase, op.recomputable, op.inputs, op.outputs

    def place(value: Value) -> tuple[object, ...]:
        return value.keep, value.alias_of

    batches = f"{graph.batch_size} and {larger.batch_size}"
    same = [*map(shape, graph.ops)] == [*map(shape, larger.ops)]
    if not same or [*map(place, graph.values)] != [*map(place, larger.values)]:
        raise UsageError(
            f"the step of {graph.name!r} is not the same at batch sizes {batches}, so other batch sizes "
            "cannot be extrapolated from them",
            hint="try another with --batch-size, or profile it at one batch size and give that graph file",
        )
    falls = (larger.value_bytes < graph.value_bytes).any() or (
        larger.workspace_bytes < graph.workspace_bytes
    ).any()
    if falls or larger.fixed_bytes < graph.fixed_bytes:
        raise UsageError(
            f"some sizes of {graph.name!r} shrink as the batch grows ({batches}), so other batch sizes "
            "cannot be extrapolated from them"
        )
