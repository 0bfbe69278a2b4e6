"""What is known of one graph's trade-off of memory against cost."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkmate.arguments import step_budget_of
from checkmate.errors import UsageError
from checkmate.ir import Graph, SolveResult, SolveStatus
from checkmate.ir.result import gap_between
from checkmate.ir.shown import Shown
from checkmate.solvers.known_frontier import BudgetAnswer, Frontier, FrontierPoint
from checkmate.solvers.tolerances import PROVED
from checkmate.units import Budget, format_bytes, plural


@dataclass(frozen=True, eq=False)
class BudgetRow:
    """What is known for one budget.

    ``lower_bound``: any order of execution, infinite where no schedule exists. ``seconds``: of all solves for
    it. ``result``: the last solve's answer; None where there was no solve, because the neighbours' answers
    settled it or it was cancelled.
    """

    budget_bytes: int
    status: SolveStatus
    point: FrontierPoint | None
    lower_bound: float
    result: SolveResult | None
    seconds: float = 0.0

    @property
    def gap(self) -> float | None:
        """Return (cost - bound) / cost; None without a schedule. It is 0 where the cost is proved optimal."""
        return None if self.point is None else gap_between(self.point.cost, self.lower_bound)


@dataclass(frozen=True, eq=False)
class Baseline:
    """A known strategy's schedules, by falling peak. ``note``: why there are none, or fewer."""

    solver: str
    points: tuple[FrontierPoint, ...]
    note: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff(Shown):
    """The curve: a row per budget, by rising budget, the frontier, the baselines.

    ``cancelled``: it holds what had been found until then. ``time_limit_s``: for all of it. ``notes``: for
    people.
    """

    graph: Graph
    solver: str
    plain_peak_bytes: int
    rows: tuple[BudgetRow, ...]
    baselines: tuple[Baseline, ...]
    frontier: Frontier
    time_limit_s: float
    seconds: float
    cancelled: bool
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        optimal = sum(row.status is SolveStatus.OPTIMAL for row in self.rows)
        ends = " to ".join(format_bytes(row.budget_bytes) for row in (self.rows[:1] + self.rows[-1:]))
        budgets = f"{plural(len(self.rows), 'budget')} from {ends}"
        return f"TradeOff({reprlib.repr(self.graph.name)}, {budgets}, {optimal} proved optimal)"


def require_budgets(budgets: int | Sequence[Budget], plain: int) -> None:
    """Raise UsageError unless there are enough budgets for a curve, that can be meant.

    ``plain`` is the keep-everything peak, in bytes. One budget may be so few bytes that another unit was
    meant.
    """
    hint = 'give a number like budgets=8, or a list like budgets="40%,60%,80%"'
    if isinstance(budgets, int):
        if budgets < 2:
            raise UsageError("a curve needs at least two budgets", hint=hint)
        return
    if not budgets:
        raise UsageError("no budget was given", hint=hint)
    for budget in budgets:
        step_budget_of(budget, plain)


def resolved(budgets: int | Sequence[Budget], least: int, plain: int) -> list[int]:
    """The budgets in bytes, the largest first: so many from ``least`` to ``plain``, or the given ones."""
    if isinstance(budgets, int):
        grid = [int(budget) for budget in np.linspace(min(least, plain), plain, budgets)]
        return sorted({max(1, budget) for budget in grid}, reverse=True)
    return sorted(
        {budget.resolve(keep_everything_peak=plain, minimum=least) for budget in budgets}, reverse=True
    )


def is_open(answer: BudgetAnswer) -> bool:
    """Whether the optimum at this budget is still unproved."""
    if answer.infeasible:
        return False
    return answer.point is None or answer.point.cost * PROVED > answer.lower_bound


def row_of(answer: BudgetAnswer, result: SolveResult | None, seconds: float, *, stopped: bool) -> BudgetRow:
    """The frontier's answer as a row. ``stopped``: the budget's last solve was cancelled."""
    if answer.infeasible:
        status = SolveStatus.INFEASIBLE
    elif answer.point is not None:
        status = SolveStatus.FEASIBLE if is_open(answer) else SolveStatus.OPTIMAL
    else:
        status = SolveStatus.CANCELLED if stopped else SolveStatus.LIMIT
    return BudgetRow(answer.budget_bytes, status, answer.point, answer.lower_bound, result, seconds)
