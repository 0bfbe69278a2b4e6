"""A solver's input, and what it reports while it works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from checkmate.ir import Graph, Schedule, SolveResult


@dataclass(frozen=True, eq=False)
class Problem:
    """A search for the cheapest schedule of ``graph`` within a budget.

    Its peak may be at most ``budget_bytes``, which includes ``fixed_bytes``.
    """

    graph: Graph
    budget_bytes: int


@dataclass(frozen=True, eq=False)
class SolveOptions:
    """How long to search, and how well.

    ``time_limit_s``: seconds of wall time after which the best schedule so far is returned.
    ``gap``: stop once (cost - bound) / cost is at most this.
    ``workers``: the most threads or processes to use.
    ``seed``: for everything random.
    ``recompute_gradients``: whether backward ops may run more than once. If not, a claim of optimality says
    so.
    ``engine``: the program behind a solver that is written in PuLP (HiGHS, PULP_CBC_CMD, GUROBI…).
    ``start``: a schedule to improve on; one that does not fit the budget is ignored.
    ``moves``: for solvers that count moves (``SolverFeature.COUNTS_MOVES``), end after this many. The answer
    is then the same on every machine, unless the time limit comes first.
    """

    time_limit_s: float = 60.0
    gap: float = 0.0
    workers: int = 1
    seed: int = 0
    recompute_gradients: bool = True
    engine: str = "HiGHS"
    start: Schedule | None = None
    moves: int | None = None


class Listener:
    """Receives what a running solver reports, from any thread, and tells it to stop.

    The methods here ignore everything and never cancel. Steps are op indices in order, costs are in the
    graph's unit, and peaks and bounds in bytes include the fixed bytes.
    """

    def preparing(self, sentence: str) -> None:
        """Take a sentence on what is done before the search can begin; it is called again as that goes on."""

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Take a better schedule within the budget."""

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """Take a better bound: under the assumptions no schedule within the budget costs less."""

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        """Take, from a search for the least memory, a schedule within the cost with a smaller peak.

        One with the same peak and a lower cost is reported too.
        """

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """Take a better bound from such a search: no schedule within the cost has a smaller peak."""

    def cancelled(self) -> bool:
        """Whether to stop now. Solvers ask at least every 20 ms, or arrange to be interrupted."""
        return False


class SolverFeature(StrEnum):
    """What a solver can do; menus, tests and the live solve ask for these."""

    PROVES_OPTIMALITY = "proves_optimality"
    PROVES_INFEASIBILITY = "proves_infeasibility"
    ORDER_FREE = "order_free"
    LOWER_BOUND = "lower_bound"
    STREAMS = "streams"
    ANYTIME = "anytime"
    IGNORES_BUDGET = "ignores_budget"
    CHAIN_ONLY = "chain_only"
    COUNTS_MOVES = "counts_moves"


class Solver(Protocol):
    """One way to solve a problem. A solver has no state: options and seeds come with each call."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return the best schedule found, or a result that says why there is none.

        A schedule over the budget is never returned.
        """
