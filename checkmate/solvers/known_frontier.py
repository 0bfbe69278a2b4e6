"""What is known about a graph's trade-off of memory against cost.

A schedule answers every budget that its peak fits; a bound proved for a budget holds for every smaller one.
So a few of each answer any budget at once, and the knowledge only ever improves.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from checkmate.errors import ScheduleError
from checkmate.ir import CheckReport, Graph, Schedule, SolveResult, SolveStatus
from checkmate.ir.result import gap_between
from checkmate.memory.check import check
from checkmate.solvers.tolerances import ROUNDING

_SAME = 1e-12  # costs that differ by less than this share count as equal


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """One schedule that no other known one beats in both peak and cost.

    ``peak_bytes`` includes the fixed bytes; ``solver`` made it for ``budget_bytes``, in ``seconds``.
    """

    schedule: Schedule
    peak_bytes: int
    cost: float
    budget_bytes: int
    solver: str
    seconds: float = 0.0


@dataclass(frozen=True)
class BudgetAnswer:
    """What is known for one budget. ``lower_bound``: in any order; infinite if no schedule exists."""

    budget_bytes: int
    point: FrontierPoint | None
    lower_bound: float

    @property
    def infeasible(self) -> bool:
        return math.isinf(self.lower_bound)

    @property
    def gap(self) -> float | None:
        return None if self.point is None else gap_between(self.point.cost, self.lower_bound)


class Frontier:
    """Known schedules, by rising peak, and known bounds, by rising budget; costs and bounds fall.

    All belong to one graph as it is: nothing may be added that holds under further constraints.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._points: list[FrontierPoint] = []
        self._bounds: list[tuple[int, float]] = []

    def copy(self) -> Frontier:
        other = Frontier(self.graph)
        other._points, other._bounds = list(self._points), list(self._bounds)
        return other

    @property
    def points(self) -> tuple[FrontierPoint, ...]:
        return tuple(self._points)

    @property
    def bounds(self) -> tuple[tuple[int, float], ...]:
        """(budget in bytes, lower bound); each holds for every budget up to its own."""
        return tuple(self._bounds)

    def __iter__(self) -> Iterator[FrontierPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self._points)

    def add(
        self,
        steps: Sequence[int],
        *,
        solver: str,
        budget_bytes: int | None = None,
        seconds: float = 0.0,
        report: CheckReport | None = None,
    ) -> FrontierPoint | None:
        """Add a schedule after the independent check; None if it is not new.

        A schedule that was replayed is a fact: a bound that it contradicts was wrong, and is dropped.
        ``report``: the check of these steps, if another process already made it.

        Raises:
            ScheduleError: it is no schedule of this graph, or its peak is over ``budget_bytes``.
        """
        plan = [int(step) for step in steps]
        made = np.array(plan, np.int64)
        fitting = [p for p in self._points if budget_bytes is None or p.peak_bytes <= budget_bytes]
        if any(np.array_equal(p.schedule.steps, made) for p in fitting):
            return None  # it was checked when it was added
        if report is None:
            report = check(self.graph, plan)
        report = replace(report, budget_bytes=budget_bytes)
        if not report.ok:
            raise ScheduleError(f"the schedule does not hold: {report.problem}")
        if any(
            p.peak_bytes <= report.peak_bytes and p.cost <= report.cost * (1 + _SAME) for p in self._points
        ):
            return None
        self._bounds = [
            (budget, low)
            for budget, low in self._bounds
            if budget < report.peak_bytes or low <= report.cost * (1 + ROUNDING)
        ]
        made_for = report.peak_bytes if budget_bytes is None else budget_bytes
        point = FrontierPoint(
            Schedule.of(self.graph, plan), report.peak_bytes, report.cost, made_for, solver, seconds
        )
        self._points = [
            p for p in self._points if p.peak_bytes < point.peak_bytes or p.cost < point.cost * (1 - _SAME)
        ]
        self._points.insert(bisect.bisect([p.peak_bytes for p in self._points], point.peak_bytes), point)
        return point

    def add_bound(self, budget_bytes: int, lower_bound: float) -> bool:
        """Whether the bound, for any order, is new. One that a known schedule contradicts is not added."""
        if not lower_bound > self.bound(budget_bytes):  # NaN is not a bound either
            return False
        best = self.best(budget_bytes)
        if best is not None and lower_bound > best.cost * (1 + ROUNDING):
            return False
        self._bounds = [(b, low) for b, low in self._bounds if b > budget_bytes or low > lower_bound]
        self._bounds.insert(
            bisect.bisect([b for b, _ in self._bounds], budget_bytes), (budget_bytes, lower_bound)
        )
        return True

    def add_result(self, result: SolveResult) -> FrontierPoint | None:
        """Add what a solver found and proved; a bound under assumptions is left out."""
        point = None
        if result.schedule is not None:
            point = self.add(
                result.schedule.steps.tolist(),
                solver=result.solver,
                budget_bytes=result.budget_bytes,
                seconds=result.solve_seconds,
            )
        if not result.assumptions:
            if result.status is SolveStatus.INFEASIBLE:
                self.add_bound(result.budget_bytes, math.inf)
            elif result.lower_bound is not None:
                self.add_bound(result.budget_bytes, result.lower_bound)
        return point

    def best(self, budget_bytes: int) -> FrontierPoint | None:
        place = bisect.bisect([p.peak_bytes for p in self._points], budget_bytes)
        return self._points[place - 1] if place else None

    def bound(self, budget_bytes: int) -> float:
        place = bisect.bisect_left([b for b, _ in self._bounds], budget_bytes)
        return self._bounds[place][1] if place < len(self._bounds) else self.graph.base_cost

    def answer(self, budget_bytes: int) -> BudgetAnswer:
        return BudgetAnswer(budget_bytes, self.best(budget_bytes), self.bound(budget_bytes))

    @property
    def infeasible_below(self) -> int:
        """The largest budget proved to have no schedule; 0 where none is."""
        return max((b for b, low in self._bounds if math.isinf(low)), default=0)
