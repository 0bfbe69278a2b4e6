"""The course of a local search: from which schedule it anneals next, for how long and how warm.

On large graphs one schedule is followed, in cycles that grow longer. On small ones, where a cycle takes a fraction of a
second and luck in the first ones decides much, a dozen schedules are annealed from the start, then spliced with each other
until that no longer helps, and then the same again with longer annealings, against the best.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.solvers.sequence_splice import Found, Pool

Steps = NDArray[np.int32]

_SMALL = 400  # ops
_FIRST_CYCLE = 20_000  # moves
_GROWTH = 2.0  # of the cycles, and of the climbs from one round to the next
_HOT = (0.3, 1.0, 4.0)  # mean op costs; the first cycle is the mild one, so that something good is there at once
_CLIMBS, _CLIMB = (
    12,
    ((10_000, 0.3), (60_000, 1.0)),
)  # annealings from the start in a round; moves and warmth of their legs
_MOST_CLIMBS = 10 * _CLIMBS  # while there is nothing to splice and others climb
_REPAIR = (2_000, 0.3)  # moves and warmth, after a splice
_PATIENCE = 200  # splices without a new best until the round ends


class Leg(NamedTuple):
    """One annealing: from ``start`` (which may be over the budget), ``moves`` long, ``hot`` mean op costs warm at first.

    ``below``: only schedules that cost less are of interest.
    """

    start: Steps
    moves: int
    hot: float
    below: float


class Ended(NamedTuple):
    """How a leg ended: the best it ``found`` below its mark, and its ``last`` sequence.

    ``given``: why it ended early, a schedule of somebody else's to follow; of infinite cost where it is over the budget.
    """

    found: Found | None
    last: Steps
    given: Found | None = None


Course = Generator[Leg, Ended, None]


def pool_of(graph: Graph, budget_bytes: int, seed: int) -> Pool | None:
    """What searches of one graph and budget can share; None for large graphs, of which one schedule is followed."""
    return Pool(graph, budget_bytes, seed) if graph.n <= _SMALL else None


def course(first: Found, pool: Pool | None) -> Course:
    """The legs of a search that begins with ``first``, of infinite cost where it is over the budget; never ends."""
    return _cycles(first) if pool is None else _breed(pool, first.steps)


def _cycles(first: Found) -> Course:
    """One schedule, in cycles of growing length."""
    start = first.steps
    best = low = _cheaper(first, None)  # of all; since something was given
    nth = 0
    while True:
        below = math.inf if low is None else low.cost
        ended = yield Leg(start, int(_FIRST_CYCLE * _GROWTH**nth), _HOT[nth % len(_HOT)], below)
        low = ended.found or low
        best = _cheaper(best, low)
        if ended.given is not None:
            low = best = _cheaper(best, ended.given)
            start = ended.given.steps
            nth -= nth % len(_HOT)
        else:
            start = ended.last if low is None else low.steps
            nth += 1


def _breed(pool: Pool, start: Steps) -> Course:
    """Rounds of climbs from ``start``, or from what is given, and of splices; other searches may take part."""
    given: Steps | None = None
    while True:
        number = pool.round
        longer = _GROWTH**number
        while pool.round == number and (pool.begin_climb(_CLIMBS) or (pool.waits and pool.begin_climb(_MOST_CLIMBS))):
            found, given = yield from _climb(start if given is None else given, longer)
            pool.end_climb(found)
        while pool.round == number:
            child, before = pool.splice(), pool.best
            if child is None:
                pool.end_round(number)
                break
            ended = yield Leg(child.steps, *_REPAIR, math.inf)
            if ended.found is not None:
                pool.add(ended.found, child.worse)
            if ended.given is not None:
                found, given = yield from _climb(ended.given.steps, longer)
                if found is not None:
                    pool.add(found)
            pool.note_splice(improved=pool.best < before, patience=_PATIENCE)


def _climb(start: Steps, longer: float) -> Generator[Leg, Ended, tuple[Found | None, Steps | None]]:
    """Anneal from ``start``: the best that fits, and what was given meanwhile, to begin with next time."""
    found: Found | None = None
    given: Steps | None = None
    for moves, hot in _CLIMB:
        below = math.inf if found is None else found.cost
        ended = yield Leg(start, int(moves * longer), hot, below)
        found = ended.found or found
        start = ended.last if found is None else found.steps
        if ended.given is None:
            continue
        if found is None or ended.given.cost < found.cost:
            found, start = _cheaper(found, ended.given), ended.given.steps
        else:
            given = ended.given.steps
    return found, given


def _cheaper(one: Found | None, other: Found | None) -> Found | None:
    """The one of less cost that fits the budget."""
    fitting = [found for found in (one, other) if found is not None and found.cost < math.inf]
    return min(fitting, key=lambda found: found.cost, default=None)
