"""The default: proofs where they are cheap, the fast heuristics for schedules, and both until they meet or time is up.

Too small a budget for some op, and a budget that needs no recomputation, are settled at once. Otherwise greedy gives a first
schedule, local search improves it, and path cuts raise a lower bound that holds for any order; the schedules that the cuts'
programs describe are fitted into the budget and handed to the search. With several workers the prover has a thread of its
own (HiGHS and the kernels both run outside Python's lock); with one, the two take turns.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkmate.check import check
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.greedy import greedy_steps
from checkmate.solvers.keep_all import KeepAllSolver
from checkmate.solvers.kernel_cache import is_compiled
from checkmate.solvers.local_search import Search, close_enough, first_search, warm_up
from checkmate.solvers.pathcut_prove import Prover
from checkmate.solvers.problem import Listener, Problem, SilentListener, SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.solvers.sequence_model import build_model
from checkmate.solvers.verdict import with_schedule, without_schedule

_NAME = "auto"
_MEANWHILE = ("chen-greedy-linear", "chen-greedy-ap", "griewank")  # need no compiled code
# With one worker: search until this share of the time, then prove until that share, then search on.
_SEARCH_FIRST, _THEN_PROVE = 0.12, 0.5
_LEAVE_S = 1.0  # wait at most this long for the prover's thread


class AutoSolver:
    """Greedy, local search and path cuts together. OPTIMAL and INFEASIBLE are proofs for any order and recomputation."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The best schedule and the best bound within the time limit."""
        started = time.perf_counter()
        settled = _settle(problem, options, listener, started)
        if settled is not None:
            return settled
        if not is_compiled():
            options = first_use(problem, options, listener)
            if listener.cancelled():
                return _cancelled(problem, options, time.perf_counter() - started)
        warm_up()
        run = _Run(problem, options, listener)
        if options.workers > 1:
            run.side_by_side()
        else:
            run.in_turns()
        return run.result(time.perf_counter() - started)


def _settle(problem: Problem, options: SolveOptions, listener: Listener, started: float) -> SolveResult | None:
    """The answer where it takes no search."""
    graph = problem.graph
    infeasible = below_working_set(problem, _NAME)
    if infeasible is not None:
        return replace(infeasible, solve_seconds=time.perf_counter() - started)
    plain = KeepAllSolver().solve(problem, options, listener)
    if plain.schedule is None:
        return None
    listener.incumbent(plain.schedule.steps.tolist(), graph.base_cost)
    return replace(plain, solver=_NAME, solve_seconds=time.perf_counter() - started)


def first_use(problem: Problem, options: SolveOptions, listener: Listener) -> SolveOptions:
    """Compile the kernels (half a minute, once per machine, not counted as solving); the baselines answer meanwhile.

    Returns when compiled or cancelled, with the best schedule so far as the options' start.
    """
    thread = threading.Thread(target=warm_up, daemon=True, name="compile")
    thread.start()
    best = math.inf
    for name in _MEANWHILE:
        if listener.cancelled():
            break
        found = find_solver(name).load().solve(problem, replace(options, time_limit_s=2.0), SilentListener())
        if found.schedule is not None and found.cost is not None and found.cost < best:
            best = found.cost
            options = replace(options, start=found.schedule)
            listener.incumbent(found.schedule.steps.tolist(), best)
    while thread.is_alive() and not listener.cancelled():
        thread.join(0.02)
    return options


def _cancelled(problem: Problem, options: SolveOptions, seconds: float) -> SolveResult:
    base = problem.graph.base_cost
    if options.start is not None:
        report = check(problem.graph, options.start.steps.tolist(), budget_bytes=problem.budget_bytes)
        if report.ok:
            return with_schedule(problem, _NAME, options.start.steps, lower_bound=base, seconds=seconds)
    status, message = SolveStatus.CANCELLED, "cancelled before a schedule was found"
    return without_schedule(problem, _NAME, status, message, seconds=seconds, lower_bound=base)


