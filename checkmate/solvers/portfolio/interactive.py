"""Solve for a budget that keeps changing; fill the frontier when idle.

The newest request comes first. Everything found and proved goes to one ``Frontier``, and to the listener. A
request starts from the best schedule known that fits, and from the bound known for it. The prover's process
stays warm between requests. While nothing is asked, the frontier is filled: first schedules by greedy at many
budgets, that of ``FIRST_SHARE`` before all others, each also from its cheaper and its smaller neighbour; then
the bound of the single cut at each; then longer solves where the gap is widest. After the first budgets, the
published methods solve a few, to compare with. Idle work stops within milliseconds of a request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from checkmate.errors import WorkerDiedError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.ir.arrays import Steps
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
from checkmate.solvers.bounds import below_minimum, explain_below_bound, run_once_bound, working_set_bound
from checkmate.solvers.certify import NOTHING_FITS, without_schedule
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.known_frontier import Frontier, FrontierPoint
from checkmate.solvers.listeners import CancelListener, ForwardingListener
from checkmate.solvers.pathcut.in_thread import background_prover
from checkmate.solvers.pathcut.prover import CancelledProof, Prover
from checkmate.solvers.portfolio.auto import solve_with
from checkmate.solvers.portfolio.least_memory import LeastMemory, least_memory
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.solvers.repeated_blocks import BlocksOf, repeated_schedules
from checkmate.solvers.sequence.greedy_solver import QUICK, greedy_steps
from checkmate.solvers.sequence.kernel_arrays import ScaledModel, build_model
from checkmate.solvers.tolerances import PROVED, ROUNDING
from checkmate.units import FIRST_SHARE

# Budgets between the least possible and keep-everything; the number of those done first.
_POINTS, _COARSE = 64, 16
_OPEN_S = 0.4  # seconds for the first points
_GREEDY_S, _CUT_S = 1.0, 0.3  # seconds for one budget
# From this many ops on, greedy goes down from budget to budget, in this many seconds per op for each.
_LARGE, _DESCENT_S = 2000, 0.003
_FEW_ROUNDS = 2  # with equal blocks, for one budget
_REFINE_S, _REFINED = 2.0, 0.005  # seconds per solve while idle; the gap that is good enough
_ROUNDS = 3  # the most rounds of refinement
_PUBLISHED = ("chen-sqrt-linear", "chen-greedy-linear", "chen-greedy-ap")
_SHARES = (0.75, 0.5, 0.35)  # budgets for each of these solvers, as shares of keeping everything
_PUBLISHED_S = 1.0  # seconds for one of them and one budget
_AUTO = "auto"  # the name given as the source of schedules that several solvers made together


class FrontierListener:
    """Receives what is new on the frontier; the methods here ignore it."""

    def point(self, point: FrontierPoint) -> None:
        """Take a checked schedule that no known one beats."""

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        """Take a bound for any order; an infinite one means that there is no schedule."""

    def baseline(self, point: FrontierPoint) -> None:
        """Take a published method's schedule; known ones may beat it."""


