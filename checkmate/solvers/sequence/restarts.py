"""Plan a local search: where each annealing starts, its length and heat.

On large graphs one schedule is followed, in cycles that grow longer. On small ones, luck in the first moves
decides much. There a score of schedules are annealed from the start, each briefly, and improved by kicks
(``sequence.perturb``), each with a short annealing after it (iterated local search). The better half goes on
in the same way, until one is left. Then the same begins again, with longer annealings.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from checkmate.ir.arrays import Steps
from checkmate.solvers.sequence.replay import CostedSteps

SMALL = 400  # ops
_FIRST_CYCLE = 20_000  # moves
_GROWTH = 2.0  # the factor of growth: of the cycles, and of the climbs from one round to the next
# The heat in mean op costs. The first cycle is mild, so that a good schedule is there at once.
_HOT = (0.3, 1.0, 4.0)
_CHAINS = 20  # chains in a round
# Moves and heat of the legs of a chain's first annealing, times Luby's numbers.
_CLIMB = ((1_000, 0.3), (6_000, 1.0))
_REPAIR = (400, 0.15)  # moves and heat, after a kick
_KICKS = (25, 110)  # kicks of each chain at first, and of each that is left after half of them were dropped
_WORSE = 0.003  # of the cost: the result of a kick is followed although it costs up to this much more
_BACK = 0.02  # how often a kick that led to nothing is followed by going back to the chain's best
_PATIENCE = 200  # kicks of the last chain without a new best until the round ends


class Leg(NamedTuple):
    """One annealing.

    ``start``: the first schedule, which may be over the budget.
    ``moves``: its length.
    ``hot``: its heat at first, in mean op costs.
    ``below``: only schedules that cost less are of interest.
    ``kicked``: whether it follows a kick.
    """

    start: Steps
    moves: int
    hot: float
    below: float
    kicked: bool = False


class LegResult(NamedTuple):
    """How a leg ended.

    ``found``: the best below its mark.
    ``last``: its last sequence.
    ``given``: why it ended early: a schedule from elsewhere to follow. Its cost is infinite if it is over the
    budget.
    """

    found: CostedSteps | None
    last: Steps
    given: CostedSteps | None = None


Legs = Generator[Leg, LegResult, None]


def plan_legs(first: CostedSteps, *, small: bool, seed: int) -> Legs:
    """Yield the legs of a search that begins with ``first``; this never ends.

    The cost of ``first`` is infinite if it is over the budget.
    """
    return _rounds(first.steps, np.random.default_rng(seed)) if small else _cycles(first)


def _cycles(first: CostedSteps) -> Legs:
    """Follow one schedule, in cycles of growing length."""
    start = first.steps
    best = low = _cheaper(first, None)  # the best of all, and the best since something was given
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


@dataclass
class _Chain:
    """Schedules that follow one another by kicks.

    ``current`` is the current one, ``best`` the best of all.
    """

    current: CostedSteps
    best: CostedSteps

    def take(self, found: CostedSteps | None, worse: float = 0.0) -> bool:
        """Go on from ``found`` unless it costs too much; return whether it does.

        It may cost the share ``worse`` more than what stands.
        """
        if found is None or found.cost > self.current.cost * (1.0 + worse):
            return False
        self.current = found
        if found.cost < self.best.cost:
            self.best = found
        return True


def _rounds(start: Steps, random: np.random.Generator) -> Legs:
    """Run rounds of chains; the better half goes on until one is left.

    The next round begins with that one and new ones.
    """
    chains: list[_Chain] = []
    longer = 1.0
    while True:
        for nth in range(1, _CHAINS + 1):
            found, given = yield from _climb(start, longer * luby(nth))
            start = start if given is None else given
            if found is not None:
                chains.append(_Chain(found, found))
                for _ in range(_KICKS[0]):
                    yield from _kick(chains[-1], random)
        while len(chains) > 1:
            chains.sort(key=lambda chain: chain.best.cost)
            del chains[(len(chains) + 1) // 2 :]
            for chain in chains:
                for _ in range(_KICKS[1]):
                    yield from _kick(chain, random)
        for chain in chains:
            still = 0
            while still < _PATIENCE:
                before = chain.best.cost
                yield from _kick(chain, random)
                still = 0 if chain.best.cost < before else still + 1
        longer *= _GROWTH


def _kick(chain: _Chain, random: np.random.Generator) -> Legs:
    """Kick ``chain``, anneal a little, and follow the result if no worse.

    A schedule that is given meanwhile is followed in the same way.
    """
    ended = yield Leg(chain.current.steps, *_REPAIR, math.inf, kicked=True)
    if not chain.take(ended.found, _WORSE * random.random()) and random.random() < _BACK:
        chain.current = chain.best
    if ended.given is not None:
        chain.take(ended.given)
        found, _ = yield from _climb(ended.given.steps, 1.0)
        chain.take(found)


def luby(nth: int) -> int:
    """Return the ``nth`` term of Luby's sequence.

    The sequence is 1, 1, 2, 1, 1, 2, 4, 1, … These are good lengths of runs that begin again, if no length is
    known to be good. Luby, Sinclair, Zuckerman: Optimal speedup of Las Vegas algorithms, 1993.
    """
    digits = nth.bit_length()
    return 2 ** (digits - 1) if nth == 2**digits - 1 else luby(nth - 2 ** (digits - 1) + 1)


def _climb(start: Steps, longer: float) -> Generator[Leg, LegResult, tuple[CostedSteps | None, Steps | None]]:
    """Anneal from ``start``; return the best that fits, and what was given.

    What was given meanwhile is where to begin next time.
    """
    found: CostedSteps | None = None
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


def _cheaper(one: CostedSteps | None, other: CostedSteps | None) -> CostedSteps | None:
    fitting = [found for found in (one, other) if found is not None and found.cost < math.inf]
    return min(fitting, key=lambda found: found.cost, default=None)
