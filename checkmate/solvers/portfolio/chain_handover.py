"""Decide when a search hands over to the chain program for a while.

This happens once, if the graph is a chain and the search no longer finds anything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from checkmate.ir.arrays import Steps
from checkmate.progress import Cancelled
from checkmate.solvers.chain.segments import find_chain
from checkmate.solvers.chain.solver import SEGMENTS, ChainSearch, rough_cost
from checkmate.solvers.problem import Problem
from checkmate.solvers.sequence.model import ScaledModel

_QUIET_S, _LATEST = 0.5, 0.3  # nothing was found for so many seconds, or this share of the time is over
_SHARE = 0.4  # the most of the time left that the chain program gets
_PER_OP_S = 0.003  # with less time it would end before its first schedule
# A plan of rough prices may cost this much more than the best: fine prices and fitting make up for it.
_HOPE = 1.03
_FEWEST = 10  # the fewest segments of a real chain


@dataclass
class ChainTurn:
    """The chain program's turn in a solve.

    The solve is from ``begun`` to ``until`` (``time.perf_counter``).
    """

    problem: Problem
    scaled: ScaledModel
    begun: float
    until: float
    _improved_at: float = field(init=False)
    _is_over: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._improved_at = time.perf_counter()

    def note_improvement(self) -> None:
        """Note that the search found something, so the turn comes later."""
        self._improved_at = time.perf_counter()

    @property
    def due(self) -> float:
        """Return the time when the turn comes, as far as is known now.

        It is infinite when the turn is over.
        """
        if self._is_over:
            return math.inf
        return min(self.begun + _LATEST * (self.until - self.begun), self._improved_at + _QUIET_S)

    def schedules(self, cost: float, cancelled: Cancelled) -> Iterator[Steps]:
        """Yield what the chain program finds, each better than the one before.

        Nothing if it is not due, or if a quick look promises nothing near ``cost``.
        """
        now = time.perf_counter()
        if now < self.due:
            return
        self._is_over = True
        until = now + _SHARE * (self.until - now)
        chain = find_chain(self.problem.graph, most=SEGMENTS)
        if chain is None or len(chain.segments) < _FEWEST or until - now < _PER_OP_S * self.problem.graph.n:
            return
        if math.isfinite(cost) and rough_cost(self.problem, chain, cancelled) > _HOPE * cost:
            return
        yield from ChainSearch(
            self.problem, chain, self.scaled, until=until, cancelled=cancelled
        ).improvements()
