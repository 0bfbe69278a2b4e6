"""A first schedule of a step with many equal blocks.

The step with a dozen blocks is searched for the budget that leaves as much to each block; its schedule is
carried over. The small budget is corrected until the whole fits. Of two schedules, one that fits and a
cheaper one that does not, each block takes one, so that the budget is used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
from checkmate.solvers.problem import Problem
from checkmate.solvers.repeats.find import Repeats, find_repeats
from checkmate.solvers.repeats.shrink import Shrunk, shrink
from checkmate.solvers.repeats.stretch import dropped_ops, spread, steps_without
from checkmate.solvers.sequence.greedy_solver import QUICK, greedy_steps
from checkmate.solvers.sequence.local_search import SequenceSearch
from checkmate.solvers.sequence.model import build_model

_LEAST_OPS = 1500  # smaller steps are searched as they are
_SMALL_OPS, _FEWEST, _MOST = 1000, 6, 24  # ops and blocks of the small step
_AT_LEAST, _AT_MOST = 2, 0.5  # times as many blocks as the small step has; its share of the ops
_ROUNDS = (10_000, 20_000, 40_000, 80_000)  # moves of the search, each round


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Which ops run again, and what that makes of the whole step."""

    again: NDArray[np.bool_]
    steps: NDArray[np.int32]
    peak: int
    cost: float


@dataclass(frozen=True, eq=False)
class Blocks:
    """The equal blocks of a step, and the step with a few of them."""

    repeats: Repeats
    shrunk: Shrunk


class BlocksOf:
    """The blocks of one graph, looked for once, when they are first asked for."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def found(self) -> Blocks | None:
        """Return the blocks to begin from; None where there are too few."""
        return blocks_of(self._graph)


def blocks_of(graph: Graph) -> Blocks | None:
    """Return the blocks to begin from; None where there are too few."""
    repeats = find_repeats(graph) if graph.n >= _LEAST_OPS else None
    if repeats is None:
        return None
    ops_of_block = repeats.forward.period + repeats.backward.period
    left = min(_MOST, max(_FEWEST, _SMALL_OPS // ops_of_block))
    shrunk = shrink(graph, repeats, left) if repeats.count >= _AT_LEAST * left else None
    if shrunk is None or shrunk.graph.n > _AT_MOST * graph.n:
        return None
    return Blocks(repeats, shrunk)


def repeated_schedules(
    problem: Problem,
    blocks: Blocks,
    *,
    until: float,
    cancelled: Cancelled,
    seed: int = 0,
    rounds: int = len(_ROUNDS),
) -> Iterator[NDArray[np.int32]]:
    """Yield schedules that fit, each cheaper than the one before.

    ``blocks`` are those of the problem's graph. Nothing is yielded where no schedule fits. Ends after
    ``rounds``, each longer than the one before, at ``until`` (of ``time.perf_counter``) or when cancelled.
    """
    join = _Join(problem, blocks.repeats, blocks.shrunk, seed)
    yield from join.schedules(_ROUNDS[:rounds], until, cancelled)


@dataclass
class _Join:
    problem: Problem
    repeats: Repeats
    shrunk: Shrunk
    seed: int
    best: float = field(init=False, default=math.inf)
    fits: _Pattern | None = field(init=False, default=None)
    over: _Pattern | None = field(init=False, default=None)

    def schedules(
        self, rounds: Sequence[int], until: float, cancelled: Cancelled
    ) -> Iterator[NDArray[np.int32]]:
        """Yield schedules that fit, each cheaper than the one before.

        ``rounds``: the moves of the search in each round.
        """
        small, budget = self.shrunk.graph, self._small_budget()
        scaled, start = build_model(small), np.arange(small.n, dtype=np.int32)
        for moves in rounds:
            if cancelled() or time.perf_counter() > until:
                return
            end = greedy_steps(scaled, budget, until=until, cancelled=cancelled, start=start, further=QUICK)
            search = SequenceSearch(small, scaled, budget, end.steps, seed=self.seed)
            search.run(
                until=until,
                cancelled=cancelled,
                incumbent=lambda steps, cost: None,
                enough=lambda cost: False,
                moves=moves,
            )
            start = end.steps if search.best is None else search.best
            found = self._whole(dropped_ops(small, start))
            self._note(found)
            mixed = self._mixed(until, cancelled)
            for pattern in (found, mixed):
                if pattern is not None and self._fits(pattern) and pattern.cost < self.best:
                    self.best = pattern.cost
                    yield pattern.steps
            budget -= self._correction(found)

    def _small_budget(self) -> int:
        """Return the small budget: each block saves what it does in the whole."""
        whole, small = self.problem.graph, self.shrunk.graph
        saved = _plain_peak(whole) - self.problem.budget_bytes
        return int(_plain_peak(small) - saved * self.shrunk.left / self.repeats.count)

    def _correction(self, found: _Pattern) -> int:
        """Return by how much to lower the small budget. It is what the whole is over, per block."""
        return int((found.peak - self.problem.budget_bytes) * self.shrunk.left / self.repeats.count)

    def _whole(self, small: NDArray[np.bool_]) -> _Pattern:
        return self._pattern(spread(self.shrunk, self.repeats, self.problem.graph, small))

    def _pattern(self, again: NDArray[np.bool_]) -> _Pattern:
        graph = self.problem.graph
        steps = steps_without(graph, again)
        peak = simulate(graph, Schedule.of(graph, steps)).peak_bytes
        return _Pattern(again, steps, peak, float(graph.cost[steps].sum()))

    def _fits(self, found: _Pattern) -> bool:
        return found.peak <= self.problem.budget_bytes

    def _note(self, found: _Pattern) -> None:
        if self._fits(found):
            if self.fits is None or found.cost < self.fits.cost:
                self.fits = found
        elif self.over is None or found.peak < self.over.peak:
            self.over = found

    def _mixed(self, until: float, cancelled: Cancelled) -> _Pattern | None:
        """Return the cheapest mix of two schedules that fits.

        The first blocks are as in the one, the others as in the other."""
        if self.fits is None or self.over is None or self.over.cost >= self.fits.cost:
            return None
        section = self.repeats.forward
        low, high, best = 0, section.count, None
        while high - low > 1 and not cancelled() and time.perf_counter() < until:
            middle = (low + high) // 2
            again = self.fits.again.copy()
            first = slice(section.start, section.start + middle * section.period)
            again[first] = self.over.again[first]
            found = self._pattern(again)
            if self._fits(found):
                low, best = middle, found
            else:
                high = middle
        return best


def _plain_peak(graph: Graph) -> int:
    return simulate(graph, Schedule.plain(graph)).peak_bytes
