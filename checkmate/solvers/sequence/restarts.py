"""Plan a local search: where each annealing starts, its length and heat.

On large graphs one schedule is followed, in cycles that grow longer. On small ones, luck in the first moves
decides much. There a score of schedules are annealed from the start, each briefly, and improved by kicks,
each with a short annealing after it (iterated local search). The better half goes on in the same way, until
one is left. Then the same begins again, with longer annealings.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from checkmate.errors import ScheduleError
from checkmate.ir import Graph, Schedule, Timeline
from checkmate.ir.arrays import Steps
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
from checkmate.solvers.sequence.anneal import BEST, CEILING, FLOOR, anneal
from checkmate.solvers.sequence.drops import RATE
from checkmate.solvers.sequence.edit import load
from checkmate.solvers.sequence.kernel_arrays import EXCESS, build_model, new_state, steps_of
from checkmate.solvers.tolerances import LEAST_COST


class CostedSteps(NamedTuple):
    """A schedule and its cost, which is infinite if it is over the budget."""

    cost: float
    steps: Steps


def with_cost(graph: Graph, steps: Steps, budget_bytes: int) -> CostedSteps | None:
    """Return ``steps`` with their cost; None if they are no valid schedule."""
    timeline = replay(graph, steps)
    if timeline is None:
        return None
    return CostedSteps(timeline.cost if timeline.peak_bytes <= budget_bytes else math.inf, steps)


def replay(graph: Graph, steps: Steps) -> Timeline | None:
    """Return the replay of ``steps``; None if they are no valid schedule."""
    runs = np.bincount(steps, minlength=graph.n)
    if len(runs) > graph.n or not runs.all() or (runs[~graph.recomputable] > 1).any():
        return None
    try:
        return simulate(graph, Schedule.of(graph, steps))
    except ScheduleError:
        return None  # a value is read before it is produced


SMALL = 400  # ops
_FIRST_CYCLE = 20_000  # moves
_GROWTH = 2.0  # the factor by which cycles grow, and climbs from round to round
# The heat of successive cycles, in mean op costs. The first is mild, to find a good schedule soon.
_HOT = (0.3, 1.0, 4.0)
_CHAINS = 20  # chains in a round
# Moves and heat of the runs of a chain's first annealing, times Luby's numbers.
_CLIMB = ((1_000, 0.3), (6_000, 1.0))
_REPAIR = (400, 0.15)  # moves and heat, after a kick
_KICKS = (25, 110)  # kicks of each chain at first, and of each that is left after half of them were dropped
_WORSE = 0.003  # of the cost: a kick's result is accepted if it costs at most this much more
_BACK = 0.02  # the probability of going back to the chain's best after a rejected kick
_PATIENCE = 200  # kicks of the last chain without a new best until the round ends


class AnnealingRun(NamedTuple):
    """One annealing of ``moves`` moves from ``start``, which may be over the budget.

    ``hot``: its heat at first, in mean op costs. ``below``: only schedules that cost less are of interest.
    ``kicked``: whether it follows a kick.
    """

    start: Steps
    moves: int
    hot: float
    below: float
    kicked: bool = False


class EndedRun(NamedTuple):
    """``found``: the best schedule that costs less than the run's ``below``; None if none was found.
    ``last``: the final state. ``given``: a schedule from another search to continue from instead."""

    found: CostedSteps | None
    last: Steps
    given: CostedSteps | None = None


RunPlan = Generator[AnnealingRun, EndedRun, None]


def plan_runs(first: CostedSteps, *, small: bool, seed: int) -> RunPlan:
    """Yield the runs of a search that begins with ``first``; this never ends."""
    return _rounds(first.steps, np.random.default_rng(seed)) if small else _cycles(first)


def _cycles(first: CostedSteps) -> RunPlan:
    start = first.steps
    best = low = _cheaper(first, None)  # the best of all, and the best since the last ``given`` one
    nth = 0
    while True:
        below = math.inf if low is None else low.cost
        ended = yield AnnealingRun(start, int(_FIRST_CYCLE * _GROWTH**nth), _HOT[nth % len(_HOT)], below)
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
    """Schedules that are each made from the one before by a kick."""

    current: CostedSteps
    best: CostedSteps

    def take(self, found: CostedSteps | None, worse: float = 0.0) -> bool:
        """Continue from ``found`` if it costs at most a share ``worse`` more; return whether it does."""
        if found is None or found.cost > self.current.cost * (1.0 + worse):
            return False
        self.current = found
        if found.cost < self.best.cost:
            self.best = found
        return True


def _rounds(start: Steps, random: np.random.Generator) -> RunPlan:
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


def _kick(chain: _Chain, random: np.random.Generator) -> RunPlan:
    ended = yield AnnealingRun(chain.current.steps, *_REPAIR, math.inf, kicked=True)
    if not chain.take(ended.found, _WORSE * random.random()) and random.random() < _BACK:
        chain.current = chain.best
    if ended.given is not None:
        chain.take(ended.given)
        found, _ = yield from _climb(ended.given.steps, 1.0)
        chain.take(found)


def luby(nth: int) -> int:
    """1, 1, 2, 1, 1, 2, 4, 1, …: relative lengths of restarts (Luby, Sinclair, Zuckerman, 1993)."""
    digits = nth.bit_length()
    return 2 ** (digits - 1) if nth == 2**digits - 1 else luby(nth - 2 ** (digits - 1) + 1)


def _climb(
    start: Steps, longer: float
) -> Generator[AnnealingRun, EndedRun, tuple[CostedSteps | None, Steps | None]]:
    found: CostedSteps | None = None
    given: Steps | None = None
    for moves, hot in _CLIMB:
        below = math.inf if found is None else found.cost
        ended = yield AnnealingRun(start, int(moves * longer), hot, below)
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


_ORDER_TURN = 5000  # moves between two looks at the caller
_ORDER_HOT, _ORDER_COLD = 1.0, 0.001  # heat in mean op costs; an excess as large as the peak costs one
_ORDER_ENOUGH = 0.5  # the share of the given order's excess that may be left; with more, order hardly helps


def order_first(
    graph: Graph, budget_bytes: int, *, moves: int, seed: int, cancelled: Cancelled
) -> Steps | None:
    """Return an order that needs little memory without recomputation; it may be over the budget.

    If ops may run in many orders, a search that begins in the given order recomputes values that a better
    order would not need to. Here only the order is annealed, at a fixed price per byte over the budget. None:
    it was cancelled, or no order is much better than the given one.
    """
    once = replace(graph, ops=tuple(replace(op, recomputable=False) for op in graph.ops))
    scaled = build_model(once)
    state = new_state(scaled.model, steps=2 * graph.n + 1000, seed=seed)
    given = np.arange(graph.n, dtype=np.int32)
    if not load(scaled.model, state, given, scaled.budget(budget_bytes)):
        return None
    excess, mean = float(state.real[EXCESS]), max(graph.base_cost / graph.n, LEAST_COST)
    price = mean / max(float(state.mem[0].max()), 1.0)
    state.real[BEST] = np.inf
    state.real[[RATE, FLOOR, CEILING]] = price
    noted = np.zeros(state.occ.shape[1] + 1, np.int64)
    for done in range(0, moves, _ORDER_TURN):
        if cancelled():
            return None
        turn = min(_ORDER_TURN, moves - done)
        anneal(scaled.model, state, noted, done, turn, moves, mean * _ORDER_HOT, mean * _ORDER_COLD)
        if state.real[BEST] < np.inf:
            break
    steps = noted[1 : 1 + int(noted[0])].astype(np.int32) if noted[0] else steps_of(state).astype(np.int32)
    left = 0.0 if noted[0] else float(state.real[EXCESS])
    return steps if left <= _ORDER_ENOUGH * excess else None
