"""What a solver is given, and what it may say while it works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Problem:
    """The cheapest schedule of ``graph`` whose peak is at most ``budget_bytes`` (``fixed_bytes`` included)."""

    graph: Graph
    budget_bytes: int


@dataclass(frozen=True, eq=False)
class SolveOptions:
    """How long and how well.

    ``time_limit_s``: seconds of wall time after which the best schedule so far is returned.
    ``gap``: stop once (cost - bound) / cost is at most this. ``workers``: threads or processes at most. ``seed``: for
    everything random. ``recompute_gradients``: whether backward ops may run more than once; a claim of optimality made
    without says so. ``engine``: for solvers stated in PuLP, the program that solves them (HiGHS, PULP_CBC_CMD, GUROBI…).
    ``start``: a schedule to improve on; one that does not fit the budget is ignored. ``moves``: for solvers that count them
    (``SolverFeature.COUNTS_MOVES``), end after so many: the same answer on any machine, unless the time limit comes first.
    """

    time_limit_s: float = 60.0
    gap: float = 0.0
    workers: int = 1
    seed: int = 0
    recompute_gradients: bool = True
    engine: str = "HiGHS"
    start: Schedule | None = None
    moves: int | None = None


class Listener(Protocol):
    """What a running solver tells, from any thread; and how it learns that it should stop."""

    def preparing(self, sentence: str) -> None:
        """Hear what is done before the search can begin, again as it goes on."""

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """A better schedule within the budget was found (op indices in order; cost in the graph's unit)."""

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """No schedule within the budget costs less, under the assumptions."""

    def cancelled(self) -> bool:
        """Whether to stop now; solvers ask at least every 20 ms, or arrange to be interrupted."""


class SilentListener:
    """Hears nothing and never cancels."""

    def preparing(self, sentence: str) -> None:
        """Ignore."""

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Ignore."""

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        """Ignore."""

    def cancelled(self) -> bool:
        """Never."""
        return False


class MemoryListener(Protocol):
    """What the search for the least memory tells, from any thread; and how it learns that it should stop."""

    def preparing(self, sentence: str) -> None:
        """Hear what is done before the search can begin, again as it goes on."""

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        """A schedule within the cost with a smaller peak, or as small and cheaper (op indices; fixed bytes included)."""

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """No schedule within the cost has a smaller peak, under the assumptions."""

    def cancelled(self) -> bool:
        """Whether to stop now; asked at least every 20 ms."""


class SilentMemoryListener:
    """Hears nothing and never cancels."""

    def preparing(self, sentence: str) -> None:
        """Ignore."""

    def smaller(self, steps: Sequence[int], peak_bytes: int, cost: float) -> None:
        """Ignore."""

    def bound_bytes(self, lower_bound_bytes: int, assumptions: tuple[str, ...]) -> None:
        """Ignore."""

    def cancelled(self) -> bool:
        """Never."""
        return False


class SolverFeature(StrEnum):
    """What a solver can do; menus, tests and the live policy ask for these."""

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
    """One way to solve a problem. Stateless: options and seeds come with each call."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The best schedule it finds, or a result that says why there is none. Never a schedule over the budget."""
