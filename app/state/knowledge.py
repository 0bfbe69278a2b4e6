"""One set of constraints, and all that is known of the trade-off under it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.layout.folded import Folding
from app.layout.grouping import LayerSizes, layers_of
from checkmate.errors import ScheduleError
from checkmate.formats.graph import pack_graph
from checkmate.ir import CheckReport, Graph, Schedule, SolveResult, SolveStatus, StageMatrices, Timeline
from checkmate.memory.check import check
from checkmate.memory.hotspot import Uses
from checkmate.memory.recomputed import Runs
from checkmate.memory.simulate import simulate
from checkmate.solvers.constraints import Constraints, constrained, run_once, start_for_constrained
from checkmate.solvers.known_frontier import Frontier, FrontierPoint
from checkmate.units import format_bytes, parse_bytes

_PROVED = 1 - 1e-9
_ROUNDING = 1 + 1e-9  # sums of the same costs in another order differ by rounding
_NOTABLY = 0.001  # a schedule is clearly better if it costs less by this share
_TRIES = 4  # schedules of other sets adapted before the window answers; the solver process does the rest
_QUICK = 2000  # ops; adapting a longer schedule would hold up the window


@dataclass(frozen=True, eq=False)
class ConstrainedGraph:
    """A graph with constraints. ``once``: the ops that may run only once; ``locked``: by a constraint."""

    graph: Graph
    constraints: Constraints
    limited: Graph
    once: NDArray[np.bool_]
    locked: NDArray[np.bool_]

    @classmethod
    def of(cls, graph: Graph, constraints: Constraints) -> ConstrainedGraph:
        limited = constrained(graph, constraints)
        named = replace(constraints, recompute_gradients=True)
        once = ~np.asarray(limited.recomputable)
        return cls(graph, constraints, limited, once, run_once(graph, named) & graph.recomputable)


def steps_key(steps: Sequence[int] | NDArray[np.integer[Any]]) -> bytes:
    return hashlib.blake2b(np.asarray(steps, np.int64).tobytes(), digest_size=16).digest()


def is_baseline(solver: str) -> bool:
    """Whether a solver of this name is one of Chen et al.'s methods."""
    return solver.startswith("chen-")


