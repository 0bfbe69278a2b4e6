"""Hold what a solver claims against an independent replay."""

from __future__ import annotations

import math

from checkmate.errors import SolverCrashedError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.certify import require_true_bound, shows_optimal

_REPORT = "choose another solver, and please report the graph"


def require_true(graph: Graph, result: SolveResult, budget_bytes: int) -> None:
    """Require that nothing in a result contradicts the replay of its schedule.

    A bound that no known schedule contradicts is believed; only a certificate proves it.

    Raises:
        SolverCrashedError: something does.
    """
    asked = (budget_bytes, graph.base_cost)
    if not all(map(_is_same, (result.budget_bytes, result.base_cost), asked)):
        raise _wrong(result, f"is for {result.budget_bytes} bytes and a cost of {result.base_cost:g} once")
    if result.lower_bound is not None and math.isnan(result.lower_bound):
        raise _wrong(result, "has a bound that is no number")
    if result.schedule is None:
        return
    found = check(graph, result.schedule.steps.tolist(), budget_bytes=budget_bytes)
    if not found.ok or not _is_same(result.cost, found.cost) or found.peak_bytes != result.peak_bytes:
        what = (
            found.violations[0].message if found.violations else f"peak {found.peak_bytes}, cost {found.cost}"
        )
        raise SolverCrashedError(
            f"solver {result.solver!r} returned a schedule that the independent check rejects: {what}",
            hint=_REPORT,
        )
    if not result.assumptions:
        require_true_bound(result.solver, result.lower_bound, found.cost)
    if result.status is SolveStatus.OPTIMAL and not shows_optimal(result.lower_bound, found.cost):
        raise _wrong(result, f"is called optimal at {found.cost:g} with a bound of {result.lower_bound}")


def _is_same(told: float | None, found: float) -> bool:
    """Whether two figures differ by rounding at most; NaN does not."""
    return told is not None and abs(told - found) <= 1e-6 * max(1.0, abs(found))


def _wrong(result: SolveResult, what: str) -> SolverCrashedError:
    return SolverCrashedError(f"the answer of solver {result.solver!r} {what}", hint=_REPORT)
