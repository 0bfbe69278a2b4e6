"""Trace one graph's trade-off of memory against cost.

It solves at many budgets and adds the known strategies. One frontier takes in all that is found and proved,
so the curve only falls with the budget. Every schedule has passed the independent check.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from checkmate import planning
from checkmate.errors import CancelledError, SolveError
from checkmate.frontiers.summary import (
    Baseline,
    BudgetRow,
    TradeOff,
    is_open,
    require_budgets,
    resolved,
    row_of,
)
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.known_frontier import Frontier, FrontierPoint
from checkmate.solvers.listeners import CancelListener
from checkmate.solvers.portfolio.interactive import FrontierListener, LiveSolver
from checkmate.solvers.problem import SolveOptions, SolverFeature
from checkmate.solvers.registry import BASELINES, find_solver
from checkmate.units import Budget, format_bytes, format_overhead

SHORTEST_S = 0.02  # a shorter solve finds nothing


def trace(
    graph: Graph,
    name: str,
    points: list[FrontierPoint],
    options: SolveOptions,
    *,
    until: float,
    cancelled: Cancelled,
) -> str:
    """Add the schedules of solver ``name`` to ``points``, by falling peak; return why it ended early, or "".

    Each solve asks for less than the last one's peak, until ``until`` (``time.perf_counter``).

    Raises:
        CancelledError: the user cancelled; ``points`` has what was found.
        SolveError: the solver cannot be run.
    """
    once = SolverFeature.IGNORES_BUDGET in find_solver(name).features
    budget = planning.keep_everything_peak(graph)
    while True:
        stop_if(cancelled)
        left = until - time.perf_counter()
        if left < SHORTEST_S:
            return "not finished in the time given"
        asked = replace(options, time_limit_s=left, start=None)
        result = planning.solve(graph, budget, solver=name, options=asked, listener=CancelListener(cancelled))
        stop_if(cancelled)
        if result.schedule is None or result.peak_bytes is None or result.cost is None:
            return "" if points else result.message
        if points and result.cost <= points[-1].cost:
            points.pop()  # the new one is as cheap and smaller
        made = (result.schedule, result.peak_bytes, result.cost, budget, name, result.solve_seconds)
        points.append(FrontierPoint(*made))
        if once:
            return ""
        budget = result.peak_bytes - 1


_BASELINE_SHARE = 0.2  # of the time, at most, for all baselines together
# The time for the least memory at any cost: a share of the time limit, and at most so many seconds.
_MINIMUM_SHARE, _MINIMUM_S = 0.1, 5.0
# The part of a budget's share of the time that its first solve gets, if a later solve can go on from it.
_FIRST_SHARE = 0.6
_REFINEMENTS = 3
_LEAST_GAP = 1e-4  # smaller gaps count as this when time is divided in proportion to the gaps


def trade_off(
    graph: Graph,
    budgets: int | Sequence[Budget],
    *,
    solver: str = "auto",
    options: SolveOptions | None = None,
    baselines: Sequence[str] = BASELINES,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> TradeOff:
    """Solve ``graph`` at ``budgets``: how many between the least known memory and keep-everything, or a list.

    The options' time limit is for everything together: first split evenly, then given to the widest gap.
    Compiling the search, once per machine, is not counted. Cancelling (also Ctrl-C) keeps what was found.

    Raises:
        SolverUnavailableError: the solver or a baseline is unknown or not installed.
        UsageError: as ``require_budgets``.
    """
    for name in (solver, *baselines):
        find_solver(name)
    find_solver(solver).load()
    require_budgets(budgets, planning.keep_everything_peak(graph))
    asked = options or SolveOptions()
    with _explored(graph, solver, asked.workers) as live:
        sweep = _CurveSweep(graph, live, solver, asked, report, cancelled)
        sweep.run(budgets, tuple(dict.fromkeys(baselines)))
        return sweep.outcome()


@contextmanager
def _explored(graph: Graph, solver: str, workers: int) -> Iterator[LiveSolver | None]:
    if solver != "auto":
        yield None
        return
    with LiveSolver(graph, FrontierListener(), workers=workers) as live:
        yield live


class _CurveSweep:
    def __init__(
        self,
        graph: Graph,
        live: LiveSolver | None,
        solver: str,
        options: SolveOptions,
        report: Report,
        cancelled: Cancelled,
    ) -> None:
        self._graph, self._live, self._solver, self._options = graph, live, solver, options
        self._report, self._cancelled = report, cancelled
        self.frontier = Frontier(graph) if live is None else live.frontier
        self._again = SolverFeature.ANYTIME in find_solver(solver).features
        self._plain = planning.keep_everything_peak(graph)
        self._budgets: list[int] = []
        self._results: dict[int, SolveResult] = {}
        self._seconds: dict[int, float] = {}
        self._baselines: list[Baseline] = []
        self._stopped = False
        self._begun = time.perf_counter()

    def run(self, budgets: int | Sequence[Budget], baselines: Sequence[str]) -> None:
        """Run until everything is done, time is up, or it is cancelled."""
        try:
            self._begin()
            until = time.perf_counter() + _BASELINE_SHARE * self._options.time_limit_s
            for name in baselines:
                self._baseline(name, until)
            least = self._least() if isinstance(budgets, int) or Budget() in budgets else 0
            self._budgets = resolved(budgets, least, self._plain)
            self._round()
            self._refine()
        except (KeyboardInterrupt, CancelledError):
            self._stopped = True
        self._stopped = self._stopped or self._cancelled()
        if not self._budgets:
            self._budgets = resolved(budgets, max(1, run_once_bound(self._graph).bytes), self._plain)

    def outcome(self) -> TradeOff:
        rows = tuple(self._row(budget) for budget in sorted(self._budgets))
        seconds = time.perf_counter() - self._begun
        return TradeOff(
            self._graph, self._solver, self._plain, rows, tuple(self._baselines), self.frontier,
            self._options.time_limit_s, seconds, self._stopped,
        )  # fmt: skip

    def _begin(self) -> None:
        self.frontier.add(range(self._graph.n), solver="keep-all", budget_bytes=self._plain)
        self.frontier.add_bound(run_once_bound(self._graph).bytes - 1, float("inf"))
        if self._live is None:
            return
        load_kernels(self._cancelled, self.say)
        stop_if(self._cancelled)
        self._begun = time.perf_counter()
        self._live.begin()

    def _baseline(self, name: str, until: float) -> None:
        self.say(f"baseline {name}")
        points: list[FrontierPoint] = []
        note = "cancelled"
        try:
            note = trace(self._graph, name, points, self._options, until=until, cancelled=self._cancelled)
        except SolveError as error:
            note = str(error)
        finally:
            for point in points:
                self.frontier.add(point.schedule.steps.tolist(), solver=name, budget_bytes=point.budget_bytes)
            self._baselines.append(Baseline(name, tuple(points), note))

    def _least(self) -> int:
        """Return the least known peak in bytes. Schedules found on the way go to the frontier."""
        stop_if(self._cancelled)
        self.say("the least memory at any cost")
        if self._live is None:
            return planning.known_minimum(self._graph, listener=CancelListener(self._cancelled)).bytes
        seconds = min(_MINIMUM_S, _MINIMUM_SHARE * self._options.time_limit_s)
        options = replace(self._options, time_limit_s=seconds, gap=0.0)
        return self._live.least(None, options, CancelListener(self._cancelled)).peak_bytes

    def _round(self) -> None:
        share = _FIRST_SHARE if self._again else 1.0
        for budget in self._budgets:
            still = [b for b in self._budgets if b <= budget and self._is_open(b)]
            if budget in still:
                self._improve(budget, share * self._left() / len(still))

    def _refine(self) -> None:
        for _ in range(_REFINEMENTS if self._again else 0):
            gaps = {budget: self._gap(budget) for budget in self._budgets if self._is_open(budget)}
            budgets = sorted(gaps, key=lambda budget: -gaps[budget])
            for place, budget in enumerate(budgets):
                if self._is_open(budget):
                    self._improve(budget, self._left() * gaps[budget] / sum(gaps[b] for b in budgets[place:]))

    def _gap(self, budget: int) -> float:
        gap = self.frontier.answer(budget).gap
        return 1.0 if gap is None else max(_LEAST_GAP, gap)

    def _left(self) -> float:
        return max(0.0, self._begun + self._options.time_limit_s - time.perf_counter())

    def _improve(self, budget: int, seconds: float) -> None:
        stop_if(self._cancelled)
        if seconds < SHORTEST_S:
            return
        place = len(self._budgets) - self._budgets.index(budget)
        words = f"budget {format_bytes(budget)} ({place} of {len(self._budgets)})"
        self.say(words)
        began = time.perf_counter()
        self._results[budget] = self._solve(budget, seconds, _CostListener(self, self._cancelled, words))
        self._seconds[budget] = self._seconds.get(budget, 0.0) + time.perf_counter() - began

    def _solve(self, budget: int, seconds: float, listener: CancelListener) -> SolveResult:
        options = replace(self._options, time_limit_s=seconds)
        if self._live is not None:
            return self._live.solve(budget, options, listener)
        known = self.frontier.best(budget)
        options = replace(options, start=None if known is None else known.schedule)
        result = planning.solve(self._graph, budget, solver=self._solver, options=options, listener=listener)
        self.frontier.add_result(result)
        return result

    def _is_open(self, budget: int) -> bool:
        return is_open(self.frontier.answer(budget))

    def _row(self, budget: int) -> BudgetRow:
        result, seconds = self._results.get(budget), self._seconds.get(budget, 0.0)
        stopped = self._stopped and (result is None or result.status is SolveStatus.CANCELLED)
        return row_of(self.frontier.answer(budget), result, seconds, stopped=stopped)

    def say_cost(self, budget: str, cost: float) -> None:
        self.say(f"{budget}: {format_overhead(cost, self._graph.base_cost)}")

    def say(self, message: str) -> None:
        limit = self._options.time_limit_s
        self._report(Progress("frontier", min(limit, time.perf_counter() - self._begun), limit, message))


class _CostListener(CancelListener):
    def __init__(self, sweep: _CurveSweep, cancelled: Cancelled, budget: str) -> None:
        super().__init__(cancelled)
        self._sweep, self._budget = sweep, budget

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._sweep.say_cost(self._budget, cost)
