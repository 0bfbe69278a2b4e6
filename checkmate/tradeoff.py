"""What is known of one graph's trade-off of memory against cost: rows for budgets, the frontier, baselines beside it."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.solvers.frontier import Frontier, FrontierPoint


@dataclass(frozen=True, eq=False)
class Row:
    """What is known for one budget. ``lower_bound``: any order of execution, infinite where no schedule exists.

    ``seconds``: of all solves for it. ``result``: what the last of them answered; None where there was none, as its
    neighbours' answers settled it, or as it was cancelled.
    """

    budget_bytes: int
    status: SolveStatus
    point: FrontierPoint | None
    lower_bound: float
    result: SolveResult | None
    seconds: float = 0.0

    @property
    def gap(self) -> float | None:
        """(cost - bound) / cost, 0 where proved optimal; None without a schedule."""
        if self.point is None:
            return None
        cost = self.point.cost
        return max(0.0, (cost - self.lower_bound) / cost) if cost > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Baseline:
    """A known strategy's schedules, by falling peak and rising cost. ``note``: why there are none, or fewer."""

    solver: str
    points: tuple[FrontierPoint, ...]
    note: str = ""


@dataclass(frozen=True, eq=False)
class TradeOff:
    """The curve: a row per budget by rising budget, the whole frontier, the baselines.

    ``cancelled``: it was stopped, and holds what had been found until then. ``time_limit_s``: for all of it.
    """

    graph: Graph
    solver: str
    plain_peak_bytes: int
    rows: tuple[Row, ...]
    baselines: tuple[Baseline, ...]
    frontier: Frontier
    time_limit_s: float
    seconds: float
    cancelled: bool
