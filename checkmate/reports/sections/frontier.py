"""Make the sections of a trade-off curve.

Each has the picture, a row per budget with what is proved, and the known strategies.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from checkmate.charts.frontier import curve_svg
from checkmate.formats.files import Fields
from checkmate.frontiers.curve import Curve, CurveBaseline, CurveRow, read_curve
from checkmate.reports.page.parts import Block, Note, Picture, Section, Table
from checkmate.reports.page.words import NONE, seconds
from checkmate.units import format_bytes, format_overhead, format_seconds

CAPTION = (
    "Blue: the best schedules known, solved and replayed step by step. Dashed: proved that none is "
    "cheaper, in any order of execution. Dots: the budgets asked for, filled where proved optimal. Peaks "
    "are the bytes that the ops request, predicted."
)
ORIGINS = {
    "analytic": "costs estimated: operations counted from shapes",
    "measured": "costs measured: each op's time on a device",
    "given": "costs as the graph's file gives them",
}


def sections(path: Path, data: Any) -> list[Section]:
    """Return the section of a ``checkmate-frontier``.

    Raises:
        FormatError: a field is missing or wrong.
    """
    return [section(read_curve(path, data))]


def several(path: Path, data: Any) -> list[Section]:
    """Return the sections of a ``checkmate-frontiers``, one per curve.

    Raises:
        FormatError: a field is missing or wrong.
    """
    curves = Fields(path, data).get("curves", list)
    return [section(read_curve(path, told, f"curves[{place}]")) for place, told in enumerate(curves)]


def section(curve: Curve) -> Section:
    """Return the section of one curve."""
    optimal = sum(row.status == "optimal" for row in curve.rows)
    refuted = sum(row.status == "infeasible" for row in curve.rows)
    blocks: list[Block] = [Picture(curve_svg(curve), CAPTION), budgets(curve), baselines(curve)]
    if curve.notes:
        blocks.append(Note(curve.notes))
    facts = [
        f"{curve.ops} ops",
        ORIGINS.get(curve.cost_origin, f"costs {curve.cost_origin}"),
        f"solved by {curve.solver} in {format_seconds(curve.seconds)} of "
        f"{format_seconds(curve.time_limit_s)} for all budgets",
        *(["cancelled: this is what was found so far"] if curve.cancelled else []),
    ]
    least = curve.best[0] if curve.best else None
    cards = [(format_bytes(curve.plain_peak_bytes), "keep everything, predicted")]
    extra = "" if least is None else format_overhead(least.cost, curve.base_cost)
    if least is not None:
        cards.append((format_bytes(least.peak_bytes), f"least memory with a schedule, {extra} cost"))
    if curve.infeasible_below and least is not None and least.peak_bytes == curve.infeasible_below + 1:
        cards[-1] = (cards[-1][0], f"least memory, {extra} cost; proved: nothing fits in less")
    elif curve.infeasible_below:
        cards.append((format_bytes(curve.infeasible_below), "proved: nothing fits in this or less"))
    if curve.rows:
        words = (
            f"budgets proved optimal, {refuted} more proved infeasible"
            if refuted
            else "budgets proved optimal"
        )
        cards.append((f"{optimal} of {len(curve.rows)}", words))
    return Section(f"{curve.name}: extra cost against memory", tuple(facts), tuple(cards), tuple(blocks))


def budgets(curve: Curve) -> Table:
    """Return a row per budget."""
    columns = (
        "budget",
        "of keep-all",
        "peak, predicted",
        "extra cost, solved",
        "lower bound, proved",
        "gap",
        "seconds",
        "by",
        "what is known",
    )
    return Table.of("Budgets", columns, [_cells(curve, row) for row in curve.rows], words=(7, 8))


def _cells(curve: Curve, row: CurveRow) -> tuple[str, ...]:
    share = f"{100 * row.budget_bytes / max(1, curve.plain_peak_bytes):.1f} %"
    bound = NONE if math.isinf(row.lower_bound) else format_overhead(row.lower_bound, curve.base_cost)
    if row.point is None:
        return (
            format_bytes(row.budget_bytes),
            share,
            NONE,
            NONE,
            bound,
            NONE,
            seconds(row.seconds),
            NONE,
            row.known,
        )
    cost = row.point.cost
    gap = 100 * max(0.0, (cost - row.lower_bound) / cost) if cost > 0 else 0.0
    return (
        format_bytes(row.budget_bytes),
        share,
        format_bytes(row.point.peak_bytes),
        format_overhead(cost, curve.base_cost),
        bound,
        f"{gap:.2f} %",
        seconds(row.seconds),
        row.point.solver,
        row.known,
    )


def baselines(curve: Curve) -> Table:
    """Return a row per known strategy. It has its smallest peak, and the best known schedule there."""
    columns = ("known strategy", "schedules", "smallest peak", "its extra cost", "best at that peak", "")
    return Table.of(
        "Known strategies", columns, [_strategy(curve, entry) for entry in curve.baselines], words=(0, 5)
    )


def _strategy(curve: Curve, entry: CurveBaseline) -> tuple[str, ...]:
    if not entry.points:
        return (entry.solver, "0", NONE, NONE, NONE, entry.note)
    last = entry.points[-1]
    best = curve.best_within(last.peak_bytes)
    return (
        entry.solver,
        str(len(entry.points)),
        format_bytes(last.peak_bytes),
        format_overhead(last.cost, curve.base_cost),
        NONE if best is None else format_overhead(best.cost, curve.base_cost),
        entry.note,
    )
