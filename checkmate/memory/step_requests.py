"""A schedule's requests to an allocator, for any order of its steps.

A step consists of parts that run one after the other. A part requests buffers; after it, every buffer of
which it is the last reader is freed. So another order of the steps changes only when buffers are freed,
provided that each step still reads the same values, and no buffer is read after it was overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.ir.arrays import Rows
from checkmate.memory.bfc import Request

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AskedBuffer:
    """A buffer, requested by ``part`` and used by the parts ``readers``, ``part`` included.

    ``kept``: it is freed only after the last step. ``variable``: number of the variable that takes the buffer
    over instead, and frees its old one; -1: none.
    """

    bytes: int
    part: int
    readers: tuple[int, ...]
    kept: bool = False
    variable: int = -1


@dataclass(frozen=True, eq=False)
class StepRequests:
    """The requests of ``steps`` (op indices); a step is named by its position.

    ``first_part``: int64[steps + 1], the first part of each step; parts are numbered through all steps.
    ``buffers``: in the order of the requests. ``after``: per step, the steps that must come after it,
    ascending.
    """

    steps: tuple[int, ...]
    first_part: _Ints
    buffers: tuple[AskedBuffer, ...]
    after: Rows

    @property
    def parts(self) -> int:
        return int(self.first_part[-1])

    def requested_peak(self) -> int:
        change = np.zeros(self.parts + 2, np.int64)
        for buffer in self.buffers:
            change[buffer.part] += buffer.bytes
            change[self.parts if buffer.kept else max(buffer.readers) + 1] -= buffer.bytes
        return int(np.cumsum(change).max(initial=0))


@dataclass(frozen=True)
class InitialAllocations:
    """The requests to an allocator before the first step; ``capacity`` as for ``Bfc``.

    ``unclaimed``: (bytes, handle) of buffers that may belong to variables; a variable's buffer is the first
    one of its size.
    """

    requests: tuple[Request, ...] = ()
    capacity: int | None = None
    unclaimed: tuple[tuple[int, int], ...] = ()


def order_of(graph: Graph, steps: Sequence[int], more: Iterable[tuple[int, int]] = ()) -> Rows:
    """Return, per step, the steps that must come after it so that every step reads the same values as now.
    ``more``: further pairs (before, after)."""
    follow = _Follow(graph)
    for place, step in enumerate(steps):
        follow.run(place, step)
    pairs = {*follow.pairs, *more}
    rows: list[set[int]] = [set() for _ in steps]
    for before, after in pairs:
        if before != after:
            rows[before].add(after)
    return Rows.of(sorted(row) for row in rows)


@dataclass(eq=False)
class _Follow:
    graph: Graph
    pairs: set[tuple[int, int]] = field(default_factory=set)
    maker: dict[int, int] = field(default_factory=dict)
    readers: dict[int, list[int]] = field(default_factory=dict)

    def run(self, place: int, step: int) -> None:
        op, views = self.graph.ops[step], self.graph.values
        parents = [parent for each in op.outputs if (parent := views[each].alias_of) is not None]
        for value in (*op.inputs, *parents):
            if value in self.maker and self.maker[value] != place:
                self.pairs.add((self.maker[value], place))
                self.readers.setdefault(value, []).append(place)
        for value in op.outputs:
            self.pairs.update((before, place) for before in self.readers.pop(value, ()))
            if value in self.maker:
                self.pairs.add((self.maker[value], place))
            self.maker[value] = place
