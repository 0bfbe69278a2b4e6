"""How a solve goes, and how the schedule on screen stands to the budget; no Qt."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.state.knowledge import ListedSchedule, WhatIf

_PROVED = 1 - 1e-9
_ROUNDING = 1 + 1e-4  # a bound above a known cost by more is false
_ENOUGH = 0.999  # a bound below the best by more does not prove it optimal
LONGER_SECONDS = 60.0  # the time that "Solve longer" gives a solve


@dataclass(frozen=True)
class Aim:
    """Least memory within ``1 + max_overhead`` times the cost of computing everything once; infinite: any."""

    max_overhead: float

    @property
    def limited(self) -> bool:
        return math.isfinite(self.max_overhead)

    @property
    def words(self) -> str:
        """Such as ``at most +5 %``. The sentence around it begins with the least memory."""
        return f"at most +{100 * self.max_overhead:.3g} %" if self.limited else "at any cost"


@dataclass(frozen=True)
class SliderTarget:
    """Where the slider stands: on a budget; or, with an ``aim``, on the least memory that it leads to."""

    budget_bytes: int = 0
    aim: Aim | None = None

    @property
    def words(self) -> str:
        return "Move the budget" if self.aim is None else f"Least memory {self.aim.words}"


@dataclass(frozen=True)
class Tightest:
    """What needs more than the budget by itself: an op with its ``values``, or what is kept at the end."""

    op: int
    values: tuple[int, ...]
    bytes: int
    at_end: bool

    @classmethod
    def of(cls, statistics: Mapping[str, Any]) -> Tightest | None:
        if statistics.get("tightest_op") is None:
            return None
        return cls(
            int(statistics["tightest_op"]),
            tuple(int(value) for value in statistics["tightest_values"]),
            int(statistics["tightest_bytes"]),
            bool(statistics["tightest_at_end"]),
        )


@dataclass
class Solve:
    """A solve that runs or has ended, as the solving panel shows it.

    ``best`` lists (seconds, the best so far), and ``bounds`` lists (seconds, proved bound): costs in the
    graph's unit or, with an ``aim``, peaks in bytes. Known at the end: ``assumptions`` of the bound;
    ``tightest``; ``probes``, how many budgets were tried for an aim.
    """

    job: int
    budget_bytes: int
    started: float
    what_if: WhatIf
    aim: Aim | None = None
    status: str = "solving"
    message: str = ""
    lower_bound: float | None = None
    seconds: float | None = None
    best: list[tuple[float, float]] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)
    assumptions: tuple[str, ...] = ()
    tightest: Tightest | None = None
    probes: int = 0

    @property
    def asked(self) -> SliderTarget:
        return SliderTarget(self.budget_bytes) if self.aim is None else SliderTarget(aim=self.aim)

    @property
    def best_known(self) -> ListedSchedule | None:
        if self.aim is None:
            return self.what_if.best_for(self.budget_bytes)
        return self.what_if.least_within(self.aim.max_overhead)

    def contradicts(self, bound: float, *, optimal: bool = False) -> bool:
        """Whether a bound, or that the best found is ``optimal``, contradicts a checked schedule."""
        best = self.best_known
        if best is None:
            return optimal
        value = best.cost * _ROUNDING if self.aim is None else best.peak_bytes
        return bound > value or (optimal and bound < value * _ENOUGH)

    @property
    def running(self) -> bool:
        return self.status == "solving"

    @property
    def gap(self) -> float | None:
        if not self.best or self.lower_bound is None:
            return None
        best = self.best[-1][1]
        return max(0.0, (best - self.lower_bound) / best) if best > 0 else 0.0

    def learn(self, best: float | None, bound: float) -> bool:
        """Take over what became known elsewhere, also after the end; return whether it was new."""
        at = self.seconds if self.seconds is not None else time.monotonic() - self.started
        better = best is not None and (not self.best or best < self.best[-1][1])
        higher = bound > (self.lower_bound or 0.0)
        if best is not None:
            self.found(at, best)
        if higher:
            self.proved(at, bound)
        if self.status == "limit" and self.best:
            self.status = "feasible"
        if (
            self.status in ("feasible", "cancelled")
            and self.best
            and (self.lower_bound or 0.0) >= self.best[-1][1] * _PROVED
        ):
            self.status = "optimal"
        return better or higher

    def found(self, seconds: float, value: float) -> None:
        if not self.best or value < self.best[-1][1]:
            self.best.append((seconds, value))

    def proved(self, seconds: float, value: float) -> None:
        self.lower_bound = max(value, self.lower_bound or 0.0)
        self.bounds.append((seconds, self.lower_bound))


class BudgetStanding(StrEnum):
    """How the schedule on screen relates to the budget. ``BEST`` and ``OTHER`` fit it.

    The user chose an ``OVER`` schedule. An ``OTHER`` one was chosen too, or a clearly cheaper one has been
    found since, for another budget.
    """

    BEST = "the cheapest known that fits"
    OTHER = "fits, but is not the cheapest known"
    OVER = "needs more than the budget"
    COMING = "about to be replaced by one that fits"
    SOUGHT = "none known fits; a search runs"
    UNKNOWN = "none known fits; one may exist"
    IMPOSSIBLE = "proved that none fits"


WITHOUT = (BudgetStanding.UNKNOWN, BudgetStanding.IMPOSSIBLE)  # no schedule is known, and none is sought


@dataclass(frozen=True)
class Standing:
    """How ``shown`` stands to the budget. ``best``: the cheapest known that fits."""

    fit: BudgetStanding
    budget_bytes: int
    shown: ListedSchedule
    best: ListedSchedule | None
    least_possible: int
    is_plain: bool

    @classmethod
    def of(
        cls,
        what_if: WhatIf,
        budget_bytes: int,
        shown: ListedSchedule,
        *,
        chosen: bool,
        sought: bool,
        coming: bool = False,
    ) -> Standing:
        """``chosen``: by hand. ``sought``: a search runs. ``coming``: the budget's own schedule is being
        drawn.
        """
        best, fits = what_if.best_for(budget_bytes), shown.peak_bytes <= budget_bytes
        if chosen:
            fit = BudgetStanding.OTHER if fits else BudgetStanding.OVER
        elif fits:
            cheaper = not coming and what_if.is_cheaper_known(shown, budget_bytes)
            fit = BudgetStanding.OTHER if cheaper else BudgetStanding.BEST
        elif best is not None:
            fit = BudgetStanding.COMING
        elif budget_bytes < what_if.least_possible:
            fit = BudgetStanding.IMPOSSIBLE
        else:
            fit = BudgetStanding.SOUGHT if sought else BudgetStanding.UNKNOWN
        return cls(fit, budget_bytes, shown, best, what_if.least_possible, shown is what_if.plain)

    @property
    def fits(self) -> bool:
        return self.fit in (BudgetStanding.BEST, BudgetStanding.OTHER)

    @property
    def replaceable(self) -> bool:
        return self.fit in (BudgetStanding.OTHER, BudgetStanding.OVER)

    @property
    def over_bytes(self) -> int:
        return max(0, self.shown.peak_bytes - self.budget_bytes)
