"""Anytime search over step sequences: the order of execution and what is recomputed, both free.

Simulated annealing (``sequence_anneal``) in cycles that grow longer, each from the best schedule so far, first from greedy's.
Small graphs are also searched from the start again, because what the first cycles settle on decides much: three times, then
the best is followed. Where no schedule is known that fits, the search walks in from the outside, with a growing price on what does not fit. The
result depends on the seed and the number of moves only; the clock decides no more than when to stop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import ScheduleError, SolverCrashedError
from checkmate.ir.graph import Graph, GraphBuilder
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled, never
from checkmate.simulate import simulate
from checkmate.solvers.greedy import CAREFUL, QUICK, greedy_steps
from checkmate.solvers.greedy import warm_up as greedy_warm_up
from checkmate.solvers.kernel_cache import is_compiled, note_compiled
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence_model import Scaled, build_model
from checkmate.solvers.verdict import PROVED, with_schedule, without_schedule

Steps = NDArray[np.int32]

_SLICE_S = 0.008  # between two looks at the clock and at the listener
_FIRST_CYCLE = 20_000  # moves
_GROWTH = 2.0  # of the cycles
_HOT = (0.3, 1.0, 4.0)  # mean op costs; the first cycle is the mild one, so that something good is there at once
_COLD = 0.005
_FRESH, _LONGER = 3, 4  # small graphs: starts from the beginning before the best is followed, for so many times longer
_FIRST_RATE = 0.3  # mean op costs per largest live bytes: low, so that what costs little is done first
_SMALL = 400  # ops up to which the careful greedy search takes a few milliseconds
_GREEDY_SHARE = 0.1  # of the time, for each of the quick and the careful greedy search at most
_CHAIN = 60  # ops recomputed together in one move at most


class LocalSearchSolver:
    """Finds what needs no proof: no lower bound beyond computing everything once."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The best schedule found within the time limit, streamed as it improves."""
        started = time.perf_counter()
        scaled = build_model(problem.graph)
        warm_up()  # compiling, where it is the first time on this machine, is not the user's time limit
        until = time.perf_counter() + options.time_limit_s
        search = first_search(problem, scaled, options, listener, until=until)
        base = problem.graph.base_cost
        search.run(
            until=until,
            cancelled=listener.cancelled,
            incumbent=listener.incumbent,
            enough=lambda cost: close_enough(cost, base, options.gap),
        )
        seconds = time.perf_counter() - started
        statistics = {"moves": search.moves}
        if search.best is None:
            return without_schedule(
                problem,
                "local-search",
                SolveStatus.CANCELLED if listener.cancelled() else SolveStatus.LIMIT,
                "the local search found no schedule within the budget",
                seconds=seconds,
                lower_bound=base,
                statistics=statistics,
            )
        return with_schedule(
            problem, "local-search", search.best, lower_bound=base, seconds=seconds, statistics=statistics
        )


def close_enough(cost: float, bound: float, gap: float) -> bool:
    """Whether ``bound`` proves ``cost`` optimal, or to within ``gap`` of the cost."""
    return cost * PROVED <= bound or cost - bound <= gap * cost


def first_search(
    problem: Problem, scaled: Scaled, options: SolveOptions, listener: Listener, *, until: float
) -> Search:
    """A search that begins with greedy's schedule, or the caller's where that is cheaper; the listener hears of it."""
    budget, cancelled = problem.budget_bytes, listener.cancelled
    begun = time.perf_counter()
    patience = _GREEDY_SHARE * max(until - begun, 0.0)
    further = QUICK if problem.graph.n > _SMALL else CAREFUL
    end = greedy_steps(scaled, budget, until=begun + patience, cancelled=cancelled, further=further)
    search = Search(problem.graph, scaled, budget, end.steps, seed=options.seed)
    given = options.start
    if given is not None and problem.graph.accepts_fingerprint(given.graph_fingerprint):
        search.offer(np.array(given.steps, np.int32))
    if search.best is not None:
        listener.incumbent(search.best.tolist(), search.cost)
    half = begun + 0.5 * max(until - begun, 0.0)
    while search.best is None and time.perf_counter() < half and not cancelled():
        # Where nothing fits yet, each brings the other on: greedy opens the sequence up, annealing closes it.
        end = greedy_steps(
            scaled, budget, until=time.perf_counter() + patience, cancelled=cancelled, start=end.steps, further=further
        )
        if search.offer(end.steps, follow=True):
            listener.incumbent(end.steps.tolist(), search.cost)
            break
        search.run(
            until=time.perf_counter() + 0.5 * patience,
            cancelled=cancelled,
            incumbent=listener.incumbent,
            enough=lambda cost: cost < math.inf,
        )
    return search


