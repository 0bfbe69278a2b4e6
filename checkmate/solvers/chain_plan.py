"""From the table to steps: which segments are run, retained and reversed when, in an amount of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.solvers.chain_options import Option
from checkmate.solvers.chain_segments import Chain
from checkmate.solvers.chain_table import Table
from checkmate.solvers.retention import without_useless


@dataclass(frozen=True)
class Sweep:
    """Run segments ``first`` to ``last`` and retain what passes out of the last."""

    first: int
    last: int


@dataclass(frozen=True)
class Keep:
    """Run ``segment`` and retain what ``option`` says; ``reuse``: what passes out of it is there already."""

    segment: int
    option: Option
    reuse: bool


@dataclass(frozen=True)
class Reverse:
    """Run the backward ops of ``segment`` as ``option`` says."""

    segment: int
    option: Option


Action = Sweep | Keep | Reverse


@dataclass(frozen=True)
class _Stretch:
    """Segments to be reversed, first to last, in so many slots."""

    first: int
    last: int
    reuse: int
    slots: int


def actions(table: Table, slots: int) -> Iterator[Action]:
    """The cheapest plan for the whole chain in ``slots`` slots, which must be enough for one."""
    todo: list[Action | _Stretch] = [_Stretch(0, table.count - 1, 0, slots)]
    while todo:
        entry = todo.pop()
        if isinstance(entry, _Stretch):
            todo.extend(reversed(_parts(table, entry)))
        else:
            yield entry


def _parts(table: Table, stretch: _Stretch) -> list[Action | _Stretch]:
    s, t, reuse, slots = stretch.first, stretch.last, stretch.reuse, stretch.slots
    option, kept = _best_option(table, stretch)
    cuts = table.cut_costs(s, t, reuse, slots) if s < t else np.zeros(0)
    if not len(cuts) or kept <= cuts.min():
        keep, reverse = Keep(s, option, bool(reuse and s == t)), Reverse(s, option)
        if s == t:
            return [keep, reverse]
        return [keep, _Stretch(s + 1, t, reuse, slots - table.retained(option)), reverse]
    r = s + int(np.argmin(cuts))
    reused = int(table.costs[1, r, s, slots] < table.costs[0, r, s, slots])
    again = _Stretch(s, r, reused, slots)
    return [Sweep(s, r), _Stretch(r + 1, t, reuse, slots - int(table.cut[s, r])), again]


def _best_option(table: Table, stretch: _Stretch) -> tuple[Option, float]:
    s, t, reuse, slots = stretch.first, stretch.last, stretch.reuse, stretch.slots
    options = table.prices.pieces[s].options
    best, cost = options[0], float("inf")
    for option in options:
        its_cost = table.option_cost(option, s, t, reuse)
        left = slots - table.retained(option)
        if table.needed(option, s, t, reuse) > slots or (s < t and left < 0):
            continue
        if s < t:
            its_cost += float(table.costs[reuse, t, s + 1, left])
        if its_cost < cost:
            best, cost = option, its_cost
    return best, cost


def steps_of(graph: Graph, chain: Chain, plan: Iterator[Action]) -> list[int]:
    """The plan as op indices, without what nobody reads. Ops that must run once do so where they are first met."""
    ran = [False] * graph.n
    steps: list[int] = []

    def run(ops: tuple[int, ...]) -> None:
        for op in ops:
            if not ran[op] or graph.recomputable[op]:
                ran[op] = True
                steps.append(op)

    for action in plan:
        match action:
            case Sweep(first=first, last=last):
                for segment in chain.segments[first : last + 1]:
                    run(segment.forward)
            case Keep(option=option, reuse=reuse):
                run(option.tail if reuse else option.forward)
            case Reverse(option=option):
                run(option.backward)
    return without_useless(graph, steps)