class LiveSolver:
    """One graph, explored live, from one thread. Close it, or use it in a ``with``.

    ``workers``: the most cores to use; with more than one, the prover's process works beside the search.
    """

    def __init__(
        self,
        graph: Graph,
        listener: FrontierListener,
        *,
        workers: int = 1,
    ) -> None:
        self.graph = graph
        self.frontier = Frontier(graph)
        self._listener, self._workers = listener, workers
        self._prover = background_prover(graph)
        self._plain = simulate(graph, Schedule.plain(graph)).peak_bytes
        self._least = run_once_bound(graph).bytes
        self._scaled: ScaledModel | None = None
        # The budget that the descent has not reached yet, and the steps where it is.
        self._reached: tuple[int, Steps] | None = None
        self._blocks = BlocksOf(graph)
        self._todo: Iterator[None] = self._idle_work()
        self._baselines = self._published()
        self._busy: Cancelled = lambda: False

    def __enter__(self) -> LiveSolver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._prover.close()

    def begin(self, *, fill: bool = True) -> None:
        """Add what is known without search and, if ``fill``, a first, coarse frontier.

        Processes and kernels start to warm up. This takes about a second at most, since a request might come
        meanwhile.
        """
        self._add(range(self.graph.n), "keep-all", self._plain)
        if self._least > 0:
            self._add_bound(self._least - 1, float("inf"))
        self._prover.start()
        load_kernels()
        until = time.perf_counter() + _OPEN_S
        while fill and time.perf_counter() < until and self.idle(lambda: time.perf_counter() > until):
            continue

    def solve(self, budget_bytes: int, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return the best schedule in time; ``listener`` receives at once what is known already."""
        problem = Problem(self.graph, budget_bytes)
        options = replace(options, workers=self._workers)
        known = self.frontier.answer(budget_bytes)
        if known.point is not None:
            listener.incumbent(known.point.schedule.steps.tolist(), known.point.cost)
            options = replace(options, start=known.point.schedule)
        if not known.infeasible and known.lower_bound > self.graph.base_cost:
            listener.bound(known.lower_bound, ())
        if known.infeasible:
            return self._infeasible(budget_bytes)
        both = _BoundRecorder(self.frontier, budget_bytes, listener)
        result = solve_with(
            problem, options, both, self._prover, bound=known.lower_bound, blocks=self._blocks
        )
        point = self.frontier.add_result(result)
        if point is not None:
            self._listener.point(point)
        best = self.frontier.bound(budget_bytes)
        if best > self.graph.base_cost:
            self._listener.bound(budget_bytes, best)
        if result.cost is None or best <= (result.lower_bound or 0.0):
            return result
        proved = best >= result.cost * PROVED
        status = SolveStatus.OPTIMAL if proved else result.status
        return replace(result, status=status, lower_bound=min(best, result.cost))

    def _infeasible(self, budget_bytes: int) -> SolveResult:
        """The statistics ``tightest_…`` name the op, or the values kept at the end, that need too much."""
        error = below_minimum(self.graph, budget_bytes)
        need = run_once_bound(self.graph)
        sentence = NOTHING_FITS
        tightest: dict[str, Any] = {}
        if budget_bytes < need.bytes:
            sentence = explain_below_bound(self.graph, budget_bytes, need) if error is None else str(error)
            need = need if error is None else working_set_bound(self.graph)
            tightest = {
                "tightest_op": need.op,
                "tightest_values": list(need.values),
                "tightest_bytes": need.bytes,
                "tightest_at_end": need.at_end,
            }
        problem = Problem(self.graph, budget_bytes)
        return without_schedule(
            problem, "auto", SolveStatus.INFEASIBLE, sentence, seconds=0.0, statistics=tightest
        )

    def least(self, max_overhead: float | None, options: SolveOptions, listener: Listener) -> LeastMemory:
        """Return the least memory at ``max_overhead``, as ``least_memory``.

        The search starts from the frontier, and all that it finds and proves goes there.
        """
        both = _ScheduleRecorder(listener)
        options = replace(options, workers=self._workers)
        found = least_memory(self.graph, max_overhead, options, both, known=self.frontier)
        cap = float("inf") if max_overhead is None else found.cost_cap * (1 + ROUNDING)
        self._add_bound(found.lower_bound_bytes - 1, cap)
        for steps in both.found:
            self._add(steps, _AUTO, None)
        point = self.frontier.add_result(found.result)
        if point is not None:
            self._listener.point(point)
        if found.result.lower_bound is not None:
            self._listener.bound(found.peak_bytes, self.frontier.bound(found.peak_bytes))
        return found

    def idle(self, busy: Cancelled) -> bool:
        """Do a bit of the remaining work, until ``busy``; False if there is none."""
        self._busy = busy
        return next(self._todo, False) is None

    def _idle_work(self) -> Iterator[None]:
        budgets = self._budgets()
        for part in (budgets[:_COARSE], budgets[_COARSE:]):
            if self.graph.n > _LARGE:
                part = sorted(part, reverse=True)
            for budget in part:
                yield from self._until_done(self._descend if self.graph.n > _LARGE else self._greedy, budget)
            for budget in sorted(part, reverse=True):
                if self.frontier.best(budget) is not None:
                    yield from self._until_done(self._single_cut, budget)
            while self._next_baseline():
                yield
        for turn in range(_ROUNDS):
            for budget in self._widest(budgets):
                yield from self._until_done(self._refine, budget, _REFINE_S * 2**turn)

    def _until_done(self, work: Callable[..., None], *given: float) -> Iterator[None]:
        interrupted = True
        while interrupted:
            work(*given)
            interrupted = self._busy()
            yield

    def _next_baseline(self) -> bool:
        try:
            point = next(self._baselines)
        except StopIteration:
            return False
        if point is not None:
            self._listener.baseline(point)
            self._add(point.schedule.steps.tolist(), point.solver, point.budget_bytes)
        return True

    def _published(self) -> Iterator[FrontierPoint | None]:
        """Yield the schedules of the published methods once each, and None after work without a new one.

        Work that a request interrupts is done again.
        """
        seen: set[tuple[str, int, float]] = set()
        for name in _PUBLISHED:
            for budget in (int(share * self._plain) for share in _SHARES):
                if budget < self._least:
                    continue
                while (point := self._published_point(name, budget)) is None and self._busy():
                    yield None
                facts = None if point is None else (name, point.peak_bytes, point.cost)
                yield None if facts is None or facts in seen else point
                if facts is not None:
                    seen.add(facts)

    def _published_point(self, name: str, budget: int) -> FrontierPoint | None:
        options = SolveOptions(time_limit_s=_PUBLISHED_S)
        solver, heard = find_solver(name).load(), CancelListener(lambda: self._busy())
        result = solver.solve(Problem(self.graph, budget), options, heard)
        if result.schedule is None or result.peak_bytes is None or result.cost is None:
            return None
        return FrontierPoint(
            result.schedule, result.peak_bytes, result.cost, budget, name, result.solve_seconds
        )

    def _budgets(self) -> list[int]:
        low, high = max(self._least, 1), max(self._plain, 1)
        grid = np.geomspace(low, high, _POINTS).astype(np.int64).tolist()
        order = sorted(range(_POINTS), key=lambda i: (-((_POINTS - i) & -(_POINTS - i)), -i))
        wanted = dict.fromkeys([max(low, int(FIRST_SHARE * high)), *(grid[i] for i in order)])
        return [budget for budget in wanted if budget < self._plain]

    def _greedy(self, budget: int) -> None:
        self._scaled = scaled = self._scaled or build_model(self.graph)
        above = next((p for p in self.frontier if p.peak_bytes > budget), None)
        for point in (None, self.frontier.best(budget), above):
            start = None if point is None else np.array(point.schedule.steps, np.int32)
            until = time.perf_counter() + _GREEDY_S
            end = greedy_steps(scaled, budget, until=until, cancelled=self._busy, start=start)
            if end.fits:
                self._add(end.steps.tolist(), "greedy", budget)

    def _descend(self, budget: int) -> None:
        """Find a schedule for ``budget`` from the next larger one, or from where an earlier descent ended.

        On 10,000 ops greedy makes a schedule for 60 % in 17 s from the plain step, and in four from the
        schedule for the next larger budget. Where the step has equal blocks, a few of them are enough.
        """
        if self._from_repeats(budget):
            return
        self._scaled = scaled = self._scaled or build_model(self.graph)
        above = next((p for p in self.frontier if p.peak_bytes > budget), None)
        start = None if above is None else np.array(above.schedule.steps, np.int32)
        reached = self._reached
        if reached is not None and reached[0] >= budget and (above is None or above.peak_bytes > reached[0]):
            start = reached[1]
        until = time.perf_counter() + _DESCENT_S * self.graph.n
        end = greedy_steps(scaled, budget, until=until, cancelled=self._busy, start=start, further=QUICK)
        self._reached = None if end.fits else (budget, end.steps)
        if end.fits:
            self._add(end.steps.tolist(), "greedy", budget)

    def _from_repeats(self, budget: int) -> bool:
        blocks, found = self._blocks.found, False
        if blocks is None:
            return False
        for steps in repeated_schedules(
            Problem(self.graph, budget),
            blocks,
            until=math.inf,
            cancelled=self._busy,
            rounds=_FEW_ROUNDS,
        ):
            if check(self.graph, steps.tolist(), budget_bytes=budget).ok:
                found = True
                self._add(steps.tolist(), _AUTO, budget)
        return found

    def _single_cut(self, budget: int) -> None:
        prover = Prover(self.graph, budget, reach=self._prover.reach)
        prover.run(CancelledProof(self._busy), until=time.perf_counter() + _CUT_S, rounds=1)
        self._add_bound(budget, prover.bound)

    def _widest(self, budgets: Sequence[int]) -> list[int]:
        gaps = {}
        for budget in budgets:
            answer = self.frontier.answer(budget)
            if answer.point is not None and answer.gap is not None and answer.gap > _REFINED:
                gaps[answer.point.peak_bytes] = (answer.gap, budget)
        return [budget for _, budget in sorted(gaps.values(), reverse=True)]

    def _refine(self, budget: int, seconds: float) -> None:
        options = SolveOptions(time_limit_s=seconds, gap=_REFINED, workers=self._workers)
        try:
            self.solve(budget, options, CancelListener(self._busy))
        except WorkerDiedError:
            return  # nobody waits for this budget, and the next one gets a new process

    def _add(self, steps: Sequence[int], solver: str, budget: int | None) -> None:
        point = self.frontier.add(steps, solver=solver, budget_bytes=budget)
        if point is not None:
            self._listener.point(point)

    def _add_bound(self, budget: int, lower_bound: float) -> None:
        if self.frontier.add_bound(budget, lower_bound):
            self._listener.bound(budget, lower_bound)


class _BoundRecorder(ForwardingListener):
    """Forwards a solve's events, and adds its bounds to the frontier."""

    def __init__(self, frontier: Frontier, budget_bytes: int, listener: Listener) -> None:
        super().__init__(listener)
        self._frontier, self._budget = frontier, budget_bytes

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        super().bound(lower_bound, assumptions)
        if not assumptions:
            self._frontier.add_bound(self._budget, lower_bound)


class _ScheduleRecorder(ForwardingListener):
    """Forwards the events of a search for the least memory, and keeps its schedules."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener)
        self.found: list[Sequence[int]] = []

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        self.found.append(steps)
        super().smaller(steps, peak_bytes, cost)