@dataclass(frozen=True, eq=False)
class ListedSchedule:
    """One schedule of ``frontier``, with what is known of it now; its views are computed when first shown.

    It refers to the constrained graph, not to the ``WhatIf`` that lists it: without that circle, a large
    graph is freed as soon as nobody holds it.
    """

    point: FrontierPoint
    constrained: ConstrainedGraph
    frontier: Frontier

    @property
    def graph(self) -> Graph:
        return self.constrained.graph

    @cached_property
    def schedule(self) -> Schedule:
        return Schedule.of(self.graph, self.point.schedule.steps)

    @cached_property
    def key(self) -> bytes:
        return steps_key(self.schedule.steps)

    @property
    def cost(self) -> float:
        return self.point.cost

    @property
    def peak_bytes(self) -> int:
        """The predicted peak; it includes the fixed bytes."""
        return self.point.peak_bytes

    @property
    def budget_bytes(self) -> int:
        return self.point.budget_bytes

    @property
    def solver(self) -> str:
        return self.point.solver

    @property
    def seconds(self) -> float:
        return self.point.seconds

    @property
    def lower_bound(self) -> float:
        """The proved bound on the cost within this memory and these constraints."""
        return min(self.frontier.bound(self.peak_bytes), self.cost)

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no schedule within this memory and these constraints costs less."""
        return self.lower_bound >= self.cost * _PROVED

    @property
    def gap(self) -> float:
        """How far the cost may be from the least possible, as a fraction."""
        return 1 - self.lower_bound / self.cost if self.cost > 0 else 0.0

    @property
    def overhead(self) -> float:
        """The cost beyond that of computing everything once, as a fraction of that."""
        extra = self.cost / self.graph.base_cost - 1 if self.graph.base_cost > 0 else 0.0
        return extra if abs(extra) > _ROUNDING - 1 else 0.0  # else a sum in another order is -0.0 %

    @cached_property
    def recomputed_ops(self) -> frozenset[int]:
        counts = np.bincount(self.schedule.steps, minlength=self.graph.n)
        return frozenset(np.flatnonzero(counts > 1).tolist())

    @cached_property
    def timeline(self) -> Timeline:
        return simulate(self.graph, self.schedule)

    @cached_property
    def matrices(self) -> StageMatrices:
        return self.schedule.matrices(self.graph)

    @cached_property
    def runs(self) -> Runs:
        return Runs.of(self.graph, self.schedule, self.timeline)

    @cached_property
    def uses(self) -> Uses:
        return Uses.of(self.graph, self.schedule)

    @property
    def prepared(self) -> bool:
        return {"timeline", "matrices"} <= vars(self).keys()

    def prepare(self) -> None:
        _ = self.timeline, self.matrices

    def result(self) -> SolveResult:
        return SolveResult(
            status=SolveStatus.OPTIMAL if self.optimal else SolveStatus.FEASIBLE,
            solver=self.solver,
            budget_bytes=self.budget_bytes,
            base_cost=self.graph.base_cost,
            schedule=self.schedule,
            cost=self.cost,
            peak_bytes=self.peak_bytes,
            lower_bound=self.lower_bound,
            solve_seconds=self.seconds,
            assumptions=self.constrained.constraints.assumptions,
        )


class WhatIf:
    """What is known of a graph under constraints. ``baselines``: schedules of published methods, even if not
    on the frontier. ``missed``: schedule key → the budget in bytes that its measured peak exceeded in an
    export."""

    def __init__(self, graph: Graph, constraints: Constraints) -> None:
        self.constrained = ConstrainedGraph.of(graph, constraints)
        self.graph, self.constraints, self.limited = graph, constraints, self.constrained.limited
        self.frontier = Frontier(self.limited)
        self.needed_bytes = 0  # a bound on every peak, from the solver
        self.baselines: list[ListedSchedule] = []
        self.missed: dict[bytes, int] = {}
        self._points: tuple[FrontierPoint, ...] = ()
        self._known: list[ListedSchedule] = []
        plain = self.frontier.add(np.arange(graph.n).tolist(), solver="keep everything")
        assert plain is not None, "the given order is a schedule"
        self.plain = ListedSchedule(plain, self.constrained, self.frontier)

    @cached_property
    def graph_body(self) -> bytes:
        return pack_graph(self.graph)

    @cached_property
    def folding(self) -> Folding:
        return Folding(self.graph)

    @cached_property
    def layers(self) -> tuple[LayerSizes, ...]:
        return layers_of(self.graph)

    @property
    def known(self) -> list[ListedSchedule]:
        points = self.frontier.points
        if points != self._points:
            old = {found.point: found for found in (self.plain, *self._known)}
            self._known = [
                old.get(point) or ListedSchedule(point, self.constrained, self.frontier) for point in points
            ]
            self._points = points
        return self._known

    @property
    def least_possible(self) -> int:
        return max(self.needed_bytes, self.frontier.infeasible_below + 1)

    def least_within(self, max_overhead: float) -> ListedSchedule | None:
        cap = self.cost_cap(max_overhead)
        return next((found for found in self.known if found.cost < cap), None)

    def least_bound(self, max_overhead: float) -> int:
        """The proved bound in bytes: no schedule needs less at that cost."""
        cap = self.cost_cap(max_overhead)
        dearer = [budget for budget, bound in self.frontier.bounds if bound >= cap]
        return max(self.least_possible, max(dearer, default=-1) + 1)

    def cost_cap(self, max_overhead: float) -> float:
        """Return the largest cost within ``max_overhead``, with room for rounding."""
        return (
            self.graph.base_cost * (1 + max_overhead) * _ROUNDING if math.isfinite(max_overhead) else math.inf
        )

    def insert(
        self,
        steps: Sequence[int],
        *,
        budget_bytes: int | None,
        solver: str,
        seconds: float,
        report: CheckReport | None = None,
    ) -> bool | None:
        """Check and add a schedule (``report``: if checked); whether it is new, None if it does not hold."""
        try:
            point = self.frontier.add(
                steps, solver=solver, budget_bytes=budget_bytes, seconds=seconds, report=report
            )
        except ScheduleError:
            return None
        return point is not None

    def listed(
        self,
        steps: Sequence[int],
        *,
        budget_bytes: int,
        solver: str,
        seconds: float,
        report: CheckReport | None = None,
    ) -> ListedSchedule | None:
        """Check a schedule, and list it, be it on the frontier or not; None if it does not hold."""
        key = steps_key(steps)
        known = next((one for one in (*self.known, *self.baselines, self.plain) if one.key == key), None)
        if known is not None:
            return known
        report = report or check(self.limited, list(steps))
        if report.violations or report.peak_bytes > budget_bytes:
            return None
        schedule = Schedule.of(self.graph, list(steps))
        point = FrontierPoint(schedule, report.peak_bytes, report.cost, budget_bytes, solver, seconds)
        return ListedSchedule(point, self.constrained, self.frontier)

    def add_baseline(self, found: ListedSchedule) -> bool:
        same = (found.solver, found.peak_bytes, found.cost)
        new = all((one.solver, one.peak_bytes, one.cost) != same for one in self.baselines)
        if new:
            self.baselines.append(found)
        return new

    def as_listed(self, budget_bytes: int) -> int:
        """Return the smallest known peak that the list shows with the same text as this budget.

        Listed peaks are rounded, so a user who types one may mean a schedule that needs slightly more. The
        budget itself is returned if it is no rounded figure, or if a schedule with this text fits it.
        """
        words = format_bytes(budget_bytes)
        if parse_bytes(words) != budget_bytes:
            return budget_bytes
        alike = [found.peak_bytes for found in self.known if format_bytes(found.peak_bytes) == words]
        return max(budget_bytes, min(alike, default=0))

    def best_for(self, budget_bytes: int) -> ListedSchedule | None:
        fitting = [found for found in self.known if found.peak_bytes <= budget_bytes]
        return fitting[-1] if fitting else None

    @property
    def offered(self) -> list[ListedSchedule]:
        return [found for found in self.known if found.key not in self.missed]

    def best_to_show(self, budget_bytes: int) -> ListedSchedule | None:
        """Return ``best_for`` the budget; but if an export measured that over it, the next best that fits."""
        fitting = [found for found in self.known if found.peak_bytes <= budget_bytes]
        kept = (found for found in reversed(fitting) if budget_bytes > self.missed.get(found.key, -1))
        return next(kept, None) or self.best_for(budget_bytes)

    def better_than(self, shown: ListedSchedule, budget_bytes: int) -> ListedSchedule | None:
        """Return a known schedule that fits the budget and is clearly better, or None."""
        best = self.best_to_show(budget_bytes)
        if best is None or shown.peak_bytes > budget_bytes:
            return None
        cheaper = self.is_cheaper_known(shown, budget_bytes)
        smaller = best.cost <= shown.cost and best.peak_bytes < shown.peak_bytes * (1 - _NOTABLY)
        return best if cheaper or smaller else None

    def is_cheaper_known(self, shown: ListedSchedule, budget_bytes: int) -> bool:
        best = self.best_to_show(budget_bytes)
        return best is not None and best.cost < shown.cost * (1 - _NOTABLY)

    def known_cost(self, budget_bytes: int) -> tuple[float | None, float]:
        """Return the least known cost within a budget, and the bound on it.

        The bound is 0 where it says no more than that every op runs once, unless that proves the cost
        optimal.
        """
        best, low = self.best_for(budget_bytes), self.frontier.bound(budget_bytes)
        cost, trivial = None if best is None else best.cost, self.graph.base_cost * _ROUNDING
        told = low > trivial or (cost is not None and cost <= trivial)
        return cost, low if told and math.isfinite(low) else 0.0

    def learn(self, other: WhatIf, budget_bytes: int) -> None:
        """Take over what is valid here, too; adapt one of ``other``'s schedules if none fits the budget."""
        if np.array_equal(self.constrained.once, other.constrained.once):
            self._join(other)
            return
        if not (
            other.constrained.once & ~self.constrained.once
        ).any():  # its constraints hold here too, and so do its bounds
            for budget, bound in other.frontier.bounds:
                self.frontier.add_bound(budget, bound)
        tries = _TRIES if self.graph.n <= _QUICK else 0
        near = [found for found in other.known if found.peak_bytes <= budget_bytes][-tries:] if tries else []
        for found in reversed(near):
            if self.frontier.best(budget_bytes) is not None:
                return
            start = start_for_constrained(self.graph, self.limited, found.schedule)
            if start is not None:
                self.insert(
                    start.steps.tolist(), budget_bytes=None, solver=found.solver, seconds=found.seconds
                )

    def _join(self, other: WhatIf) -> None:
        if self.frontier is not other.frontier:
            self.frontier, self.baselines = other.frontier, other.baselines
            self.needed_bytes = other.needed_bytes
            self.plain = ListedSchedule(other.plain.point, self.constrained, self.frontier)
