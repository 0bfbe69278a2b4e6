"""From the table to steps: which segments run, stay and are reversed when."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.solvers.chain.costs import Prices
from checkmate.solvers.chain.modes import PLAIN, REUSE, SEEDED
from checkmate.solvers.chain.options import SegmentOption
from checkmate.solvers.chain.table import CostTable
from checkmate.solvers.shared.retention import without_useless


@dataclass(frozen=True)
class ForwardSweep:
    """Run segments ``first`` to ``last``; retain what passes out of the last.

    Ops whose seeds of ``price_list`` are live do not run.
    """

    first: int
    last: int
    price_list: int


@dataclass(frozen=True)
class Keep:
    """Run ``segment`` by ``option``; ``reuse``: its outputs are live already."""

    segment: int
    option: SegmentOption
    reuse: bool


@dataclass(frozen=True)
class Reverse:
    """Run a segment's backward ops by ``option``."""

    option: SegmentOption


Action = ForwardSweep | Keep | Reverse


@dataclass(frozen=True)
class _Stretch:
    """Segments to be reversed, in one of the table's modes and some slots."""

    first: int
    last: int
    mode: int
    slots: int


def actions(table: CostTable, slots: int) -> Iterator[Action]:
    """Yield the cheapest plan for the whole chain in ``slots`` slots.

    There must be a plan for so few slots.
    """
    todo: list[Action | _Stretch] = [_Stretch(0, table.count - 1, 0, slots)]
    while todo:
        entry = todo.pop()
        if isinstance(entry, _Stretch):
            todo.extend(reversed(_parts(table, entry)))
        else:
            yield entry


def _parts(table: CostTable, stretch: _Stretch) -> list[Action | _Stretch]:
    s, t, mode, slots = stretch.first, stretch.last, stretch.mode, stretch.slots
    if mode == REUSE and table.costs[PLAIN, t, s, slots] <= table.costs[REUSE, t, s, slots]:
        mode = PLAIN
    kept = table.option_costs(s, t, mode, slots)
    best, price_list, again, costs = math.inf, 0, mode, np.zeros(0)
    for choice in _ways_again(table, mode) if s < t else ():
        found = table.cut_costs(s, t, mode, *choice, slots)
        if found.min() < best:
            best, (price_list, again), costs = float(found.min()), choice, found
    if kept.min() <= best:
        row = int(np.argmin(kept))
        option = table.options(mode, s)[row]
        keep, reverse = Keep(s, option, mode == REUSE and s == t), Reverse(option)
        return [
            keep,
            *([_Stretch(s + 1, t, mode, slots - table.taken(mode, s, row))] if s < t else []),
            reverse,
        ]
    r = s + int(np.argmin(costs))
    left = slots - int(table.sizes.cut[price_list, s, r])
    return [
        ForwardSweep(s, r, max(0, mode - 1)),
        _Stretch(r + 1, t, mode, left),
        _Stretch(s, r, again, slots),
    ]


def _ways_again(table: CostTable, mode: int) -> list[tuple[int, int]]:
    """Return the ways to run forward and later reverse.

    Each has the price list whose seeds are left, and the mode in which the part is reversed.
    """
    if mode >= SEEDED:
        return [(mode - 1, mode)]
    return [(0, REUSE), *((q, q + 1) for q in range(1, len(table.prices)))]


def steps_of(graph: Graph, prices: Sequence[Prices], plan: Iterator[Action]) -> list[int]:
    """Return the plan as op indices, without what nobody reads.

    Ops that must run once do so where the plan first has them.
    """
    ran = [False] * len(prices[0].pieces)
    steps: list[int] = []

    def run(segment: int, ops: Sequence[int]) -> None:
        if not ran[segment]:
            ran[segment] = True
            steps.extend(prices[0].chain.segments[segment].forward)
        else:
            steps.extend(op for op in ops if graph.recomputable[op])

    for action in plan:
        match action:
            case ForwardSweep(first=first, last=last, price_list=price_list):
                for segment in range(first, last + 1):
                    run(segment, prices[price_list].chain.segments[segment].forward)
            case Keep(segment=segment, option=option, reuse=reuse):
                run(segment, option.tail if reuse else option.forward)
            case Reverse(option=option):
                steps.extend(option.backward)
    return without_useless(graph, steps)
