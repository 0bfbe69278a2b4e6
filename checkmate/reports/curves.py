"""The sections of curves: a frontier, an exploration that the window saved."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from checkmate.charts.frontier import curve_svg
from checkmate.charts.svg_chart import LARGE, Size
from checkmate.formats.exploration import exploration_from_json
from checkmate.formats.files import Fields
from checkmate.frontiers.curve import Curve, CurveBaseline, CurvePoint, CurveRow, read_curve
from checkmate.ir import Schedule
from checkmate.ir.result import gap_between
from checkmate.memory.simulate import simulate
from checkmate.reports.html import Block, Note, Picture, Section, Table
from checkmate.units import NONE, format_bytes, format_overhead, format_seconds

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


def frontier(path: Path, data: Any) -> list[Section]:
    return [curve_section(read_curve(path, data))]


def frontiers(path: Path, data: Any) -> list[Section]:
    curves = Fields(path, data).get("curves", list)
    return [curve_section(read_curve(path, told, f"curves[{place}]")) for place, told in enumerate(curves)]


def curve_section(curve: Curve, size: Size = LARGE) -> Section:
    optimal = sum(row.status == "optimal" for row in curve.rows)
    refuted = sum(row.status == "infeasible" for row in curve.rows)
    blocks: list[Block] = [Picture(curve_svg(curve, size=size), CAPTION), _budgets(curve), _baselines(curve)]
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


def _budgets(curve: Curve) -> Table:
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
    peak = extra = gap = by = NONE
    if row.point is not None:
        cost, by = row.point.cost, row.point.solver
        peak, extra = format_bytes(row.point.peak_bytes), format_overhead(cost, curve.base_cost)
        gap = f"{100 * gap_between(cost, row.lower_bound):.2f} %"
    budget, seconds = format_bytes(row.budget_bytes), _seconds(row.seconds)
    return budget, share, peak, extra, bound, gap, seconds, by, row.known


def _baselines(curve: Curve) -> Table:
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


def exploration(path: Path, data: Any) -> list[Section]:
    """Every schedule is replayed."""
    saved = exploration_from_json(path, data)
    graph = saved.graph
    points = []
    for result in saved.schedules:
        timeline = simulate(graph, result.require_schedule())
        points.append(CurvePoint(timeline.peak_bytes, timeline.cost, result.solver))
    points.sort(key=lambda point: (point.peak_bytes, point.cost))
    best: list[CurvePoint] = []
    for point in points:
        if not best or point.cost < best[-1].cost:
            best.append(point)
    infeasible = max((budget for budget, bound in saved.bounds if math.isinf(bound)), default=0)
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes
    curve = Curve(
        name=graph.name,
        ops=graph.n,
        fixed_bytes=graph.fixed_bytes,
        cost_origin=graph.cost_origin.value,
        base_cost=graph.base_cost,
        plain_peak_bytes=plain,
        infeasible_below=infeasible,
        solver="several",
        best=tuple(best),
        bounds=tuple(sorted(saved.bounds)),
    )
    rows = [(format_bytes(p.peak_bytes), format_overhead(p.cost, graph.base_cost), p.solver) for p in best]
    table = Table.of("Schedules", ("peak, predicted", "extra cost, solved", "by"), rows, words=(2,))
    constrained = [Note(("The schedules are under constraints; the bounds hold without them.",))] * bool(
        saved.constraints
    )
    facts = (f"{graph.n} ops", ORIGINS[graph.cost_origin.value])
    cards = ((format_bytes(plain), "keep everything, predicted"),)
    subtitle = "as saved from the window; every schedule replayed, bounds proved for any order of execution"
    picture = Picture(curve_svg(curve, subtitle), CAPTION)
    return [Section(f"{graph.name}: an exploration", facts, cards, (picture, table, *constrained))]


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"
