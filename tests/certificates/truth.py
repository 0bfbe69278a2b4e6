"""What is true of a graph, apart from the checker.

A claim is false where a replayed schedule within its budget costs less, in exact sums. It is true where it
claims no more than was proved, of a budget that is no smaller, by a search that shares no code with the
checker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from checkmate import planning
from checkmate.ir import Graph, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.problem import SolveOptions
from tests.oracles import optimum

QUICKLY, LONG = 1.5, 20.0  # seconds of a search: at first, and where that decided too little
_EXACT_OPS = 6
_ROUNDING = 1e-9  # of a solver's bound; a claim closer to the least cost than this is decided by exact sums


@dataclass
class Truth:
    """``schedules``: peak and exact cost of each; ``bounds``: by budget, infinite where none fits."""

    graph: Graph
    schedules: list[tuple[int, Fraction]] = field(default_factory=list)
    bounds: dict[int, float] = field(default_factory=dict)

    def least(self, budget: float) -> Fraction | None:
        return min((cost for peak, cost in self.schedules if peak <= budget), default=None)

    def learn(self, budget: int, seconds: float = QUICKLY) -> None:
        if self.graph.n <= _EXACT_OPS:
            best = optimum(self.graph, budget)
            self.bounds[budget] = math.inf if best is None else best.cost
            self._keep([] if best is None else best.steps)
            return
        found = planning.solve(self.graph, budget, options=SolveOptions(time_limit_s=seconds))
        self._keep([] if found.schedule is None else found.schedule.steps.tolist())
        if not found.assumptions and found.status is SolveStatus.INFEASIBLE:
            self.bounds[budget] = math.inf
        elif not found.assumptions and found.lower_bound is not None:
            self.bounds[budget] = found.lower_bound

    def _keep(self, steps: list[int]) -> None:
        if steps:
            found = check(self.graph, steps)
            assert found.ok
            cost = sum((Fraction(self.graph.ops[op].cost) for op in steps), Fraction(0))
            self.schedules.append((found.peak_bytes, cost))

    def is_false(self, certificate: dict[str, Any]) -> bool:
        """Whether a schedule contradicts the claim, or the graph its digest."""
        if certificate.get("graph_fingerprint") != self.graph.fingerprint:
            return True
        budget, claimed = number(certificate.get("budget_bytes")), claim_of(certificate)
        least = None if budget is None else self.least(math.inf if budget == math.inf else budget)
        return least is not None and claimed is not None and claimed > least

    def is_true(self, certificate: dict[str, Any]) -> bool:
        """Whether what it claims was proved apart from it."""
        budget, claimed = number(certificate.get("budget_bytes")), claim_of(certificate)
        if budget is None or claimed is None:
            return False
        if claimed <= 0:
            return True
        if not math.isfinite(budget):
            return budget < 0
        known = [bound for size, bound in self.bounds.items() if size >= int(budget)]
        return any(claimed <= bound * (1 + _ROUNDING) for bound in known)

    def decide(self, certificate: dict[str, Any]) -> None:
        """Search for longer where a claim is known as neither true nor false."""
        budget = number(certificate.get("budget_bytes"))
        if budget is not None and math.isfinite(budget):
            self.learn(int(budget), LONG)


def number(found: Any) -> float | None:
    if isinstance(found, str):  # a budget as a text is read as a number
        return float(found) if found.isdigit() else None
    return found if isinstance(found, int | float) and found == found else None


def claim_of(certificate: dict[str, Any]) -> Fraction | float | None:
    """The cost below which no schedule is said to be. Infinite: none is said to fit."""
    if certificate.get("claim") == "infeasible":
        return math.inf
    cost = number(certificate.get("cost"))
    return Fraction(cost) if cost is not None and math.isfinite(cost) else cost


def budgets(graph: Graph, eighths: tuple[int, ...]) -> list[int]:
    """From below one op's need to where all is kept, with ``eighths`` of the way between."""
    least, most = working_set_bound(graph).bytes, planning.keep_everything_peak(graph)
    inner = [least + (most - least) * part // 8 for part in eighths]
    return sorted({least - 1, *inner, most})
