"""Answer while the search is being compiled, with the published strategies, which need no compiled code."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.ir.arrays import Steps
from checkmate.memory.check import check
from checkmate.progress import Cancelled
from checkmate.solvers.certify import cancelled_before, with_schedule
from checkmate.solvers.compile.compilation import Compilation, wait_for
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.listeners import CancelListener
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.registry import find_solver

STRATEGIES = ("chen-greedy-linear", "chen-greedy-ap", "griewank")
_STRATEGY_S = 2.0  # the time limit of each
_UNSEARCHED = (
    "by simple strategies, as the search was still being compiled, once for this machine: "
    "solve again in some seconds for a better schedule"
)


def answer_while_compiling(
    compilation: Compilation, problem: Problem, options: SolveOptions, listener: Listener
) -> SolveOptions:
    """Look for schedules until the search can run, until cancelled, or until the time limit if there is one
    by then.

    Returns the options with the best schedule, which fits the budget, as the start.
    """
    best, until = _Best(problem, options, listener), time.perf_counter() + options.time_limit_s

    def over() -> bool:
        late = math.isfinite(best.cost) and time.perf_counter() > until
        return late or listener.cancelled() or not compilation.running

    listener.preparing(compilation.sentence)
    for name in STRATEGIES:
        if over():
            break
        brief = replace(options, time_limit_s=_STRATEGY_S, start=None)
        found = find_solver(name).load().solve(problem, brief, CancelListener(over))
        if found.schedule is not None:
            best.offer(found.schedule.steps)
    wait_for(compilation, listener.preparing, over)
    return best.options


def without_search(problem: Problem, options: SolveOptions, solver: str, *, seconds: float) -> SolveResult:
    """Return the options' start, found by then, or CANCELLED."""
    base = problem.graph.base_cost
    if options.start is not None:
        report = check(problem.graph, options.start.steps.tolist(), budget_bytes=problem.budget_bytes)
        if report.ok:
            found = with_schedule(problem, solver, options.start.steps, lower_bound=base, seconds=seconds)
            return replace(found, message=_UNSEARCHED)
    return cancelled_before(problem, solver, seconds)


class _Best:
    """Holds the best schedule so far, checked, and reports it to the listener."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        self._problem, self._listener = problem, listener
        self.options, self.cost = options, math.inf
        if options.start is not None:
            report = check(problem.graph, options.start.steps.tolist(), budget_bytes=problem.budget_bytes)
            self.cost = report.cost if report.ok else math.inf

    def offer(self, steps: Steps | Sequence[int]) -> None:
        plan = np.asarray(steps, np.int32).tolist()
        graph = self._problem.graph
        if not all(0 <= op < graph.n for op in plan) or float(graph.cost[plan].sum()) >= self.cost:
            return
        report = check(graph, plan, budget_bytes=self._problem.budget_bytes)
        if report.ok:
            self.cost = report.cost
            self.options = replace(self.options, start=Schedule.of(graph, plan))
            self._listener.incumbent(plan, report.cost)


BASELINES = ("chen-sqrt-linear", "chen-greedy-linear", "chen-greedy-ap")
_SHARES = (0.75, 0.5, 0.35)  # of keeping everything
_SECONDS = 1.0  # for one method and one budget


def baseline_points(
    graph: Graph, plain_bytes: int, least_bytes: int, busy: Cancelled
) -> Iterator[FrontierPoint | None]:
    """Yield each schedule of the published methods once, or None after a bit of work without a new one.

    ``busy`` interrupts a bit, which is then done again.
    """
    seen: set[tuple[str, int, float]] = set()
    for name in BASELINES:
        for share in _SHARES:
            budget = int(share * plain_bytes)
            if budget < least_bytes:
                continue
            while True:
                point = _solved(graph, name, budget, busy)
                if point is not None or not busy():
                    break
                yield None
            facts = None if point is None else (name, point.peak_bytes, point.cost)
            yield None if facts is None or facts in seen else point
            if facts is not None:
                seen.add(facts)


def _solved(graph: Graph, name: str, budget: int, busy: Cancelled) -> FrontierPoint | None:
    options = SolveOptions(time_limit_s=_SECONDS)
    result = find_solver(name).load().solve(Problem(graph, budget), options, CancelListener(busy))
    if result.schedule is None or result.peak_bytes is None or result.cost is None:
        return None
    schedule, seconds = result.schedule, result.solve_seconds
    return FrontierPoint(schedule, result.peak_bytes, result.cost, budget, name, seconds)
