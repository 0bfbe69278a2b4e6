"""What one window explores: a graph, every schedule and bound known for it, and the schedule that is shown."""

from __future__ import annotations

import bisect
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, Signal

from checkmate.check import check
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule, StageMatrices
from checkmate.ir.timeline import Timeline
from checkmate.simulate import simulate


@dataclass(frozen=True, eq=False)
class Found:
    """One schedule with its own figures; ``lower_bound`` holds for ``budget_bytes``. Views are computed when first shown."""

    graph: Graph
    schedule: Schedule
    cost: float
    peak_bytes: int
    budget_bytes: int
    solver: str
    status: str
    lower_bound: float | None = None
    seconds: float = 0.0

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
    """The window's memory. The frontier only ever improves; a schedule for less memory answers any larger budget.

    Signals: ``graph_changed``; ``known_changed`` (a point was added, or the ends of the range are known); ``shown_changed``
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
        self.known: list[Found] = []  # the frontier: rising peaks, falling costs
        self.plain: Found | None = None
        self.shown: Found | None = None
        self.solve: Solve | None = None
        self.budget_bytes = 0
        self.range: dict[str, Any] = {}

    def set_graph(self, graph: Graph) -> None:
        """Start over with ``graph``; the plain step is its first known schedule."""
        self.graph = graph
        schedule = Schedule.of(graph, np.arange(graph.n))
        timeline = simulate(graph, schedule)
        peak = timeline.peak_bytes
        self.plain = Found(graph, schedule, graph.base_cost, peak, peak, "keep everything", "optimal", graph.base_cost)
        self.known = [self.plain]
        self.shown = self.plain
        self.solve = None
        self.range = {"keep_everything_bytes": peak}
        self.budget_bytes = peak
        self.graph_changed.emit()
        self.known_changed.emit()
        self.shown_changed.emit()

    def set_range(self, facts: dict[str, Any]) -> None:
        """The ends of the budget range, from the solver process."""
        self.range = facts
        self.known_changed.emit()

    @property
    def least_bytes(self) -> int:
        """The smallest peak known to be reachable."""
        return min((found.peak_bytes for found in self.known), default=0)

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

    def add(
        self,
        steps: np.ndarray,
        *,
        budget_bytes: int,
        solver: str,
        status: str,
        lower_bound: float | None,
        seconds: float,
    ) -> Found | None:
        """Take a schedule in, after the independent check; None where it does not hold."""
        assert self.graph is not None
        report = check(self.graph, steps.tolist(), budget_bytes=budget_bytes)
        if not report.ok:
            return None
        schedule = Schedule.of(self.graph, steps)
        found = Found(
            self.graph, schedule, report.cost, report.peak_bytes, budget_bytes, solver, status, lower_bound, seconds
        )
        self._insert(found)
        self.known_changed.emit()
        self.show_best()
        return found

    def _insert(self, found: Found) -> None:
        """Keep what no other known schedule beats in both peak and cost; of equals, the one with more known about it."""
        beaten = [f for f in self.known if f.peak_bytes <= found.peak_bytes and f.cost <= found.cost * (1 - 1e-12)]
        if beaten:
            return
        self.known = [f for f in self.known if f.peak_bytes < found.peak_bytes or f.cost < found.cost * (1 - 1e-12)]
        peaks = [f.peak_bytes for f in self.known]
        self.known.insert(bisect.bisect_left(peaks, found.peak_bytes), found)

    def begin_solve(self, job: int) -> None:
        """A solve for the current budget has been asked for."""
        self.solve = Solve(job, self.budget_bytes, time.monotonic())
        self.solve_changed.emit()