class _Run:
    """One solve: the search and the prover, and what they tell each other."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        self._problem, self._options, self._listener = problem, options, listener
        self._begun = time.perf_counter()
        self._until = self._begun + options.time_limit_s
        self._scaled = build_model(problem.graph)
        self._search: Search = first_search(problem, self._scaled, options, listener, until=self._until)
        self._prover = Prover(problem.graph, problem.budget_bytes)
        self._described: deque[NDArray[np.int32]] = deque(maxlen=4)
        self._stopping = False
        self._crash: BaseException | None = None

    def side_by_side(self) -> None:
        """Search here, prove in another thread, until they meet."""
        thread = threading.Thread(target=self._prove_safely, daemon=True, name="path-cut")
        thread.start()
        try:
            while not self._over():
                self._take_described()
                self._run_search(self._until, pause=lambda: bool(self._described))
        finally:
            self._stopping = True
            thread.join(0.02 if self._listener.cancelled() else _LEAVE_S)
        if self._crash is not None:
            raise self._crash

    def in_turns(self) -> None:
        """One core: the single cut, some search, more cuts, search to the end."""
        limit = self._options.time_limit_s
        self._prove(min(self._until, self._begun + max(0.1 * limit, min(0.5, limit))), rounds=1)
        self._run_search(self._begun + _SEARCH_FIRST * limit)
        self._prove(self._begun + _THEN_PROVE * limit)
        while not self._over():
            self._take_described()
            self._run_search(self._until, pause=lambda: bool(self._described))

    def result(self, seconds: float) -> SolveResult:
        """The outcome; never a claim that was not proved."""
        bound = self._prover.bound
        statistics = {"moves": self._search.moves, "cuts": self._prover.cuts, "programs": self._prover.rounds}
        if self._search.best is not None:
            return with_schedule(
                self._problem,
                _NAME,
                self._search.best,
                lower_bound=bound,
                seconds=seconds,
                statistics=statistics,
            )
        known = None if math.isinf(bound) else bound
        if known is None:
            status, message = SolveStatus.INFEASIBLE, "no schedule fits the budget, in any order of execution"
        elif self._listener.cancelled():
            status, message = SolveStatus.CANCELLED, "cancelled before a schedule was found"
        else:
            status, message = SolveStatus.LIMIT, "no schedule within the budget was found in the time given"
        return without_schedule(
            self._problem, _NAME, status, message, seconds=seconds, lower_bound=known, statistics=statistics
        )

    def _over(self) -> bool:
        return (
            self._listener.cancelled()
            or time.perf_counter() > self._until
            or math.isinf(self._prover.bound)
            or self._met(self._search.cost)
        )

    def _met(self, cost: float) -> bool:
        return cost < math.inf and close_enough(cost, self._prover.bound, self._options.gap)

    def _run_search(self, until: float, pause: Callable[[], bool] = lambda: False) -> None:
        self._search.run(
            until=until,
            cancelled=lambda: self._listener.cancelled() or math.isinf(self._prover.bound) or pause(),
            incumbent=self._listener.incumbent,
            enough=self._met,
        )

    def _prove(self, until: float, rounds: int | None = None) -> None:
        self._prover.run(
            until=until,
            cancelled=lambda: self._stopping or self._listener.cancelled(),
            on_bound=lambda bound: self._listener.bound(bound, ()),
            on_steps=self._described.append,
            enough=lambda bound: self._met(self._search.cost),
            rounds=rounds,
        )

    def _prove_safely(self) -> None:
        try:
            self._prove(self._until)
        except BaseException as error:  # the thread's edge: raised again by the caller's thread
            self._crash = error

    def _take_described(self) -> None:
        """Fit what the prover's programs describe into the budget, and search on from there."""
        while self._described:
            steps = self._described.popleft()
            end = greedy_steps(
                self._scaled,
                self._problem.budget_bytes,
                until=self._until,
                cancelled=self._listener.cancelled,
                start=steps,
            )
            if self._search.offer(end.steps, follow=True) and self._search.best is not None:
                self._listener.incumbent(self._search.best.tolist(), self._search.cost)
