"""Take most of the equal blocks out of a step.

What is left is a step of the same kind with fewer blocks. Where an op that stays reads what a block that went
made, it reads the same value of the last block before the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import GraphError
from checkmate.ir.graph import Graph, Op, Value
from checkmate.solvers.repeats.find import RepeatedSection, Repeats


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A step with fewer blocks.

    ``ops``: int64[n], which op of the whole each of its ops is. ``left``: how many blocks it has.
    ``forward``: where its own blocks are in the forward pass.
    """

    graph: Graph
    ops: NDArray[np.int64]
    left: int
    forward: RepeatedSection


@dataclass(frozen=True)
class _Gap:
    """Ops that go: ``start`` to before ``stop``, of a section's ``period``."""

    start: int
    stop: int
    period: int

    def holds(self, op: int) -> bool:
        return self.start <= op < self.stop

    def stand_in(self, op: int) -> int:
        """Return the same op of the last block before the gap."""
        return op - -(-(op - self.start + 1) // self.period) * self.period


def shrink(graph: Graph, repeats: Repeats, left: int) -> Shrunk | None:
    """Return the step with ``left`` blocks; None if it cannot be made.

    ``left`` is at least 3. The blocks that go are in the middle.
    """
    away = repeats.count - left
    if away < 1:
        return None
    first = (left + 1) // 2
    forward = _gap(repeats.forward, first, away)
    backward = _backward_gap(graph, repeats, forward, away)
    if backward is None:
        return None
    try:
        small, ops = _without(graph, (forward, backward), repeats.backward.stop)
    except GraphError:
        return None
    section = RepeatedSection(repeats.forward.start, repeats.forward.period, repeats.forward.count - away)
    return Shrunk(small, ops, left, section)


def _gap(section: RepeatedSection, first: int, away: int) -> _Gap:
    start = section.start + first * section.period
    return _Gap(start, start + away * section.period, section.period)


def _backward_gap(graph: Graph, repeats: Repeats, forward: _Gap, away: int) -> _Gap | None:
    """Return the backward blocks that belong to the forward gap.

    They are those that leave the fewest reads of what the forward gap made.
    """
    section, producer = repeats.backward, graph.producer
    reads = np.array(
        [
            op
            for op in range(section.start, section.stop)
            for value in graph.ops[op].inputs
            if forward.holds(int(producer[value]))
        ],
        np.int64,
    )
    if not len(reads):
        return None
    length = away * section.period
    first = max(int(reads[0]), section.start + section.period)
    starts = np.arange(first, min(first + section.period, section.stop - length) + 1)
    if not len(starts):
        return None
    left = np.searchsorted(reads, starts) + len(reads) - np.searchsorted(reads, starts + length)
    # The last of them: the block after the gap reads what the gap handed on, and stays.
    start = int(starts[np.flatnonzero(left == left.min())[-1]])
    return _Gap(start, start + length, section.period)


def _without(graph: Graph, gaps: tuple[_Gap, _Gap], after: int) -> tuple[Graph, NDArray[np.int64]]:
    """Return the graph without the gaps, and which ops stayed.

    From op ``after`` on, what only reads from the gaps goes too: the updates of the blocks that went.

    Raises:
        GraphError: what is left is not a step.
    """
    gone = np.zeros(graph.n, np.bool_)
    for gap in gaps:
        gone[gap.start : gap.stop] = True
    stands_for = {value: value for value in range(graph.m)}
    for gap in gaps:
        for op in range(gap.start, gap.stop):
            twins = graph.ops[gap.stand_in(op)].outputs
            stands_for.update(zip(graph.ops[op].outputs, twins, strict=True))
    for op in range(after, graph.n):
        made = [value for value in graph.ops[op].inputs if graph.producer[value] >= 0]
        gone[op] = bool(made) and all(gone[graph.producer[value]] for value in made)
    ops = np.flatnonzero(~gone)
    return _renumbered(graph, ops, gone, stands_for), ops


def _renumbered(
    graph: Graph, ops: NDArray[np.int64], gone: NDArray[np.bool_], stands_for: dict[int, int]
) -> Graph:
    """Return the graph of ``ops``, with values numbered anew."""
    stay = [value for value in range(graph.m) if graph.producer[value] < 0 or not gone[graph.producer[value]]]
    number = {value: place for place, value in enumerate(stay)}

    def read(value: int) -> int | None:
        return number.get(stands_for[value])

    def op_of(op: Op) -> Op:
        inputs = tuple(dict.fromkeys(found for value in op.inputs if (found := read(value)) is not None))
        outputs = tuple(number[value] for value in op.outputs)
        pairs = ((number[made], read(taken)) for made, taken in op.takes_over)
        kept = tuple((made, taken) for made, taken in pairs if taken is not None)
        return replace(op, inputs=inputs, outputs=outputs, takes_over=kept)

    def value_of(value: Value) -> Value:
        parent = value.alias_of
        return value if parent is None else replace(value, alias_of=read(parent))

    return Graph(
        graph.name,
        tuple(op_of(graph.ops[op]) for op in ops.tolist()),
        tuple(value_of(graph.values[value]) for value in stay),
        fixed_bytes=graph.fixed_bytes,
        cost_unit=graph.cost_unit,
        cost_origin=graph.cost_origin,
    )
