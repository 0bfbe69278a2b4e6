"""How the solves of a trade-off curve learn that they should stop, and tell what they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from checkmate.progress import Cancelled
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.listeners import SilentListener, SilentMemoryListener


class Asking(SilentListener):
    """Of a solve that nobody watches, but may cancel."""

    def __init__(self, cancelled: Cancelled) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        """Whether the user wants to stop."""
        return self._cancelled()


class Following(Asking):
    """Of one whose better schedules' costs are told to ``found``."""

    def __init__(self, cancelled: Cancelled, found: Callable[[float], None]) -> None:
        super().__init__(cancelled)
        self._found = found

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """A better schedule was found."""
        self._found(cost)


class AskingMemory(SilentMemoryListener):
    """Of a search for the least memory that may be cancelled."""

    def __init__(self, cancelled: Cancelled) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        """Whether the user wants to stop."""
        return self._cancelled()


class Deaf:
    """Hears a live frontier grow, and waits for its end."""

    def point(self, point: FrontierPoint) -> None:
        """Ignore."""

    def bound(self, budget_bytes: int, lower_bound: float) -> None:
        """Ignore."""
