"""The default: proofs where they are cheap, the fast heuristics for schedules, and both until they meet or time is up.

Too small a budget for some op, and a budget that needs no recomputation, are settled at once. Otherwise greedy gives a first
schedule, local search improves it, the chain program is asked once where the network is a chain, and path cuts raise a lower
bound that holds for any order; the schedules that the cuts' programs describe are fitted into the budget and handed to the
search. The prover has a process of its own; with one worker, the two take turns.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkmate.check import check
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.chain_turn import ChainTurn
from checkmate.solvers.greedy import greedy_steps
from checkmate.solvers.keep_all import KeepAllSolver
from checkmate.solvers.kernel_cache import is_compiled
from checkmate.solvers.local_search import Search, close_enough, first_search, warm_up
from checkmate.solvers.pathcut_prove import Prover
from checkmate.solvers.problem import Listener, Problem, SilentListener, SolveOptions
from checkmate.solvers.prover_process import BackgroundProver, ProverState
from checkmate.solvers.prover_thread import SMALL, background_prover
from checkmate.solvers.registry import find_solver
from checkmate.solvers.sequence_model import build_model
from checkmate.solvers.verdict import with_schedule, without_schedule

_NAME = "auto"
_MEANWHILE = ("chen-greedy-linear", "chen-greedy-ap", "griewank")  # need no compiled code
_FIRST_TURN_S = 0.25  # with one worker: of search, and of proving
_MEDIUM, _SINGLE_S = 400, 0.1  # up to so many ops the single cut is solved here, in so many seconds at most
_FIT_S = 0.5  # for fitting a described schedule into the budget
_POLL_S = 0.005


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
        with background_prover(problem.graph) as prover:
            return solve_with(problem, options, listener, prover)


def solve_with(
    problem: Problem, options: SolveOptions, listener: Listener, prover: BackgroundProver, *, bound: float = 0.0
) -> SolveResult:
    """The same with a prover of the caller's, which stays warm for the next budget, and a lower bound known already."""
    started = time.perf_counter()
    settled = _settle(problem, options, listener, started)
    if settled is not None:
        return settled
    warm_up()
    run = _Run(problem, options, listener, prover, bound)
    try:
        if options.workers > 1:
            run.side_by_side()
        else:
            run.in_turns()
    finally:
        prover.stop()
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
    """One solve: the search here and the prover in its process, and what they tell each other."""

    def __init__(
        self, problem: Problem, options: SolveOptions, listener: Listener, prover: BackgroundProver, bound: float
    ) -> None:
        self._problem, self._options, self._listener, self._prover = problem, options, listener, prover
        self._begun = time.perf_counter()
        self._until = self._begun + options.time_limit_s
        self._bound, self._cuts, self._programs = max(problem.graph.base_cost, bound), 0, 0
        if options.workers > 1:
            self._ask(options.time_limit_s)
        self._scaled = build_model(problem.graph)
        self._search: Search = first_search(problem, self._scaled, options, listener, until=self._until)
        self._chain = ChainTurn(problem, self._scaled, self._begun, self._until)
        self._tell_best()

    def side_by_side(self) -> None:
        """Search here while the prover proves, until they meet."""
        self._single_cut()
        while not self._over():
            self._search_until(min(self._until, self._chain.due))
            self._try_chain()

    def _search_until(self, until: float) -> None:
        while not self._over() and time.perf_counter() < until:
            self._hear()
            self._run_search(min(until, self._until))

    def in_turns(self) -> None:
        """One core: search and prove in turns that grow longer, until they meet."""
        self._single_cut()
        turn = _FIRST_TURN_S
        while not self._over():
            self._search_until(time.perf_counter() + turn)
            self._wait_for_prover(min(turn, self._until - time.perf_counter()))
            self._try_chain()
            turn *= 2

    def _try_chain(self) -> None:
        """Where it is due, what the chain program finds: at tight budgets the search alone rarely gets there."""
        for steps in self._chain.schedules(self._search.cost, self._is_settled) if not self._over() else ():
            if self._search.offer(steps):
                self._listener.incumbent(steps.tolist(), self._search.cost)
                self._tell_best()

    def _is_settled(self) -> bool:
        """Whether to stop, by what the prover knows by now."""
        self._raise(self._prover_state().bound)
        return self._over()

    def _wait_for_prover(self, seconds: float) -> None:
        """Let the prover work alone for a while; it goes on where it was."""
        if self._over():
            return
        self._ask(seconds)
        self._tell_best()
        while not self._over() and not self._prover.state().over:
            time.sleep(_POLL_S)
            self._hear()
        self._prover.stop()
        self._hear()

    def _single_cut(self) -> None:
        """The single cut's bound, here and now, where that takes a moment only: the prover's process may still be starting."""
        graph = self._problem.graph
        if not SMALL < graph.n <= _MEDIUM or self._bound > graph.base_cost or self._over():
            return
        single = Prover(graph, self._problem.budget_bytes, reach=self._prover.reach)
        single.run(
            until=min(self._until, time.perf_counter() + _SINGLE_S),
            cancelled=self._listener.cancelled,
            on_bound=self._raise,
            on_steps=self._fit,
            enough=self._proves,
            rounds=1,
        )
        self._raise(single.bound)

    def result(self, seconds: float) -> SolveResult:
        """The outcome; never a claim that was not proved."""
        bound = self._bound
        statistics = {"moves": self._search.moves, "cuts": self._cuts, "programs": self._programs}
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
        return self._listener.cancelled() or time.perf_counter() > self._until or self._proves(self._bound)

    def _proves(self, bound: float) -> bool:
        """Whether ``bound`` leaves nothing to look for: it shows the best schedule to be good enough, or that none exists."""
        cost = self._search.cost
        return math.isinf(bound) or (cost < math.inf and close_enough(cost, bound, self._options.gap))

    def _run_search(self, until: float) -> None:
        """Search until there is news from the prover, or ``until``."""
        told = self._search.cost

        def improved(steps: list[int], cost: float) -> None:
            nonlocal told
            if cost < told:
                told = cost
                self._chain.note_improvement()
                self._listener.incumbent(steps, cost)
                self._prover.know(np.array(steps, np.int32))

        self._search.run(
            until=until,
            cancelled=lambda: self._over() or self._has_news(),
            incumbent=improved,
            enough=lambda cost: self._proves(self._bound),
        )

    def _ask(self, seconds: float) -> None:
        workers = max(1, self._options.workers - 1)
        self._prover.prove(self._problem.budget_bytes, seconds=max(0.0, seconds), workers=workers)

    def _tell_best(self) -> None:
        if self._search.best is not None:
            self._prover.know(self._search.best)

    def _prover_state(self) -> ProverState:
        return self._prover.state()

    def _has_news(self) -> bool:
        return self._prover.has_described() or self._prover_state().bound > self._bound

    def _hear(self) -> None:
        """What the prover has found since."""
        state = self._prover_state()
        self._cuts, self._programs = max(self._cuts, state.cuts), max(self._programs, state.programs)
        self._raise(state.bound)
        for steps in self._prover.take_described():
            if not self._over():
                self._fit(steps)

    def _raise(self, bound: float) -> None:
        if bound > self._bound:
            self._bound = bound
            if not math.isinf(bound):
                self._listener.bound(bound, ())

    def _fit(self, steps: NDArray[np.int32]) -> None:
        """Fit what the prover's programs describe into the budget, and search on from there."""
        if len(np.unique(steps)) < self._problem.graph.n:
            return  # rounded shares may leave an op out
        end = greedy_steps(
            self._scaled,
            self._problem.budget_bytes,
            until=min(self._until, time.perf_counter() + _FIT_S),
            cancelled=self._listener.cancelled,
            start=steps,
        )
        if self._search.offer(end.steps, follow=True) and self._search.best is not None:
            self._listener.incumbent(self._search.best.tolist(), self._search.cost)
            self._prover.know(self._search.best)
