"""The default solver: cheap proofs, and heuristics for schedules, until they meet or time is up.

Two cases are settled at once: a budget too small for some op, and one that needs no recomputation. Otherwise
greedy gives a first schedule, local search improves it, and the chain program is asked once if the network is
a chain. Where greedy's schedule does not fit, last runs may show that none can. Path cuts raise a lower bound
that holds for any order; the schedules that their programs describe are fitted into the budget and given to
the search. The prover has a process of its own. With one worker, the two take turns.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Schedule, SolveResult
from checkmate.ir.arrays import Steps
from checkmate.progress import Cancelled
from checkmate.solvers.baselines import KeepAllSolver
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.certify import NOTHING_FITS, cancelled_before, concluded
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.last_runs import LastRunProver
from checkmate.solvers.pathcut.in_process import BackgroundProver, ProverState
from checkmate.solvers.pathcut.in_thread import SMALL, background_prover
from checkmate.solvers.pathcut.prover import ProofListener, Prover
from checkmate.solvers.portfolio.turns import ChainTurn, SecondCore, SecondSearch
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.repeated_blocks import BlocksOf, repeated_schedules
from checkmate.solvers.sequence.greedy_solver import greedy_steps
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import SequenceSearch, close_enough, first_search
from checkmate.solvers.sequence.restarts import CostedSteps, order_first, with_cost

NAME = "auto"
_FIRST_TURN_S = 0.25  # with one worker: the first turn of the search, and of the prover
_TURN_S_PER_OP = 1e-4  # the least turn per op; on a large graph a shorter one proves nothing
# Up to this many ops the single cut is solved here, in at most this many seconds.
_MEDIUM, _SINGLE_S = 400, 0.1
_GOOD = 0.01  # above the bound: with a start this good, schedules from equal blocks are not looked for
_REPEATS_SHARE = 0.3  # of the time, for the schedules of a step with equal blocks
_LAST_RUNS_SHARE = 0.25  # of the time, for a proof by last runs
_FIT_S = 0.5  # for fitting a described schedule into the budget
_POLL_S = 0.005
_LOOK_S = 0.1  # between two checks of whose turn it is on the second core
_OTHER_SEED = 1_000_003  # added to the seed of the second search
_ORDER_MOVES = 500_000  # to find another order for the second search: a quarter of a second


class Run:
    """One solve: the search here, the prover in its process."""

    def __init__(
        self,
        problem: Problem,
        options: SolveOptions,
        listener: Listener,
        prover: BackgroundProver,
        bound: float,
        blocks: BlocksOf,
    ) -> None:
        self._blocks = blocks
        self._problem, self._options, self._listener, self._prover = problem, options, listener, prover
        self._begun = time.perf_counter()
        self._until = self._begun + options.time_limit_s
        self._bound, self._cuts, self._programs = max(problem.graph.base_cost, bound), 0, 0
        self._impossible = NOTHING_FITS  # why, where the bound is infinite
        self._asked = False  # whether the prover works on this budget; before, its state is of another one
        if options.workers > 1:
            self._start_prover(options.time_limit_s)
        self._scaled = build_model(problem.graph)
        self._search: SequenceSearch = first_search(
            problem,
            self._scaled,
            options,
            listener,
            until=self._until,
            known=self._from_repeats(),
            hopeless=self._is_impossible,
        )
        self._chain = ChainTurn(problem, self._scaled, self._begun, self._until)
        self._second = SecondSearch(self)
        self._reported = math.inf
        self._core: SecondCore | None = None  # set if prover and second search share a core
        self._share_best()

    def _is_impossible(self) -> bool:
        share = math.inf if self._options.moves is not None else _LAST_RUNS_SHARE
        until = min(self._until, time.perf_counter() + share * self._options.time_limit_s)
        graph, budget = self._problem.graph, self._problem.budget_bytes
        found = LastRunProver(graph).proof(
            budget, lambda: self._listener.cancelled() or time.perf_counter() > until
        )
        if found is not None:
            self._bound, self._impossible = math.inf, found.explained(graph, budget)
        return found is not None

    def _from_repeats(self) -> Steps | None:
        """The best schedule made from equal blocks; None if none fits."""
        blocks = self._blocks.found
        if blocks is None or self._is_good(self._options.start):
            return None
        share = _REPEATS_SHARE * self._options.time_limit_s if self._options.moves is None else math.inf
        best: CostedSteps | None = None
        for steps in repeated_schedules(
            self._problem,
            blocks,
            until=min(self._until, self._begun + share),
            cancelled=self._listener.cancelled,
            seed=self._options.seed,
        ):
            found = with_cost(self._problem.graph, steps, self._problem.budget_bytes)
            if found is not None and found.cost < (math.inf if best is None else best.cost):
                best = found
                self._listener.incumbent(found.steps.tolist(), found.cost)
                self._prover.offer(found.steps)
        return None if best is None else best.steps

    def _is_good(self, start: Schedule | None) -> bool:
        if start is None or not self._problem.graph.accepts_fingerprint(start.graph_fingerprint):
            return False
        known = with_cost(self._problem.graph, np.array(start.steps, np.int32), self._problem.budget_bytes)
        return known is not None and known.cost <= (1 + _GOOD) * self._bound

    def side_by_side(self) -> None:
        """Search here while the prover proves; another search runs on a third core, or in turns with it."""
        self._single_cut()
        if self._problem.graph.n > SMALL:  # on smaller graphs a second search finds nothing more
            if self._options.workers > 2:
                self._second.start()
            elif self._problem.graph.n <= _MEDIUM:
                # On larger graphs the prover may need long for its first bound, so it keeps the core.
                self._core = SecondCore(self._begun)
        try:
            while not self._over():
                self._search_until(min(self._until, self._chain.due))
                self._try_chain()
        finally:
            self._second.stop()
        self._take_news()

    def _search_until(self, until: float) -> None:
        while not self._over() and time.perf_counter() < until:
            self._take_news()
            self._share_second_core()
            self._reported = self._search.cost
            self._search.run(
                _SearchListener(self), until=min(until, self._until, time.perf_counter() + _LOOK_S)
            )

    def in_turns(self) -> None:
        """Search and prove on one core, in turns that grow longer."""
        self._single_cut()
        turn = max(_FIRST_TURN_S, _TURN_S_PER_OP * self._problem.graph.n)
        while not self._over():
            self._search_until(time.perf_counter() + turn)
            self._wait_for_prover(min(turn, self._until - time.perf_counter()))
            self._try_chain()
            turn *= 2

    def _try_chain(self) -> None:
        # At tight budgets the search alone rarely gets there.
        for steps in self._chain.schedules(self._search.cost, self._is_settled) if not self._over() else ():
            if self._search.offer(steps):
                self._report_best()

    def _is_settled(self) -> bool:
        self.raise_bound(self._prover_state().bound)
        return self._over()

    def _wait_for_prover(self, seconds: float) -> None:
        if self._over():
            return
        self._start_prover(seconds)
        self._share_best()
        while not self._over() and not self._prover.state().over:
            time.sleep(_POLL_S)
            self._take_news()
        self._prover.stop()
        self._take_news()

    def _single_cut(self) -> None:
        # Here, if that takes only a moment: the prover's process may still be starting.
        graph = self._problem.graph
        if not SMALL < graph.n <= _MEDIUM or self._bound > graph.base_cost or self._over():
            return
        single = Prover(graph, self._problem.budget_bytes, reach=self._prover.reach)
        until = min(self._until, time.perf_counter() + _SINGLE_S)
        single.run(_SingleCutListener(self, self._listener), until=until, rounds=1)
        self.raise_bound(single.bound)

    def result(self, seconds: float) -> SolveResult:
        moves = self._search.moves + self._second.moves
        result = concluded(
            self._problem,
            NAME,
            self._search.best,
            self._listener,
            nothing="no schedule within the budget was found in the time given",
            seconds=seconds,
            lower_bound=self._bound,
            statistics={"moves": moves, "cuts": self._cuts, "programs": self._programs},
        )
        return replace(result, message=self._impossible) if result.message == NOTHING_FITS else result

    def _over(self) -> bool:
        return self._listener.cancelled() or time.perf_counter() > self._until or self.proves(self._bound)

    def proves(self, bound: float) -> bool:
        """Whether ``bound`` shows that the best schedule is good enough, or that none exists."""
        cost = self._search.cost
        return math.isinf(bound) or (cost < math.inf and close_enough(cost, bound, self._options.gap))

    def note_improvement(self, steps: Sequence[int], cost: float) -> None:
        if cost < self._reported:
            self._reported = cost
            self._chain.note_improvement()
            self._listener.incumbent(steps, cost)
            self._prover.offer(np.array(steps, np.int32))

    def has_news(self) -> bool:
        """Whether the search should stop: the solve is over, or there is something to take."""
        return (
            self._over()
            or self._second.has_news()
            or (self._asked and self._prover.has_schedules())
            or self._prover_state().bound > self._bound
        )

    def _start_prover(self, seconds: float) -> None:
        workers = max(1, self._options.workers - (1 if self._options.workers == 2 else 2))
        self._asked = True
        self._prover.prove(self._problem.budget_bytes, seconds=max(0.0, seconds), workers=workers)

    def begin_second(self, cancelled: Cancelled) -> SequenceSearch:
        """Return a search with another seed. On a large graph it starts from the best schedule; on others
        from another order if one needs much less memory, else from the first search's start."""
        graph, budget = self._problem.graph, self._problem.budget_bytes
        best = self._search.best if graph.n > _MEDIUM else None
        start, seed = self._search.start if best is None else best, self._options.seed + _OTHER_SEED
        order: Steps | None = None
        if graph.n <= _MEDIUM:
            order = order_first(graph, budget, moves=_ORDER_MOVES, seed=seed, cancelled=cancelled)
        if order is not None:
            end = greedy_steps(self._scaled, budget, until=self._until, cancelled=cancelled, start=order)
            start = end.steps if end.fits else start
        return SequenceSearch(graph, self._scaled, budget, start, seed=seed)

    def _share_best(self) -> None:
        if self._search.best is not None:
            self._prover.offer(self._search.best)

    def _report_best(self) -> None:
        if self._search.best is not None:
            self._listener.incumbent(self._search.best.tolist(), self._search.cost)
            self._prover.offer(self._search.best)

    def _prover_state(self) -> ProverState:
        if not self._asked:
            return ProverState(self._problem.graph.base_cost, 0, 0, over=True)
        return self._prover.state()

    def _share_second_core(self) -> None:
        if self._core is None or self._over():
            return
        own = self._prover_state().bound
        known = own if own > self._problem.graph.base_cost else None
        now = time.perf_counter()
        if not self._core.changes(known, self._search.cost, now=now):
            return
        if self._core.searches:
            self._prover.stop()
            self._second.start()
        else:
            self._second.stop()
            self._start_prover(self._until - now)
            self._share_best()

    def _take_news(self) -> None:
        found = self._second.take()
        if found is not None and self._search.note(found):
            self._chain.note_improvement()
            self._report_best()
        state = self._prover_state()
        self._cuts, self._programs = max(self._cuts, state.cuts), max(self._programs, state.programs)
        self.raise_bound(state.bound)
        for steps in self._prover.take_schedules() if self._asked else ():
            if not self._over():
                self.fit(steps)

    def raise_bound(self, bound: float) -> None:
        if bound > self._bound:
            self._bound = bound
            if not math.isinf(bound):
                self._listener.bound(bound, ())

    def fit(self, steps: NDArray[np.int32]) -> None:
        """Fit what the prover's programs describe into the budget. The search goes on from there."""
        if len(np.unique(steps)) < self._problem.graph.n:
            return  # rounded shares may leave an op out
        end = greedy_steps(
            self._scaled,
            self._problem.budget_bytes,
            until=min(self._until, time.perf_counter() + _FIT_S),
            cancelled=self._listener.cancelled,
            start=steps,
        )
        if self._search.offer(end.steps, follow=True):
            self._report_best()


