"""Listeners that turn a solver's events into progress for the user."""

from __future__ import annotations

from collections.abc import Sequence

from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled, Progress, Report
from checkmate.solvers.listeners import SilentListener, SilentMemoryListener
from checkmate.units import format_bytes, format_overhead


class Following(SilentListener):
    """Reports what a solve finds, and tells the solver when the user cancels."""

    def __init__(self, graph: Graph, report: Report, cancelled: Cancelled) -> None:
        self._base_cost, self._ops = graph.base_cost, graph.n
        self._report, self._cancelled = report, cancelled

    def preparing(self, sentence: str) -> None:
        """Report what is done before the search begins."""
        self._report(Progress("prepare", message=sentence))

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Report a better schedule."""
        extra, again = format_overhead(cost, self._base_cost), len(steps) - self._ops
        sentence = f"best so far {extra}, {again} recomputation{'s' * (again != 1)}"
        self._report(Progress("solve", message=sentence))

    def cancelled(self) -> bool:
        """Return whether the user wants to stop."""
        return self._cancelled()


class FollowingMemory(SilentMemoryListener):
    """Reports what a search for the least memory finds.

    It tells the search when the user cancels.
    """

    def __init__(self, graph: Graph, report: Report, cancelled: Cancelled) -> None:
        self._base_cost, self._report, self._cancelled = graph.base_cost, report, cancelled
        self._peak, self._bound = 0, 0

    def preparing(self, sentence: str) -> None:
        """Report what is done before the search begins."""
        self._report(Progress("prepare", message=sentence))

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        """Report a schedule with a smaller peak."""
        self._peak = peak_bytes
        self._tell(f", {format_overhead(cost, self._base_cost)}")

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """Report a larger lower bound."""
        self._bound = lower_bound_bytes
        self._tell()

    def cancelled(self) -> bool:
        """Return whether the user wants to stop."""
        return self._cancelled()

    def _tell(self, cost: str = "") -> None:
        sentence = f"least so far {format_bytes(self._peak)}{cost}; none below {format_bytes(self._bound)}"
        self._report(Progress("solve", message=sentence))
