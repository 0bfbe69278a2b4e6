"""What the published methods make of a few budgets, for comparison."""

from __future__ import annotations

from collections.abc import Iterator

from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.listeners import CancelListener
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.registry import find_solver

BASELINES = ("chen-sqrt-linear", "chen-greedy-linear", "chen-greedy-ap")
_SHARES = (0.75, 0.5, 0.35)  # of keeping everything
_SECONDS = 1.0  # for one method and one budget


def baseline_points(
    graph: Graph, plain_bytes: int, least_bytes: int, busy: Cancelled
) -> Iterator[FrontierPoint | None]:
    """Yield each schedule of the published methods once.

    A bit of work is done at a time. None: it has led to no new schedule. ``busy`` interrupts a bit, which is
    then done again.
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
