"""What one window explores: a graph, every schedule and bound known for it, and the schedule that is shown."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, Signal

from checkmate.errors import ScheduleError
from checkmate.formats.exploration import SavedExploration
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule, StageMatrices
from checkmate.ir.timeline import Timeline
from checkmate.simulate import simulate
from checkmate.solvers.frontier import Frontier, FrontierPoint

_PROVED = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class Found:
    """One schedule of a frontier, with what is known of it now. Views are computed when first shown."""

    point: FrontierPoint
    frontier: Frontier

    @property
    def graph(self) -> Graph:
        """The graph it schedules."""
        return self.frontier.graph

    @property
    def schedule(self) -> Schedule:
        """The steps."""
        return self.point.schedule

    @property
    def cost(self) -> float:
        """In the graph's unit."""
        return self.point.cost

    @property
    def peak_bytes(self) -> int:
        """Fixed bytes included."""
        return self.point.peak_bytes

    @property
    def budget_bytes(self) -> int:
        """What it was made for."""
        return self.point.budget_bytes

    @property
    def solver(self) -> str:
        """Who made it."""
        return self.point.solver

    @property
    def seconds(self) -> float:
        """How long that took."""
        return self.point.seconds

    @property
    def lower_bound(self) -> float:
        """No schedule that needs as little memory costs less, in any order of execution."""
        return min(self.frontier.bound(self.peak_bytes), self.cost)

    @property
    def optimal(self) -> bool:
        """Proved: nothing that needs as little memory costs less."""
        return self.lower_bound >= self.cost * _PROVED

    @property
    def overhead(self) -> float:
        """Extra cost over computing everything once, as a fraction."""
        return self.cost / self.graph.base_cost - 1 if self.graph.base_cost > 0 else 0.0

    @cached_property
    def timeline(self) -> Timeline:
        """Live bytes per step."""
        return simulate(self.graph, self.schedule)

    @cached_property
    def matrices(self) -> StageMatrices:
        """R and S."""
        return self.schedule.matrices(self.graph)

    def result(self) -> SolveResult:
        """The same as a solver's result, for files and export."""
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
        )


@dataclass
class Solve:
    """A running or ended solve, as the solving panel shows it."""

    job: int
    budget_bytes: int
    started: float
    status: str = "solving"
    message: str = ""
    lower_bound: float | None = None
    seconds: float | None = None
    costs: list[tuple[float, float]] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


class Exploration(QObject):
    """The window's memory: one frontier, which only ever improves, and what is shown of it.

    Signals: ``graph_changed``; ``known_changed`` (a point or bound was added, or the range is known); ``shown_changed``
    (another schedule is on screen); ``solve_changed``; ``budget_changed``.
    """

    graph_changed = Signal()
    known_changed = Signal()
    shown_changed = Signal()
    solve_changed = Signal()
    budget_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.graph: Graph | None = None
        self.frontier: Frontier | None = None
        self.known: list[Found] = []  # the frontier's points: rising peaks, falling costs
        self.plain: Found | None = None
        self.shown: Found | None = None
        self.solve: Solve | None = None
        self.budget_bytes = 0
        self.range: dict[str, Any] = {}

    def set_graph(self, graph: Graph) -> None:
        """Start over with ``graph``; the plain step is its first known schedule."""
        self.graph = graph
        self.frontier = Frontier(graph)
        point = self.frontier.add(np.arange(graph.n).tolist(), solver="keep everything")
        assert point is not None, "the given order is a schedule"
        self.plain = Found(point, self.frontier)
        self.known = [self.plain]
        self.shown = self.plain
        self.solve = None
        self.range = {}
        self.budget_bytes = point.peak_bytes
        self.graph_changed.emit()
        self.known_changed.emit()
        self.shown_changed.emit()

    def restore(self, saved: SavedExploration) -> None:
        """Start over with what a file holds; schedules that do not hold are left out."""
        self.set_graph(saved.graph)
        assert self.frontier is not None
        for result in saved.schedules:
            if result.schedule is not None:
                self._insert(result.schedule.steps, result.budget_bytes, result.solver, result.solve_seconds)
        for budget, bound in saved.bounds:
            self.frontier.add_bound(budget, bound)
        self.known_changed.emit()
        if saved.budget_bytes:
            self.set_budget(saved.budget_bytes)

    def saved(self) -> SavedExploration:
        """All of it, for a file."""
        assert self.graph is not None and self.frontier is not None
        results = tuple(found.result() for found in self.known)
        return SavedExploration(self.graph, self.budget_bytes, results, self.frontier.bounds)

    def set_range(self, facts: dict[str, Any]) -> None:
        """What every schedule needs at least, from the solver process."""
        self.range = facts
        self.known_changed.emit()

    @property
    def least_bytes(self) -> int:
        """The smallest peak known to be reachable."""
        return self.known[0].peak_bytes if self.known else 0

    @property
    def least_possible(self) -> int:
        """Proved: no schedule has a smaller peak."""
        proved = 0 if self.frontier is None else self.frontier.infeasible_below + 1
        return max(int(self.range.get("bound_bytes", 0)), proved)

    def set_budget(self, budget_bytes: int) -> None:
        """Move the slider: the best known schedule that fits is shown at once."""
        if self.graph is None or budget_bytes == self.budget_bytes:
            return
        self.budget_bytes = budget_bytes
        self.budget_changed.emit()
        self.show_best()

    def best_for(self, budget_bytes: int) -> Found | None:
        """The cheapest known schedule whose peak fits."""
        fitting = [found for found in self.known if found.peak_bytes <= budget_bytes]
        return fitting[-1] if fitting else None

    def show_best(self) -> None:
        """Put the best schedule for the budget on screen; the last good one stays where none fits."""
        best = self.best_for(self.budget_bytes)
        if best is not None and best is not self.shown:
            self.shown = best
            self.shown_changed.emit()

    def show(self, found: Found) -> None:
        """Put ``found`` on screen."""
        self.shown = found
        self.shown_changed.emit()

    def add(self, steps: np.ndarray, *, budget_bytes: int, solver: str, seconds: float) -> bool:
        """Take a schedule in, after the independent check; False where it does not hold."""
        before = self.known
        if not self._insert(steps, budget_bytes, solver, seconds):
            return False
        if self.known is not before:
            self.known_changed.emit()
            self.show_best()
        return True

    def add_bound(self, budget_bytes: int, lower_bound: float | None) -> None:
        """Take a bound in; None: it is proved that no schedule fits."""
        assert self.frontier is not None
        if self.frontier.add_bound(budget_bytes, math.inf if lower_bound is None else lower_bound):
            self.known_changed.emit()

    def _insert(self, steps: np.ndarray, budget_bytes: int, solver: str, seconds: float) -> bool:
        assert self.frontier is not None
        try:
            point = self.frontier.add(steps.tolist(), solver=solver, budget_bytes=budget_bytes, seconds=seconds)
        except ScheduleError:
            return False
        if point is not None:
            old = {found.point: found for found in self.known}
            self.known = [old.get(p) or Found(p, self.frontier) for p in self.frontier]
        return True

    def begin_solve(self, job: int) -> None:
        """A solve for the current budget has been asked for."""
        assert self.frontier is not None
        self.solve = Solve(job, self.budget_bytes, time.monotonic())
        self.solve_changed.emit()
