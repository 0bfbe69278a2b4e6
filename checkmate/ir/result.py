"""The outcomes of a solve, of a check and of a measured run."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from checkmate.errors import InfeasibleError, NoScheduleError, SolveCancelledError, SolveFailedError
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.ir.shown import Shown
from checkmate.runner import Runner, runner_of
from checkmate.units import format_bytes, format_overhead, plural


class SolveStatus(StrEnum):
    """How a solve ended. Only OPTIMAL and INFEASIBLE are proofs, and only under the result's assumptions."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    LIMIT = "limit"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def has_schedule(self) -> bool:
        return self in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE)


def gap_between(cost: float, lower_bound: float) -> float:
    """Return (cost - bound) / cost; 0 where the cost is not above the bound."""
    return max(0.0, (cost - lower_bound) / cost) if cost > 0 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class SolveResult(Shown):
    """The outcome of one solve.

    ``budget_bytes`` and ``peak_bytes`` include ``fixed_bytes``. ``cost``, ``base_cost`` (every op once) and
    ``lower_bound`` are in the graph's cost unit. The bound holds under ``assumptions`` (e.g. "given order",
    "no gradient recompute"); without assumptions it holds for any order and any recomputation. ``gap`` =
    (cost - lower_bound) / cost. ``graph``: what was solved, where the functions of ``checkmate`` return the
    result; a notebook's picture needs it.

    Raises:
        ValueError: there is a schedule but the status has none, or the other way round.
    """

    status: SolveStatus
    solver: str
    budget_bytes: int
    base_cost: float
    schedule: Schedule | None = None
    cost: float | None = None
    peak_bytes: int | None = None
    lower_bound: float | None = None
    solve_seconds: float = 0.0
    assumptions: tuple[str, ...] = ()
    message: str = ""
    statistics: Mapping[str, Any] = field(default_factory=dict)
    graph: Graph | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", tuple(self.assumptions))
        object.__setattr__(self, "statistics", MappingProxyType(dict(self.statistics)))
        given = (self.schedule is not None, self.cost is not None, self.peak_bytes is not None)
        if given != (self.status.has_schedule,) * 3:
            raise ValueError(
                f"status {self.status} with schedule, cost, peak {given}: "
                "each must be there exactly if the status has a schedule"
            )

    def __repr__(self) -> str:
        budget = format_bytes(self.budget_bytes)
        if self.schedule is None or self.cost is None:
            return f"SolveResult({self.status}, no schedule within {budget})"
        again = plural(self.schedule.recomputations, "recomputation")
        cost = f"{format_overhead(self.cost, self.base_cost)} cost"
        return f"SolveResult({self.status}, {format_bytes(self.peak_bytes)} of {budget}, {again}, {cost})"

    @property
    def gap(self) -> float | None:
        """Return (cost - lower bound) / cost, at least 0; None if either is unknown."""
        if self.cost is None or self.lower_bound is None:
            return None
        return gap_between(self.cost, self.lower_bound)

    @property
    def above_best(self) -> float | None:
        """Return (cost - lower bound) / lower bound, at least 0; None if either is unknown or 0."""
        if not self.cost or not self.lower_bound:
            return None
        return max(0.0, self.cost / self.lower_bound - 1)

    @property
    def overhead(self) -> float | None:
        """Return the extra cost over computing every op once, as a fraction."""
        if self.cost is None:
            return None
        return self.cost / self.base_cost - 1 if self.base_cost > 0 else 0.0

    def require_schedule(self) -> Schedule:
        """Return the schedule; raise the error of the status (such as ``InfeasibleError``) where there is
        none.
        """
        if self.schedule is not None:
            return self.schedule
        kinds = {
            SolveStatus.INFEASIBLE: InfeasibleError,
            SolveStatus.LIMIT: NoScheduleError,
            SolveStatus.CANCELLED: SolveCancelledError,
            SolveStatus.FAILED: SolveFailedError,
        }
        raise kinds[self.status](
            self.message or f"{self.solver} ended without a schedule ({self.status})",
            hint="raise the budget, use a smaller batch, or give the solver more time",
            details={"status": self.status.value, "budget_bytes": self.budget_bytes},
        )


@dataclass(frozen=True)
class Violation:
    """One broken rule. ``step`` is the position in the schedule; None for the schedule as a whole."""

    message: str
    step: int | None = None


@dataclass(frozen=True)
class CheckReport:
    """The result of an independent replay; peak (with fixed bytes) and cost are the checker's own."""

    violations: tuple[Violation, ...]
    peak_bytes: int
    peak_step: int | None
    cost: float
    base_cost: float
    recomputations: int
    budget_bytes: int | None = None

    @property
    def valid(self) -> bool:
        return not self.violations

    @property
    def problem(self) -> str:
        """Return what is wrong, in words: the first broken rule, else the peak."""
        return self.violations[0].message if self.violations else f"its peak is {self.peak_bytes} bytes"

    @property
    def within_budget(self) -> bool:
        return self.budget_bytes is None or self.peak_bytes <= self.budget_bytes

    @property
    def ok(self) -> bool:
        return self.valid and self.within_budget


@dataclass(frozen=True, repr=False)
class VerificationReport(Shown):
    """Loss, gradients, peak and time of the emitted step beside the plain one.

    ``checkmate-report`` stores these fields.

    ``gradients``, ``loss``, ``peak_bytes``, ``seconds``: as in the format; a quantity that was not measured
    is None.
    ``budget_bytes``: the user's budget: what the device's allocator may show.
    ``plain``: whether the plain step fits, why not if it does not, and the largest batch tried at which it
    does.
    ``settings``: the ``kernels`` that ran, and ``metered_from``: the smallest request in bytes that the meter
    sees.
    ``live_bytes``: requested bytes per step of the schedule, measured, or as XLA assigned them.
    """

    model: str
    device: str
    batch_size: int | None
    budget_bytes: int
    gradients: Mapping[str, Any]
    loss: Mapping[str, float | None]
    peak_bytes: Mapping[str, int | None]
    seconds: Mapping[str, float | None]
    recomputations: int
    steps: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    plain: Mapping[str, Any] = field(default_factory=dict)
    live_bytes: tuple[int, ...] = ()

    def __repr__(self) -> str:
        kept = "as promised" if self.ok else plural(len(self.problems), "problem")
        peak = self.peak_bytes.get("measured") or self.peak_bytes.get("predicted")
        sizes = f"{format_bytes(peak)} of {format_bytes(self.budget_bytes)}"
        again = plural(self.recomputations, "recomputation")
        return f"VerificationReport({reprlib.repr(self.model)}, {kept}, {sizes}, {again})"

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def runner(self) -> Runner:
        return runner_of(self.settings)


@dataclass(frozen=True, eq=False)
class MeasuredSchedule:
    """What a measured run of ``steps`` showed.

    ``live_bytes``: requested bytes per step, fixed bytes included, or as XLA assigned them. ``peak_bytes``:
    of the allocator's meter. ``seconds``: of one warm step.
    """

    steps: tuple[int, ...]
    live_bytes: tuple[int, ...]
    peak_bytes: int
    seconds: float
    device: str = ""
