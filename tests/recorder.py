"""What a solve reports, kept and checked."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

import pytest

from checkmate.ir import Graph
from checkmate.memory.check import check
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.problem import Listener


class Recorder(Listener):
    """Every schedule is checked if there is a ``graph``. ``stop`` cancels, and so do ``after_s`` seconds."""

    def __init__(self, graph: Graph | None = None, budget: int = 0, *, after_s: float = math.inf) -> None:
        self.graph, self.budget = graph, budget
        self.until = time.perf_counter() + after_s
        self.stop = threading.Event()
        self.plans: list[list[int]] = []
        self.costs: list[float] = []
        self.peaks: list[tuple[int, float]] = []
        self.bounds: list[float] = []
        self.assumptions: set[tuple[str, ...]] = set()

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        if self.graph is not None:
            report = check(self.graph, steps, budget_bytes=self.budget)
            assert report.ok and report.cost == pytest.approx(cost)
        self.plans.append(list(steps))
        self.costs.append(cost)

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self.bounds.append(lower_bound)
        self.assumptions.add(assumptions)

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        self.peaks.append((peak_bytes, cost))

    bound_bytes = bound

    def cancelled(self) -> bool:
        return self.stop.is_set() or time.perf_counter() > self.until


def cancelled_recorder() -> Recorder:
    """Return one that cancels at once."""
    return Recorder(after_s=-1.0)


def require_checked(graph: Graph, point: FrontierPoint, budget: int | None = None) -> None:
    """Check a point's schedule, within ``budget`` or what it was made for, and its peak and cost."""
    limit = point.budget_bytes if budget is None else budget
    report = check(graph, point.schedule.steps.tolist(), budget_bytes=limit)
    assert report.ok and (report.peak_bytes, report.cost) == (point.peak_bytes, point.cost)
