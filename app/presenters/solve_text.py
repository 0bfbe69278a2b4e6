"""How a solve goes, and how the schedule on screen stands to the budget."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from app.presenters.op_page import why_nothing_fits
from app.presenters.wording import (
    as_sentence,
    least_text,
    percent,
    status_text,
    strong,
    why_other_backend,
)
from app.state.solve import BudgetStanding, Solve, Standing
from checkmate.ir import Graph
from checkmate.machine.cost_origin import cost_text
from checkmate.units import format_bytes, format_bytes_apart, format_overhead, plural

_UNIT = re.compile(r"(?<=\d) (?=%|(?:[KMGT]iB|B|µs|ms|s)\b)")


@dataclass(frozen=True)
class SolveWords:
    """A headline in rich text, and plain sentences below it. ``tip``: who vouches for what is proved."""

    headline: str
    details: str = ""
    tip: str = ""


def before_a_solve(*, opened: bool, passing: bool, preparing: str) -> SolveWords:
    if passing:
        return SolveWords("Solving waits for measured costs.", "A solve now would disturb the measurement.")
    return SolveWords("Move the budget to solve." if opened else "Nothing to solve yet.", preparing)


def unsolved(graph: Graph, standing: Standing, lower_bound: float, preparing: str) -> SolveWords:
    """What is known about a budget that was not solved. ``lower_bound``: the proved bound on its cost."""
    if standing.fit is BudgetStanding.IMPOSSIBLE:
        return _impossible(standing)
    budget, best = strong(_spaced(format_bytes(standing.budget_bytes))), standing.best
    if best is None:
        return SolveWords(f"{budget}: not solved, no schedule known", preparing)
    gap = max(0.0, 1 - lower_bound / best.cost) if best.cost > 0 else 0.0
    quality = "proved optimal" if best.optimal else f"within {percent(gap)} of the best possible"
    cost = f"{cost_text(graph, best.cost)} ({format_overhead(best.cost, graph.base_cost)})"
    return SolveWords(f"{budget}: not solved", _spaced(f"Best known: {cost}, {quality}."))


def of_solve(graph: Graph, solve: Solve, standing: Standing, preparing: str) -> SolveWords:
    if solve.running and standing.fit is BudgetStanding.IMPOSSIBLE:
        return _impossible(standing)
    details = _explain(graph, solve)
    if solve.running and preparing:
        meanwhile = (
            "Until then, simple strategies are tried."
            if solve.aim is None
            else "The search for the least memory begins after that."
        )
        details = f"{preparing}. {meanwhile} {details}".strip()
    return SolveWords(_spaced(_headline(solve)), _spaced(details), _who_proves(solve))


def _who_proves(solve: Solve) -> str:
    if solve.status not in ("optimal", "infeasible"):
        return ""
    said = "Proved by the solver, which is trusted here."
    if solve.aim is not None or not solve.what_if.constraints.is_empty:
        return said
    return f"{said} File, Save a certificate… writes a proof that is checked apart from it."


def _impossible(standing: Standing) -> SolveWords:
    budget, least = format_bytes_apart(standing.budget_bytes, standing.least_possible)
    return SolveWords(
        _spaced(f"{strong(budget)}: infeasible, proved"),
        _spaced(f"No schedule needs less than {least}, in any order."),
    )


def _headline(solve: Solve) -> str:
    if solve.aim is None:
        status = html.escape(status_text(solve.status, solve.gap, solve.message))
        if solve.running and not solve.best:
            status = "solving, no schedule known yet"
        return f"{strong(format_bytes(solve.budget_bytes))}: {status}"
    best = solve.best[-1][1] if solve.best else None
    text = least_text(solve.status, best, solve.gap, solve.message)
    return f"{strong(f'Least memory {solve.aim.words}')}: {html.escape(text)}"


def _explain(graph: Graph, solve: Solve) -> str:
    if solve.status == "infeasible":
        return _why_infeasible(graph, solve)
    if solve.status == "limit":
        return "Give it more time, or a larger budget."
    if not solve.best:
        return "" if solve.running or solve.status == "failed" else as_sentence(solve.message)
    if solve.aim is not None:
        return _explain_least(solve)
    best = solve.best[-1][1]
    text = f"Best {cost_text(graph, best)} ({format_overhead(best, graph.base_cost)})"
    if solve.lower_bound is not None:
        text += f" · none below {format_overhead(min(solve.lower_bound, best), graph.base_cost)}"
    return text + (f" (assuming {', '.join(solve.assumptions)})" if solve.assumptions else "")


def _why_infeasible(graph: Graph, solve: Solve) -> str:
    tightest = solve.tightest
    why = as_sentence(solve.message) if tightest is None else why_nothing_fits(graph, tightest)
    under = "" if solve.what_if.constraints.is_empty else "Under these constraints: "
    batch = " A smaller batch needs less." if graph.batch_size and graph.batch_size > 1 else ""
    return f"{under}{why}{batch}"


def _explain_least(solve: Solve) -> str:
    at = " at this cost" if solve.aim is not None and solve.aim.limited else ""
    proved = solve.lower_bound is not None and solve.lower_bound >= solve.best[-1][1]
    text = "No schedule needs less" if proved else f"None below {format_bytes(solve.lower_bound or 0)}"
    tried = f" · {plural(solve.probes, 'budget')} tried" if solve.probes else ""
    return text + at + tried


def _spaced(text: str) -> str:
    return _UNIT.sub("\u00a0", text)


_IN_SHORT = {
    BudgetStanding.COMING: ("Drawing the", "schedule…"),
    BudgetStanding.SOUGHT: ("None known yet,", "searching"),
    BudgetStanding.UNKNOWN: ("No schedule known", "for this little"),
    BudgetStanding.IMPOSSIBLE: ("No schedule", "can fit"),
}


def in_short(standing: Standing, plain_peak: int) -> tuple[str, str]:
    """Two short lines for the head of the budget's panel."""
    shown = standing.shown
    if standing.fits:
        saved = 100 * (1 - shown.peak_bytes / plain_peak) if shown.peak_bytes < plain_peak else 0.0
        peak = f"−{saved:.0f} % peak memory" if saved else "Same peak memory"
        return peak, f"+{max(0.0, 100 * shown.overhead):.1f} % step cost"
    if standing.fit is BudgetStanding.OVER:
        return f"Shown: {format_bytes(shown.peak_bytes)},", f"{format_bytes(standing.over_bytes)} too much"
    return _IN_SHORT[standing.fit]


