"""Listen to the solves of a trade-off curve.

The listeners stop a solve on request and pass on what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from checkmate.progress import Cancelled
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.listeners import CancelListener, SilentMemoryListener


class CostListener(CancelListener):
    """Pass the costs of better schedules to ``found``."""

    def __init__(self, cancelled: Cancelled, found: Callable[[float], None]) -> None:
        super().__init__(cancelled)
        self._found = found

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Pass on a better schedule's cost."""
        self._found(cost)


class CancelMemoryListener(SilentMemoryListener):
    """Let the user cancel a search for the least memory."""

    def __init__(self, cancelled: Cancelled) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        """Return whether the user wants to stop."""
        return self._cancelled()


class NullFrontierListener:
    """Ignore a live frontier's news."""

    def point(self, point: FrontierPoint) -> None:
        """Ignore."""

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        """Ignore."""

    def baseline(self, point: FrontierPoint) -> None:
        """Ignore."""
