"""Report how far a run of trials is."""

from __future__ import annotations

import time

from checkmate.progress import Cancelled, Progress, Report
from checkmate.units import format_overhead

_REDRAW_S = 0.1


class TrialProgress:
    """Turn a run of trials into progress.

    Progress is the seconds done, out of the most seconds that the time limits allow.
    """

    def __init__(self, trials: int, limit_s: float, report: Report, cancelled: Cancelled) -> None:
        self._total, self._limit = trials * limit_s, limit_s
        self._report, self._cancelled = report, cancelled
        self._done = -limit_s
        self._began = self._drawn = 0.0
        self._base_cost = 0.0
        self._what = self._best = ""

    def begin(self, what: str, base_cost: float) -> None:
        """Start the next trial."""
        self._done += self._limit
        self._began = time.monotonic()
        self._base_cost = base_cost
        self._what, self._best = what, ""
        self._draw()

    def told(self, cost: float) -> None:
        """Note that a better schedule is known."""
        self._best = f": {format_overhead(cost, self._base_cost)}"
        self._draw_now_and_then()

    def cancelled(self) -> bool:
        """Return whether the user wants to stop. Solvers ask often, so this also moves the bar."""
        self._draw_now_and_then()
        return self._cancelled()

    def _draw_now_and_then(self) -> None:
        if time.monotonic() - self._drawn > _REDRAW_S:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        done = self._done + min(self._limit, self._drawn - self._began)
        self._report(Progress("bench", done, self._total, self._what + self._best))
