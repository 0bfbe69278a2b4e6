"""Listeners that turn a solver's events into progress for the user."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from checkmate.ir import Graph
from checkmate.progress import Cancelled, Progress, Report
from checkmate.solvers.problem import Listener
from checkmate.units import format_bytes, format_overhead

_GAIN = 0.001  # of the step's cost


class Following(Listener):
    """Reports what a solve finds, and tells the solver when the user cancels."""

    def __init__(self, graph: Graph, report: Report, cancelled: Cancelled) -> None:
        self._base_cost, self._ops = graph.base_cost, graph.n
        self._report, self._cancelled = report, cancelled

    def preparing(self, sentence: str) -> None:
        self._report(Progress("prepare", message=sentence))

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        extra, again = format_overhead(cost, self._base_cost), len(steps) - self._ops
        sentence = f"best so far {extra}, {again} recomputation{'s' * (again != 1)}"
        self._report(Progress("solve", message=sentence))

    def cancelled(self) -> bool:
        return self._cancelled()


class UntilSettled(Following):
    """Ends a solve for a measured step once it has settled: when the bound proves that less than a thousandth
    of the step's cost can be gained, or when no such gain was found for ``patience_s`` seconds. A step's time
    varies by far more from run to run."""

    def __init__(self, graph: Graph, report: Report, cancelled: Cancelled, patience_s: float) -> None:
        super().__init__(graph, report, cancelled)
        self._gain, self._patience_s = _GAIN * graph.base_cost, patience_s
        self._cost, self._bound = math.inf, 0.0
        self._mark, self._marked = math.inf, math.inf  # cost and time of the last notable gain

    def preparing(self, sentence: str) -> None:
        super().preparing(sentence)
        self._marked = time.monotonic()  # patience begins after preparing

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        super().incumbent(steps, cost)
        self._cost = min(self._cost, cost)
        if cost <= self._mark - self._gain:
            self._mark, self._marked = cost, time.monotonic()

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._bound = max(self._bound, lower_bound)

    def cancelled(self) -> bool:
        if super().cancelled():
            return True
        proved = self._cost - self._bound <= self._gain
        return proved or (self._cost < math.inf and time.monotonic() - self._marked > self._patience_s)


class FollowingMemory(Following):
    """Reports what a search for the least memory finds, and tells it when the user cancels."""

    _peak, _bound = 0, 0

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        self._peak = peak_bytes
        self._report_range(f", {format_overhead(cost, self._base_cost)}")

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        self._bound = lower_bound_bytes
        self._report_range()

    def _report_range(self, cost: str = "") -> None:
        sentence = f"least so far {format_bytes(self._peak)}{cost}; none below {format_bytes(self._bound)}"
        self._report(Progress("solve", message=sentence))
