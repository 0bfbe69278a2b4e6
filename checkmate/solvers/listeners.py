"""Listeners that several packages use: silent, forwarding, cost-capped."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from checkmate.progress import Cancelled
from checkmate.solvers.problem import Listener, MemoryListener


class SilentListener:
    """A listener that ignores everything and never cancels."""

    def preparing(self, sentence: str) -> None:
        """Ignore."""

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Ignore."""

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """Ignore."""

    def cancelled(self) -> bool:
        return False


class CancelListener(SilentListener):
    """A listener that ignores everything and cancels when a function says so."""

    def __init__(self, cancelled: Cancelled) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        return self._cancelled()


class ForwardingListener:
    """A listener that passes everything on; subclasses change a part."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def preparing(self, sentence: str) -> None:
        self._listener.preparing(sentence)

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._listener.incumbent(steps, cost)

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._listener.bound(lower_bound, assumptions)

    def cancelled(self) -> bool:
        return self._listener.cancelled()


class CostCapListener(SilentListener):
    """Stop a solve once it is known whether its cost can be at most ``cap``.

    Without ``cap`` it is never stopped. ``lower_bound``: what was proved about the cost. ``settled``: the
    question has its answer. ``take`` receives every schedule.
    """

    def __init__(
        self,
        cap: float | None,
        cancelled: Cancelled,
        take: Callable[[Sequence[int]], object] = lambda steps: None,
    ) -> None:
        self._cap, self._cancelled, self._take = cap, cancelled, take
        self.lower_bound = 0.0
        self.settled = False

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Take a schedule within the solve's budget."""
        self._take(steps)
        self.settled |= self._cap is not None and cost <= self._cap

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """Take a bound on the cost within the solve's budget.

        A bound under assumptions proves nothing here.
        """
        if not assumptions:
            self.lower_bound = max(self.lower_bound, lower_bound)
            self.settled |= self._cap is not None and lower_bound > self._cap

    def cancelled(self) -> bool:
        return self.settled or self._cancelled()


class SilentMemoryListener:
    """A memory listener that ignores everything and never cancels."""

    def preparing(self, sentence: str) -> None:
        """Ignore."""

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        """Ignore."""

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """Ignore."""

    def cancelled(self) -> bool:
        return False


class ForwardingMemoryListener:
    """A memory listener that passes everything on to another."""

    def __init__(self, listener: MemoryListener) -> None:
        self._listener = listener

    def preparing(self, sentence: str) -> None:
        self._listener.preparing(sentence)

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        self._listener.smaller(steps, peak_bytes, cost)

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        self._listener.bound_bytes(lower_bound_bytes, assumptions)

    def cancelled(self) -> bool:
        return self._listener.cancelled()
