"""Turn steps into a result, after a replay by ``checkmate.memory.check``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import SolverCrashedError
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.solvers.problem import Problem
from checkmate.solvers.tolerances import FALSE, PROVED


def with_schedule(
    problem: Problem,
    solver: str,
    steps: Sequence[int] | NDArray[np.integer[Any]],
    *,
    lower_bound: float | None,
    seconds: float,
    assumptions: tuple[str, ...] = (),
    statistics: Mapping[str, Any] | None = None,
) -> SolveResult:
    """Return OPTIMAL if ``lower_bound`` reaches the cost, else FEASIBLE.

    A bound under assumptions gives FEASIBLE too.

    Raises:
        SolverCrashedError: the schedule is not valid or is over the budget, or the bound contradicts it: a
        fault of the solver.
    """
    plan = [int(step) for step in steps]
    report = check(problem.graph, plan, budget_bytes=problem.budget_bytes)
    if not report.ok:
        what = report.violations[0].message if report.violations else f"its peak is {report.peak_bytes} bytes"
        raise SolverCrashedError(f"solver {solver!r} made a schedule that does not hold: {what}")
    if not assumptions:
        require_true_bound(solver, lower_bound, report.cost)
    proved = lower_bound is not None and lower_bound >= report.cost * PROVED and not assumptions
    return SolveResult(
        status=SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE,
        solver=solver,
        budget_bytes=problem.budget_bytes,
        base_cost=problem.graph.base_cost,
        schedule=Schedule.of(problem.graph, plan),
        cost=report.cost,
        peak_bytes=report.peak_bytes,
        lower_bound=None if lower_bound is None else min(lower_bound, report.cost),
        solve_seconds=seconds,
        assumptions=assumptions,
        statistics=statistics or {},
    )


def require_true_bound(solver: str, lower_bound: float | None, cost: float) -> None:
    """Require that a bound is not above the cost of a replayed schedule.

    The bound makes no assumptions.

    Raises:
        SolverCrashedError: it is, by more than rounding.
    """
    if lower_bound is not None and lower_bound > cost * (1 + FALSE) + FALSE:
        raise SolverCrashedError(
            f"solver {solver!r} proved that no schedule costs less than {lower_bound:g}, and one that was "
            f"replayed costs {cost:g}: the proof is false",
            hint="choose another solver, and please report the graph",
        )


def shows_optimal(lower_bound: float | None, cost: float) -> bool:
    """Return whether a bound leaves no room for a lower cost."""
    return lower_bound is not None and lower_bound >= cost * (1 - FALSE) - FALSE


def cancelled_before(problem: Problem, solver: str, seconds: float = 0.0) -> SolveResult:
    """Return CANCELLED, for a solve that ended before there was a schedule."""
    sentence = "cancelled before a schedule was found"
    return without_schedule(problem, solver, SolveStatus.CANCELLED, sentence, seconds=seconds)


def without_schedule(
    problem: Problem,
    solver: str,
    status: SolveStatus,
    message: str,
    *,
    seconds: float,
    lower_bound: float | None = None,
    statistics: Mapping[str, Any] | None = None,
) -> SolveResult:
    """Return INFEASIBLE, LIMIT or CANCELLED, with the reason."""
    return SolveResult(
        status=status,
        solver=solver,
        budget_bytes=problem.budget_bytes,
        base_cost=problem.graph.base_cost,
        lower_bound=lower_bound,
        solve_seconds=seconds,
        message=message,
        statistics=statistics or {},
    )
