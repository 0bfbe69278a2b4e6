"""A training step's graph at another batch size: what grows, and by how much.

For a step traced at two batches, every size lies on the line through both. For a step traced once, a size of
s bytes at batch N becomes ceil(s·b/N) at batch b if it grows with the batch, and stays s for parameters and
their gradients. So sizes, and with them the peak of every schedule, never shrink as the batch grows, and a
schedule's extra cost stays the same share of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import UsageError
from checkmate.ir import Graph, Op, Phase, Value
from checkmate.ir.arrays import read_only

_INPUTS = "inputs"  # the part of the fixed bytes that holds the batch itself
_LARGEST_TOTAL = 2**61  # bytes; a graph's sizes stay well inside int64
# Facts of the origin that hold at any batch; the others hold at the traced batch only.
_KEPT_FACTS = ("loss", "optimizer", "notes", "built_from_layers")


@dataclass(frozen=True, eq=False)
class BatchScaling:
    """A graph, the batch size it is at, and the same graph at other batches.

    Every size is on the line through ``graph`` and the same step at a ``larger`` batch; None: the step was
    traced once. Costs are ``graph``'s, in proportion.

    Raises:
        UsageError: no batch size is known, two contradict each other, the two graphs are not the same step,
        or nothing in the graph grows with the batch.
    """

    graph: Graph
    batch: int = 0
    larger: Graph | None = None
    _made: dict[int, Graph] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.larger is not None:
            _require_same_step(self.graph, self.larger)
        object.__setattr__(self, "batch", _batch_of(self.graph, self.batch))
        graph, other = self.graph, self._other
        counted = (graph.producer >= 0) & (graph.owner == np.arange(graph.m))
        grown = (other.value_bytes > graph.value_bytes)[counted].any()
        if not grown and not (other.workspace_bytes > graph.workspace_bytes).any():
            raise UsageError(
                f"no value of {graph.name!r} grows with the batch, so every batch fits or none does"
            )

    @cached_property
    def _other(self) -> Graph:
        """The same step at another batch: as traced, or with all that grows doubled."""
        if self.larger is not None:
            return self.larger
        graph = self.graph
        inputs = min(graph.fixed.get(_INPUTS, 0), graph.fixed_bytes)
        return replace(
            graph,
            ops=tuple(
                op if op.phase is Phase.UPDATE else replace(op, workspace_bytes=2 * op.workspace_bytes)
                for op in graph.ops
            ),
            values=tuple(
                replace(value, bytes=2 * value.bytes) if grows else value
                for value, grows in zip(graph.values, self.grows.tolist(), strict=True)
            ),
            fixed_bytes=graph.fixed_bytes + inputs,
            fixed={**graph.fixed, _INPUTS: graph.fixed[_INPUTS] + inputs} if inputs else graph.fixed,
            batch_size=2 * self.batch,
        )

    @cached_property
    def grows(self) -> NDArray[np.bool_]:
        """bool[m]: whether the buffer that the value is in grows with the batch.

        Of a step that was traced once, what an update op reads or writes does not. Nor does what has a known
        shape without a dimension that is a multiple of the batch size.
        """
        graph = self.graph
        if self.larger is not None:
            own = self.larger.value_bytes > graph.value_bytes
        else:
            own = np.array([_has_batch(value, self.batch) for value in graph.values], np.bool_)
            for op in graph.ops:
                if op.phase is Phase.UPDATE:
                    own[[*op.inputs, *op.outputs]] = False
        return read_only(own[graph.owner], np.bool_)

    def largest(self) -> int:
        """The largest batch whose sizes can be stated at all."""
        other = self._other
        total = other.fixed_bytes + int(other.value_bytes.sum()) + int(other.workspace_bytes.sum())
        return max(self.batch, _LARGEST_TOTAL // max(1, total) * self._apart)

    @property
    def _apart(self) -> int:
        return (self._other.batch_size or 0) - self.batch

    def at(self, batch: int) -> Graph:
        """The last few graphs are kept."""
        if batch not in self._made:
            if len(self._made) > 64:
                self._made.clear()
            self._made[batch] = self._scaled(batch)
        return self._made[batch]

    def _scaled(self, batch: int) -> Graph:
        graph, other = self.graph, self._other

        def on_line(one: int, two: int) -> int:
            # Rounded up, so that what is a fraction of a byte per example is not left out.
            return max(0, one - (two - one) * (self.batch - batch) // self._apart)

        def value_at(one: Value, two: Value, grows: bool) -> Value:
            shape = one.shape
            if grows and shape is not None:
                shape = (batch, *shape[1:]) if shape[:1] == (self.batch,) else None
            return replace(one, bytes=on_line(one.bytes, two.bytes), shape=shape)

        def op_at(one: Op, two: Op) -> Op:
            # Two sizes that are equal at one batch by chance must not let a larger batch need less: peaks
            # never decrease.
            pairs = tuple(pair for pair in one.takes_over if pair in two.takes_over and self._alike(*pair))
            workspace = on_line(one.workspace_bytes, two.workspace_bytes)
            return replace(
                one, cost=one.cost * batch / self.batch, workspace_bytes=workspace, takes_over=pairs
            )

        traced: dict[str, object] = {"extrapolated_from_batch": self.batch}
        if self.larger is not None:
            traced = {"traced_at_batches": [self.batch, self.larger.batch_size]}
        kept = {key: graph.metadata[key] for key in _KEPT_FACTS if key in graph.metadata}
        return replace(
            graph,
            ops=tuple(map(op_at, graph.ops, other.ops)),
            values=tuple(map(value_at, graph.values, other.values, self.grows.tolist())),
            fixed_bytes=on_line(graph.fixed_bytes, other.fixed_bytes),
            fixed={name: on_line(held, other.fixed.get(name, held)) for name, held in graph.fixed.items()},
            batch_size=batch,
            metadata={**kept, **traced},
            declared_fingerprint=None,
        )

    def _alike(self, output: int, read: int) -> bool:
        one, other = int(self.graph.owner[output]), int(self.graph.owner[read])
        alike = all(graph.value_bytes[one] == graph.value_bytes[other] for graph in (self.graph, self._other))
        return alike and bool(self.grows[one] == self.grows[other])

    def note(self) -> str:
        made = self.graph.producer >= 0
        standing = int((made & ~self.grows).sum())
        still = f"{standing} of {int(made.sum())} values"
        if self.larger is not None:
            batches = f"{self.batch} and {self.larger.batch_size}"
            return (
                f"traced at batch sizes {batches}, and extrapolated from these; "
                f"costs are operation counts at {self.batch}; {still} do not grow"
            )
        if self.graph.origin.built_from_layers:
            return "built from its layers: every cost and size is in proportion to the batch, exactly"
        said = f"extrapolated from batch {self.batch}: costs and bytes grow in proportion"
        if standing:
            return f"{said}; {still} (gradients of parameters, scalars) do not grow"
        return f"{said}; this is so for all values, because none is known to be a parameter's gradient"


def with_fixed_bytes(graph: Graph, fixed_bytes: int | None) -> Graph:
    if fixed_bytes is None:
        return graph
    return replace(graph, fixed_bytes=fixed_bytes, fixed=MappingProxyType({"given": fixed_bytes}))


def _has_batch(value: Value, batch: int) -> bool:
    return value.shape is None or any(size > 0 and size % batch == 0 for size in value.shape)


def _batch_of(graph: Graph, given: int) -> int:
    stated = graph.batch_size or 0
    if given and stated and given != stated:
        raise UsageError(
            f"{graph.name!r} says that its batch size is {stated}, not {given}",
            hint="leave the batch size out",
        )
    if given or stated:
        return given or stated
    raise UsageError(
        f"{graph.name!r} does not say what batch size its bytes are for",
        hint="give it, e.g. batch_size=32",
    )


_APART = 2  # between the two batch sizes: odd ones by default, which seldom are some other dimension as well
FIRST_BATCH = 5


def traced_at_two(trace: Callable[[int], Graph], batch: int | None = None) -> BatchScaling:
    """Trace the step at ``batch`` and at a slightly larger one."""
    first = FIRST_BATCH if batch is None else batch
    return BatchScaling(trace(first), larger=trace(first + _APART))


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
            hint="try another batch size, or profile it at one batch size and give that graph file",
        )
    falls = (larger.value_bytes < graph.value_bytes).any() or (
        larger.workspace_bytes < graph.workspace_bytes
    ).any()
    if falls or larger.fixed_bytes < graph.fixed_bytes:
        raise UsageError(
            f"some sizes of {graph.name!r} shrink as the batch grows ({batches}), so other batch sizes "
            "cannot be extrapolated from them"
        )
