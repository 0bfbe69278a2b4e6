"""Decide for all views how the schedule stands to the budget; no Qt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.state.knowledge import ListedSchedule, WhatIf


class BudgetStanding(StrEnum):
    """How the schedule on screen stands to the budget.

    ``BEST`` and ``OTHER`` fit it; the others do not. ``OVER`` was chosen by hand. ``OTHER`` was too, or what
    was found since, for another budget, costs clearly less.
    """

    BEST = "the cheapest known that fits"
    OTHER = "fits, but is not the cheapest known"
    OVER = "needs more than the budget"
    COMING = "about to be replaced by one that fits"
    SOUGHT = "none known fits; a search runs"
    UNKNOWN = "none known fits; one may exist"
    IMPOSSIBLE = "proved that none fits"


@dataclass(frozen=True)
class Standing:
    """What the window shows for a budget.

    Every view and every command that speaks of the schedule on screen asks this one value.

    Attributes:
        fit: how ``shown`` stands to the budget.
        budget_bytes: the budget.
        shown: the schedule on screen.
        best: the cheapest known schedule that fits; None if none is known.
        least_possible: the proved bound; no schedule has a smaller peak.
        is_plain: whether ``shown`` keeps everything.
    """

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
        """Decide how ``shown`` stands to the budget.

        ``chosen``: by hand, in place of the one that belongs to the budget. ``sought``: a search for this
        budget runs. ``coming``: the budget's own schedule is being drawn.
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
        """Return whether the schedule on screen fits the budget."""
        return self.fit in (BudgetStanding.BEST, BudgetStanding.OTHER)

    @property
    def replaceable(self) -> bool:
        """Return whether the budget's own schedule could take its place."""
        return self.fit in (BudgetStanding.OTHER, BudgetStanding.OVER)

    @property
    def over_bytes(self) -> int:
        """Return by how much the schedule on screen is over the budget."""
        return max(0, self.shown.peak_bytes - self.budget_bytes)