class _SingleCutListener(ProofListener):
    def __init__(self, run: Run, listener: Listener) -> None:
        self._run, self._listener = run, listener

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._run.raise_bound(lower_bound)

    def described(self, steps: Steps) -> None:
        self._run.fit(steps)

    def enough(self, bound: float) -> bool:
        return self._run.proves(bound)

    def cancelled(self) -> bool:
        return self._listener.cancelled()


class _SearchListener(Listener):
    def __init__(self, run: Run) -> None:
        self._run = run

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._run.note_improvement(steps, cost)

    def cancelled(self) -> bool:
        return self._run.has_news()


class AutoSolver:
    """Greedy, local search and path cuts together. OPTIMAL and INFEASIBLE are proofs for any order."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        started = time.perf_counter()
        settled = _settle(problem, options, listener, started)
        if settled is not None:
            return settled
        # Once per machine; this does not count as solving.
        if not is_compiled() and not load_kernels(listener.cancelled, listener.preparing):
            return cancelled_before(problem, NAME, time.perf_counter() - started)
        with background_prover(problem.graph) as prover:
            return solve_with(problem, options, listener, prover)


def solve_with(
    problem: Problem,
    options: SolveOptions,
    listener: Listener,
    prover: BackgroundProver,
    *,
    bound: float = 0.0,
    blocks: BlocksOf | None = None,
) -> SolveResult:
    """Solve with the caller's prover, which stays warm, a known bound and the graph's ``blocks``."""
    started = time.perf_counter()
    settled = _settle(problem, options, listener, started)
    if settled is not None:
        return settled
    load_kernels()
    run = Run(problem, options, listener, prover, bound, blocks or BlocksOf(problem.graph))
    try:
        if options.workers > 1:
            run.side_by_side()
        else:
            run.in_turns()
    finally:
        prover.stop()
    return run.result(time.perf_counter() - started)


def _settle(
    problem: Problem, options: SolveOptions, listener: Listener, started: float
) -> SolveResult | None:
    graph = problem.graph
    infeasible = below_working_set(problem, NAME)
    if infeasible is not None:
        return replace(infeasible, solve_seconds=time.perf_counter() - started)
    plain = KeepAllSolver().solve(problem, options, listener)
    if plain.schedule is None:
        return None
    listener.incumbent(plain.schedule.steps.tolist(), graph.base_cost)
    return replace(plain, solver=NAME, solve_seconds=time.perf_counter() - started)
