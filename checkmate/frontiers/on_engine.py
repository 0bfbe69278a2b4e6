"""Trace curves with every budget solved by itself on an engine.

What the workers find is merged into one frontier per graph. Unlike in one process
(``checkmate.frontiers.sweep``), no solve knows of another, so the answers depend on their own tasks alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from checkmate import planning
from checkmate.errors import SolverCrashedError
from checkmate.frontiers.summary import Baseline, BudgetRow, TradeOff, require_budgets, resolved, row_of
from checkmate.frontiers.tasks import BaselineTask, LeastTask, SolveTask, baseline_of, result_of
from checkmate.ir import Graph, SolveResult
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.known_frontier import Frontier
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.registry import BASELINES, find_solver
from checkmate.sweeps.engine import Pool
from checkmate.sweeps.journal import Journal
from checkmate.sweeps.run import SweepResult, Task, run
from checkmate.units import Budget, format_bytes, plural

_PROBE_S = 1.0  # per budget tried for the least reachable peak
_BASELINE_SHARE = 0.2  # of the time, at most, for all baselines together


def trade_offs_on(
    graphs: Sequence[Graph],
    budgets: int | Sequence[Budget],
    pool: Pool,
    *,
    solver: str = "auto",
    options: SolveOptions | None = None,
    baselines: Sequence[str] = BASELINES,
    journal: Journal | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[TradeOff]:
    """Return the curve of each of ``graphs``, like ``trade_off``.

    The options' time limit is for each graph, as if its solves ran one after the other. So the tasks, and
    their entries in the journal, are the same however many run at once. Cancelling keeps what was found.

    Raises what ``trade_off`` and ``checkmate.sweeps.run.run`` raise, and SolverCrashedError if a graph's
    least memory could not be found.
    """
    for name in (solver, *baselines):
        find_solver(name)
    find_solver(solver).load()
    for graph in graphs:
        require_budgets(budgets, planning.keep_everything_peak(graph))
    began = time.perf_counter()
    asked = options or SolveOptions()
    first, least = _least(graphs, budgets, pool, journal, report, cancelled)
    names = tuple(dict.fromkeys(baselines))
    plans = [_Plan(graph, budgets, least.get(graph.fingerprint), solver, asked, names) for graph in graphs]
    swept = first
    if not first.cancelled:
        tasks = [task for plan in plans for task in plan.tasks]
        swept = run(tasks, pool, journal=journal, report=report, cancelled=cancelled)
    return [plan.outcome(swept, time.perf_counter() - began) for plan in plans]


def _least(
    graphs: Sequence[Graph],
    budgets: int | Sequence[Budget],
    pool: Pool,
    journal: Journal | None,
    report: Report,
    cancelled: Cancelled,
) -> tuple[SweepResult, dict[str, int]]:
    # It goes to the journal, so that a resumed sweep has the same budgets.
    if not isinstance(budgets, int) and Budget() not in budgets:
        return SweepResult(), {}
    options = SolveOptions(time_limit_s=_PROBE_S)
    tasks = {graph.fingerprint: LeastTask(graph, 0, "greedy", options) for graph in graphs}
    swept = run(list(tasks.values()), pool, journal=journal, report=report, cancelled=cancelled)
    for task in tasks.values():
        if task.key in swept.failures:
            raise SolverCrashedError(
                f"{task.name}: {swept.failures[task.key]}", hint="give budgets as sizes or shares"
            )
    known = {name: swept.answers[task.key] for name, task in tasks.items() if task.key in swept.answers}
    return swept, {name: data["peak_bytes"] for name, data in known.items()}


class _Plan:
    def __init__(
        self,
        graph: Graph,
        budgets: int | Sequence[Budget],
        least: int | None,
        solver: str,
        options: SolveOptions,
        baselines: Sequence[str],
    ) -> None:
        self._graph, self._solver, self._limit_s = graph, solver, options.time_limit_s
        self._plain = planning.keep_everything_peak(graph)
        known = max(1, run_once_bound(graph).bytes) if least is None else least
        self._budgets = resolved(budgets, known, self._plain)
        for_baselines = _BASELINE_SHARE if baselines else 0.0
        each = replace(
            options, time_limit_s=(1 - for_baselines) * self._limit_s / len(self._budgets), start=None
        )
        self._solves = {budget: SolveTask(graph, budget, solver, each) for budget in self._budgets}
        other = replace(each, time_limit_s=for_baselines * self._limit_s / max(1, len(baselines)), moves=None)
        self._baselines = {name: BaselineTask(graph, 0, name, other) for name in baselines}

    @property
    def tasks(self) -> list[Task]:
        """All tasks, small budgets first: they take longest."""
        return [*(self._solves[budget] for budget in sorted(self._budgets)), *self._baselines.values()]

    def outcome(self, swept: SweepResult, seconds: float) -> TradeOff:
        frontier = Frontier(self._graph)
        frontier.add(range(self._graph.n), solver="keep-all", budget_bytes=self._plain)
        frontier.add_bound(run_once_bound(self._graph).bytes - 1, float("inf"))
        baselines = [self._baseline(name, frontier, swept) for name in self._baselines]
        results = {
            budget: result_of(self._graph, swept.answers[task.key])
            for budget, task in self._solves.items()
            if task.key in swept.answers
        }
        for budget in self._budgets:  # a fixed order, whichever ended first
            if budget in results:
                frontier.add_result(results[budget])
        rows = tuple(
            self._row(budget, frontier, results.get(budget), swept) for budget in sorted(self._budgets)
        )
        return TradeOff(
            self._graph, self._solver, self._plain, rows, tuple(baselines), frontier, self._limit_s, seconds,
            swept.cancelled, self._notes(swept),
        )  # fmt: skip

    def _baseline(self, name: str, frontier: Frontier, swept: SweepResult) -> Baseline:
        key = self._baselines[name].key
        if key not in swept.answers:
            return Baseline(name, (), swept.failures.get(key, "cancelled"))
        points, note = baseline_of(self._graph, name, swept.answers[key])
        for point in points:
            frontier.add(point.schedule.steps.tolist(), solver=name, budget_bytes=point.budget_bytes)
        return Baseline(name, points, note)

    def _row(
        self, budget: int, frontier: Frontier, result: SolveResult | None, swept: SweepResult
    ) -> BudgetRow:
        stopped = swept.cancelled and result is None
        return row_of(
            frontier.answer(budget), result, 0.0 if result is None else result.solve_seconds, stopped=stopped
        )

    def _notes(self, swept: SweepResult) -> tuple[str, ...]:
        answers = [swept.answers[task.key] for task in self._solves.values() if task.key in swept.answers]
        timed = sum(answer["ended"] == "time" for answer in answers)
        crowd = f", up to {swept.at_once} solves at once" if swept.at_once else ""
        ends = "none ended at the time limit, so another run gives the same costs"
        if timed:
            which = f"{timed} of {len(self._budgets)} ended at the time limit"
            ends = f"{which}; another run may give other costs"
        notes = [f"every budget was solved by itself{crowd}; {ends}"]
        if swept.reused:
            notes.append(f"{plural(swept.reused, 'answer')} of the whole sweep came from the journal")
        if swept.lost:
            notes.append(f"{plural(swept.lost, 'worker')} stopped before the answer came")
        for budget, task in self._solves.items():
            if task.key in swept.failures:
                notes.append(f"{format_bytes(budget)} was not solved: {swept.failures[task.key]}")
        return tuple(notes)
