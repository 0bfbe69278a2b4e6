"""Say how the schedule on screen stands to the budget; no Qt."""

from __future__ import annotations

from app.presenters.words.wording import SCALED_FROM, memory_change, time_change, why_other_backend
from app.state.standing import BudgetStanding, Standing
from checkmate.units import format_bytes, format_bytes_apart

_IN_SHORT = {
    BudgetStanding.COMING: ("Drawing the", "schedule…"),
    BudgetStanding.SOUGHT: ("None known yet,", "searching"),
    BudgetStanding.UNKNOWN: ("No schedule known", "for this little"),
    BudgetStanding.IMPOSSIBLE: ("No schedule", "can fit"),
}


def in_short(standing: Standing, plain_peak: int) -> tuple[str, str]:
    """Return two short lines for the head of the budget's panel."""
    shown = standing.shown
    if standing.fits:
        return memory_change(shown.peak_bytes, plain_peak), time_change(shown.overhead)
    if standing.fit is BudgetStanding.OVER:
        return f"Shown: {format_bytes(shown.peak_bytes)},", f"{format_bytes(standing.over_bytes)} too much"
    return _IN_SHORT[standing.fit]


def on_screen(standing: Standing) -> str:
    """Say what is on screen in place of the budget's own schedule.

    The text is empty where that schedule itself is on screen.
    """
    if standing.fit in (BudgetStanding.BEST, BudgetStanding.COMING):
        return ""
    shown = standing.shown
    peak = format_bytes(shown.peak_bytes)
    name = f"keep everything ({peak})" if standing.is_plain else f"a schedule for {peak}"
    if standing.fit is BudgetStanding.OTHER:
        return f"On screen: {name}. It fits, but a cheaper one is known."
    over = f"{format_bytes(standing.over_bytes)} over the budget"
    if standing.fit is BudgetStanding.SOUGHT:
        return f"On screen: {name}, {over}, until one is known that fits."
    return f"On screen: {name}, {over}."


def in_brief(standing: Standing) -> str:
    """Say the same in a few words, for a place where a line is short."""
    if standing.fit in (BudgetStanding.BEST, BudgetStanding.COMING):
        return ""
    peak = format_bytes(standing.shown.peak_bytes)
    name = f"keep everything, {peak}" if standing.is_plain else peak
    return f"{'Not the cheapest that fits' if standing.fits else 'Over the budget'}: {name}"


def why_no_export(standing: Standing | None, *, passing: bool = False) -> str:
    """Say why the schedule on screen is not exported; empty if it can be.

    ``passing``: its costs are estimates that measured ones will replace. None: no graph is open.
    """
    if standing is None:
        return "There is nothing to export yet: open a model first."
    if passing:
        return "Its ops are being measured."
    if SCALED_FROM in standing.shown.graph.metadata:
        return "This graph was scaled to another batch. Profile the model at this batch to export it."
    if "request" not in standing.shown.graph.metadata:
        return "This graph was not profiled from a Keras model."
    if why := why_other_backend(standing.shown.graph):
        return why
    if standing.fits:
        return ""
    if standing.fit is BudgetStanding.COMING:
        return "The schedule for this budget is being drawn."
    peak, budget = format_bytes_apart(standing.shown.peak_bytes, standing.budget_bytes)
    return f"The schedule on screen needs {peak}, which is over the budget of {budget}."
