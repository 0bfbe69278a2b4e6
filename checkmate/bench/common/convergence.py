"""Record how a solve converges.

Which cost is reached after how many seconds, and how the bound rises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.progress import Cancelled, never
from checkmate.solvers.listeners import SilentListener

_SAME_COST = 1e-9  # relative; the rest is float rounding


@dataclass(frozen=True, eq=False)
class TimedIncumbent:
    """Hold a schedule that a solver reported during its search.

    ``seconds``: since the start. ``cost``: in the graph's unit. ``steps``: op indices.
    """

    seconds: float
    cost: float
    steps: NDArray[np.int32]


@dataclass(frozen=True)
class Convergence:
    """Hold how costs fell and bounds rose over the seconds of a solve.

    ``costs``: (seconds, cost) with falling costs. ``bounds``: (seconds, bound) with rising bounds. Seconds
    count from the start. The last cost is the one that the solver returned.
    """

    costs: tuple[tuple[float, float], ...] = ()
    bounds: tuple[tuple[float, float], ...] = ()

    @property
    def final_cost(self) -> float | None:
        """Return the cost reached in the end; None without a schedule."""
        return self.costs[-1][1] if self.costs else None

    @property
    def seconds_to_first(self) -> float | None:
        """Return the seconds to the first schedule."""
        return self.costs[0][0] if self.costs else None

    @property
    def seconds_to_final(self) -> float | None:
        """Return the seconds to the final cost. What followed did not improve it."""
        return self.seconds_to_within(_SAME_COST)

    def seconds_to_within(self, tolerance: float) -> float | None:
        """Return the seconds until the cost was near the final one.

        Near means at most (1 + ``tolerance``) times the final cost.
        """
        if not self.costs:
            return None
        enough = self.costs[-1][1] * (1 + tolerance)
        return next(seconds for seconds, cost in self.costs if cost <= enough)

    def cost_after(self, seconds: float) -> float | None:
        """Return the best cost known at ``seconds``. None before the first schedule."""
        return next((cost for when, cost in reversed(self.costs) if when <= seconds), None)


def convergence_of(
    told: Sequence[tuple[float, float]],
    bounds: Sequence[tuple[float, float]],
    *,
    final_cost: float | None,
    seconds: float,
) -> Convergence:
    """Return the convergence of a solve from what it reported.

    ``told``: (seconds, cost). ``bounds``: (seconds, bound). The solve returned ``final_cost`` after
    ``seconds``. Costs below the returned one were not delivered and do not count. A solver that reports
    nothing on the way has reached its cost at the end.
    """
    rising: list[tuple[float, float]] = []
    for when, bound in sorted(bounds):
        if not rising or bound > rising[-1][1]:
            rising.append((when, bound))
    if final_cost is None:
        return Convergence((), tuple(rising))
    falling: list[tuple[float, float]] = []
    for when, cost in sorted(told):
        if cost >= final_cost * (1 - _SAME_COST) and (not falling or cost < falling[-1][1]):
            falling.append((when, cost))
    if not falling or falling[-1][1] > final_cost * (1 + _SAME_COST):
        falling.append((seconds, final_cost))
    return Convergence(tuple(falling), tuple(rising))


class Recorder(SilentListener):
    """Record what a solver reports and when.

    It may be called from several threads. ``clock``: rising seconds; the time of construction is second 0.
    ``told``: called with every cost.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        cancelled: Cancelled = never,
        told: Callable[[float], None] = lambda cost: None,
    ) -> None:
        self._clock, self._cancelled, self._told = clock, cancelled, told
        self._begun = clock()
        self.incumbents: list[TimedIncumbent] = []
        self.bounds: list[tuple[float, float]] = []

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self._begun

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Record a better schedule."""
        self.incumbents.append(TimedIncumbent(self.seconds, float(cost), np.array(steps, dtype=np.int32)))
        self._told(cost)

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """Record a higher bound. An infinite bound says that there is no schedule; the result tells that."""
        if np.isfinite(lower_bound):
            self.bounds.append((self.seconds, float(lower_bound)))

    def cancelled(self) -> bool:
        """Return whether the user wants to stop."""
        return self._cancelled()

    def convergence(self, *, final_cost: float | None, seconds: float) -> Convergence:
        """Return the convergence of a solve from what was recorded.

        The solve returned ``final_cost`` after ``seconds``.
        """
        told = [(incumbent.seconds, incumbent.cost) for incumbent in list(self.incumbents)]
        return convergence_of(told, list(self.bounds), final_cost=final_cost, seconds=seconds)