def warm_up() -> None:
    """Compile the kernels, or load them from the cache: half a minute on a machine's first use, then a fraction of a second."""
    greedy_warm_up()
    tiny = GraphBuilder()
    for name in "ab":
        tiny.op(name, (), (tiny.value(name, 2),), cost=1.0)
    graph = tiny.build()
    search = Search(graph, build_model(graph), 2, np.arange(2, dtype=np.int32))
    search.run(until=math.inf, cancelled=never, incumbent=lambda steps, cost: None, enough=lambda cost: False, moves=1)
    if not is_compiled():
        from checkmate.solvers.chain_solver import warm_up as chain_warm_up

        chain_warm_up()  # once per machine; not loaded where it is not used
        note_compiled()


@dataclass
class Search:
    """A search that can be run in slices. ``start``: a valid schedule, which may be over the budget.

    ``best``: op indices of the best schedule within the budget, ``cost`` its cost (infinite while there is none).
    """

    graph: Graph
    scaled: Scaled
    budget_bytes: int
    start: Steps
    seed: int = 0
    best: Steps | None = field(init=False, default=None)
    cost: float = field(init=False, default=math.inf)
    moves: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        from checkmate.solvers.sequence_anneal import CEILING, FLOOR
        from checkmate.solvers.sequence_moves import RATE
        from checkmate.solvers.sequence_state import new_state

        self._budget = self.scaled.budget(self.budget_bytes)
        ops = self.graph.n
        room = 12 * ops + 2 * len(self.start) + 1000
        self._state = new_state(self.scaled.model, steps=room, seed=self.seed)
        self._noted = np.zeros(self._state.occ.shape[1] + 1, np.int64)
        self._mean = max(self.graph.base_cost / ops, 1e-300)
        self._cycle, self._done = 0, 0
        self._low: Steps | None = None  # the best that fits since the search was last sent elsewhere
        self._next: Steps | None = None  # where to begin when next from elsewhere
        self._send(self.start, None)
        scale = max(float(self._state.mem[0].max()), 1.0)
        self._state.real[RATE] = _FIRST_RATE * self._mean / scale
        self._state.real[FLOOR] = 0.01 * self._mean / scale
        self._state.real[CEILING] = 1e4 * self._mean / scale
        self.offer(self.start)

    def offer(self, steps: Steps, *, follow: bool = False) -> bool:
        """Take ``steps`` as the best if they are valid, fit and cost less; ``follow``: search on from them in any case, now or soon."""
        runs = np.bincount(steps, minlength=self.graph.n)
        if len(runs) > self.graph.n or not runs.all() or (runs[~self.graph.recomputable] > 1).any():
            return False
        try:
            timeline = simulate(self.graph, Schedule.of(self.graph, steps))
        except ScheduleError:
            return False  # something is read before it is produced
        better = timeline.peak_bytes <= self.budget_bytes and timeline.cost < self.cost
        if better:
            self.best, self.cost = steps, timeline.cost
        if follow and not better and self._restarts and self.best is not None:
            self._next = steps
        elif better or follow:
            self._cycle -= self._cycle % len(_HOT)
            self._send(steps, self.best)
        return better

    def run(
        self,
        *,
        until: float,
        cancelled: Cancelled,
        incumbent: Callable[[list[int], float], None],
        enough: Callable[[float], bool],
        moves: int | None = None,
    ) -> None:
        """Search until ``until`` (``time.perf_counter``), ``enough`` of the cost, or ``moves`` more moves."""
        slice_moves = 256
        stop_at = None if moves is None else self.moves + moves
        while not enough(self.cost) and not cancelled() and self._budget >= 0:
            left = None if stop_at is None else stop_at - self.moves
            before = time.perf_counter()
            if before > until or left == 0:
                return
            if self._slice(slice_moves if left is None else min(left, slice_moves)):
                incumbent(self._checked(), self.cost)
            seconds = time.perf_counter() - before
            slice_moves = max(16, slice_moves // 2) if seconds > _SLICE_S else min(2**16, slice_moves + 64)

    def _slice(self, moves: int) -> bool:
        """Make at most ``moves`` moves; whether the best improved."""
        from checkmate.solvers.sequence_anneal import BEST, anneal
        from checkmate.solvers.sequence_state import BETTER, FULL, steps_of

        total = self._length()
        before = int(self._state.num[BETTER])
        made = anneal(
            self.scaled.model,
            self._state,
            self._noted,
            self._done,
            min(moves, total - self._done),
            total,
            self._mean * _HOT[self._cycle % len(_HOT)],
            self._mean * _COLD,
        )
        self.moves += made
        self._done += made
        improved = False
        if int(self._state.num[BETTER]) > before:
            self._low = self._noted[1 : 1 + int(self._noted[0])].astype(np.int32)
            cost = float(self._state.real[BEST])
            improved = cost < self.cost
            if improved:
                self.best, self.cost = self._low, cost
        if self._done >= total:
            self._next_cycle()
        elif self._state.num[FULL]:
            self._begin(steps_of(self._state))
        return improved

    @property
    def _restarts(self) -> bool:
        """Whether the search begins afresh now and then: where a cycle is short, luck in the first ones decides much."""
        return self.graph.n <= _SMALL

    def _length(self) -> int:
        """Moves of this cycle."""
        if not self._restarts:
            return int(_FIRST_CYCLE * _GROWTH**self._cycle)
        climb, turn = divmod(self._cycle, len(_HOT))
        turns, nth = divmod(climb, _FRESH + 1)
        longer = _LONGER if nth == _FRESH else 1
        return int(_FIRST_CYCLE * _GROWTH ** (turns + turn) * longer)

    def _next_cycle(self) -> None:
        """Go on from the best of late; after a cycle of each warmth from the start again, or from the best of all."""
        from checkmate.solvers.sequence_state import steps_of

        self._cycle, self._done = self._cycle + 1, 0
        climb, turn = divmod(self._cycle, len(_HOT))
        if turn == 0 and self.best is not None and self._restarts:
            if climb % (_FRESH + 1) == _FRESH:
                self._send(self.best, self.best)
            else:
                self._send(self.start if self._next is None else self._next, None)
                self._next = None
        else:
            self._begin(steps_of(self._state) if self._low is None else self._low)

    def _send(self, steps: Steps, low: Steps | None) -> None:
        """Search on from ``steps``; what to improve on is ``low``: the best of all, or nothing."""
        from checkmate.solvers.sequence_anneal import BEST

        self._done, self._low = 0, low
        self._state.real[BEST] = math.inf if low is None else self.cost
        self._begin(steps)

    def _begin(self, steps: Steps) -> None:
        from checkmate.solvers.sequence_edit import load
        from checkmate.solvers.sequence_state import BETTER, MOST

        better = int(self._state.num[BETTER])
        room = self._state.occ.shape[1]
        if len(steps) > 0.8 * room or not load(self.scaled.model, self._state, steps, self._budget):
            plain = np.arange(self.graph.n, dtype=np.int32)
            load(self.scaled.model, self._state, plain if self.best is None else self.best, self._budget)
        self._state.num[BETTER], self._state.num[MOST] = better, _CHAIN

    def _checked(self) -> list[int]:
        """The best schedule, replayed with arrays before anybody is told of it."""
        assert self.best is not None
        peak = simulate(self.graph, Schedule.of(self.graph, self.best)).peak_bytes
        if peak > self.budget_bytes:
            raise SolverCrashedError(f"the local search counted {peak - self.budget_bytes} bytes too few")
        steps: list[int] = self.best.tolist()
        return steps