def on_screen(standing: Standing) -> str:
    """Which schedule is displayed instead of the best one for the budget; empty if that one is displayed."""
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
    """``on_screen`` in a few words."""
    if standing.fit in (BudgetStanding.BEST, BudgetStanding.COMING):
        return ""
    peak = format_bytes(standing.shown.peak_bytes)
    name = f"keep everything, {peak}" if standing.is_plain else peak
    return f"{'Not the cheapest that fits' if standing.fits else 'Over the budget'}: {name}"


def why_no_export(standing: Standing | None, *, passing: bool = False) -> str:
    """Empty if the schedule on screen can be exported. ``passing``: its costs are estimates that measured
    ones will replace. ``standing`` None: no graph is open."""
    if standing is None:
        return "There is nothing to export yet: open a model first."
    if passing:
        return "Its ops are being measured."
    if standing.shown.graph.origin.extrapolated_from_batch:
        return "This graph was scaled to another batch. Profile the model at this batch to export it."
    if not standing.shown.graph.origin.request:
        return "This graph was not profiled from a Keras model."
    if why := why_other_backend(standing.shown.graph):
        return why
    if standing.fits:
        return ""
    if standing.fit is BudgetStanding.COMING:
        return "The schedule for this budget is being drawn."
    peak, budget = format_bytes_apart(standing.shown.peak_bytes, standing.budget_bytes)
    return f"The schedule on screen needs {peak}, which is over the budget of {budget}."
