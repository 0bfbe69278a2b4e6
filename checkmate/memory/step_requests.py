"""What a schedule's steps ask of an allocator, in any order.

Within one step some parts run one after the other. A part asks for buffers, and after it every buffer whose
last reader it was is given back. So the same steps in another order give back at other places, and nothing
else changes, while each step reads what it read before, and no buffer that was written over is read later.
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
    """``part`` asks for it and ``readers`` are the parts that use it, ``part`` among them.

    ``kept``: it is given back after the last step. ``variable``: number of the variable that takes it over
    when it is given back, and gives back its own; -1: none.
    """

    bytes: int
    part: int
    readers: tuple[int, ...]
    kept: bool = False
    variable: int = -1


@dataclass(frozen=True, eq=False)
class StepRequests:
    """What ``steps`` (op indices) ask for; places in it name the steps.

    ``first_part``: int64[steps + 1], the first part of each step; the parts of all count through. ``buffers``
    are in the order of asking. ``after``: for each step the steps that must come after it, ascending.
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
    """What an allocator was asked for before the first step; ``capacity`` as of ``Bfc``.

    ``unclaimed``: (bytes, handle) of buffers that variables of the step may have, in the order in which they
    are given to them.
    """

    requests: tuple[Request, ...] = ()
    capacity: int | None = None
    unclaimed: tuple[tuple[int, int], ...] = ()


def order_of(graph: Graph, steps: Sequence[int], more: Iterable[tuple[int, int]] = ()) -> Rows:
    """Return for each step those that must come after it, so that each reads what it reads now. ``more``:
    (before, after).
    """
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
