"""Turns on the cores: the chain program's in a search, and a second search's with the prover."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from checkmate.ir.arrays import Steps
from checkmate.progress import Cancelled
from checkmate.solvers.chain.chain_solver import SEGMENTS, ChainSearch, rough_cost
from checkmate.solvers.chain.forward_segments import find_chain
from checkmate.solvers.listeners import CancelListener
from checkmate.solvers.problem import Problem
from checkmate.solvers.sequence.kernel_arrays import ScaledModel
from checkmate.solvers.sequence.local_search import SequenceSearch
from checkmate.solvers.sequence.restarts import CostedSteps

_NOTHING_FOUND_S = 0.5  # the chain program's turn comes after so many seconds without an improvement,
_CHAIN_LATEST = 0.3  # at the latest after this share of the time
_CHAIN_SHARE = 0.4  # the most that it gets of the remaining time
_PER_OP_S = 0.003  # the least time per op; with less it would end before its first schedule
# A plan by rough prices may cost this much more than the best schedule: exact prices and fitting lower it.
_HOPE = 1.03
_FEWEST = 10  # the fewest segments of a real chain


@dataclass
class ChainTurn:
    """The chain program's one turn in a solve, once the search finds nothing more."""

    problem: Problem
    scaled: ScaledModel
    begun: float
    until: float
    _improved_at: float = field(init=False, default_factory=time.perf_counter)
    _is_over: bool = field(init=False, default=False)

    def note_improvement(self) -> None:
        """Postpone the turn, because the search improved."""
        self._improved_at = time.perf_counter()

    @property
    def due(self) -> float:
        """When the turn comes unless the search improves before; infinite after the turn."""
        if self._is_over:
            return math.inf
        return min(
            self.begun + _CHAIN_LATEST * (self.until - self.begun), self._improved_at + _NOTHING_FOUND_S
        )

    def schedules(self, cost: float, cancelled: Cancelled) -> Iterator[Steps]:
        """Yield ever better schedules, if the turn has come and rough prices promise a cost near ``cost``."""
        now = time.perf_counter()
        if now < self.due:
            return
        self._is_over = True
        until = now + _CHAIN_SHARE * (self.until - now)
        chain = find_chain(self.problem.graph, most=SEGMENTS)
        if chain is None or len(chain.segments) < _FEWEST or until - now < _PER_OP_S * self.problem.graph.n:
            return
        if math.isfinite(cost) and rough_cost(self.problem, chain, cancelled) > _HOPE * cost:
            return
        yield from ChainSearch(
            self.problem, chain, self.scaled, until=until, cancelled=cancelled
        ).improvements()


_FAR = 0.01  # of the cost: a bound this near may soon be a proof, so the prover goes on
# The prover is quiet if its bound rises by less than _RISE of the gap for this long, in its first turn.
_QUIET_S = 1.5
_RISE = 0.02
# The length of a search's turn over that of the prover's turn before: if that raised the bound, and if not.
_AS_LONG, _LONGER = 1.0, 2.0
_PATIENCE = 4.0  # in each further turn the prover may be quiet this many times longer


@dataclass
class SecondCore:
    """The turns of the prover and of a second search on the second of two cores.

    The prover works while its bound rises. Once the bound hardly rises and is still far from the best cost, a
    second search uses the core better: seeds differ much in how soon they find good schedules for a tight
    budget. The search runs for as long as the prover did, or twice as long if the prover's turn raised
    nothing. In its next turn the prover may be quiet for four times as long, because it solves again a
    program that it did not finish before.

    The turns are from ``begun`` (seconds of any clock). The prover has the first.
    """

    begun: float
    searches: bool = field(init=False, default=False)
    _until: float = field(init=False, default=math.inf)  # the end of a search's turn
    _patience: float = field(init=False, default=_QUIET_S)
    _mark: float | None = field(init=False, default=None)  # the bound after its last notable rise
    _rose: bool = field(init=False, default=False)  # whether it rose notably in this turn of the prover
    _marked_at: float = field(init=False, default=0.0)

    def changes(self, bound: float | None, cost: float, *, now: float) -> bool:
        """Whether the turn changes now. ``bound``: the prover's own; ``cost``: of the best schedule."""
        if self.searches:
            if now < self._until:
                return False
            self.searches, self.begun, self._mark, self._rose = False, now, None, False
            self._patience *= _PATIENCE
            return True
        if (
            bound is None
            or math.isinf(cost)
            or not self._is_quiet(bound, cost, now)
            or cost - bound <= _FAR * cost
        ):
            return False
        self.searches = True
        self._until = now + (_AS_LONG if self._rose else _LONGER) * (now - self.begun)
        return True

    def _is_quiet(self, bound: float, cost: float, now: float) -> bool:
        if self._mark is None or bound - self._mark > _RISE * (cost - self._mark):
            self._rose = self._mark is not None
            self._mark, self._marked_at = bound, now
        return now - self._marked_at >= self._patience


class SearchBeginner(Protocol):
    def begin_second(self, cancelled: Cancelled) -> SequenceSearch: ...


class SecondSearch:
    """A search in a thread. Its kernels run without Python's global lock, so it does not slow the first."""

    def __init__(self, owner: SearchBeginner) -> None:
        self._owner = owner
        self._search: SequenceSearch | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._news: deque[CostedSteps] = deque(maxlen=1)
        self._failure: Exception | None = None

    @property
    def moves(self) -> int:
        return 0 if self._search is None else self._search.moves

    def start(self) -> None:
        """Search until ``stop``; a second start continues the search."""
        self.stop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stopping,), daemon=True, name="second search"
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop within milliseconds."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            thread.join()

    def take(self) -> CostedSteps | None:
        """Return the best found since the last call, if anything is; raise what the search failed with."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._news.pop() if self._news else None

    def has_news(self) -> bool:
        """Whether ``take`` would return or raise anything."""
        return bool(self._news) or self._failure is not None

    def _run(self, stopping: threading.Event) -> None:
        try:
            search = self._search = self._search or self._owner.begin_second(stopping.is_set)
            search.run(_SecondListener(search, self._news, stopping), until=math.inf)
        except Exception as failure:  # ``take`` raises it
            self._failure = failure


class _SecondListener(CancelListener):
    def __init__(self, search: SequenceSearch, news: deque[CostedSteps], stopping: threading.Event) -> None:
        super().__init__(stopping.is_set)
        self._search, self._news = search, news

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        if self._search.best is not None:
            self._news.append(CostedSteps(cost, self._search.best))
