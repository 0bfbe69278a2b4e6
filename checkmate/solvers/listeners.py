from __future__ import annotations

from collections.abc import Sequence

from checkmate.progress import Cancelled
from checkmate.solvers.problem import Listener


class CancelListener(Listener):
    def __init__(self, cancelled: Cancelled) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        return self._cancelled()


class ForwardingListener(Listener):
    """Passes everything on; subclasses change a part."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def preparing(self, sentence: str) -> None:
        self._listener.preparing(sentence)

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._listener.incumbent(steps, cost)

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._listener.bound(lower_bound, assumptions)

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        self._listener.smaller(steps, peak_bytes, cost)

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        self._listener.bound_bytes(lower_bound_bytes, assumptions)

    def cancelled(self) -> bool:
        return self._listener.cancelled()


class CostCapListener(CancelListener):
    """Stops a solve once it is known whether its cost can be at most ``cap``, if there is one."""

    def __init__(self, cap: float | None, cancelled: Cancelled) -> None:
        super().__init__(cancelled)
        self._cap = cap
        self.lower_bound = 0.0
        self.settled = False

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self.settled |= self._cap is not None and cost <= self._cap

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        if not assumptions:  # a bound under assumptions proves nothing here
            self.lower_bound = max(self.lower_bound, lower_bound)
            self.settled |= self._cap is not None and lower_bound > self._cap

    def cancelled(self) -> bool:
        return self.settled or super().cancelled()
