"""Make the section of an exploration that the window saved.

It shows the known schedules and the bounds below them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from checkmate.charts.frontier import curve_svg
from checkmate.formats.exploration import exploration_from_json
from checkmate.frontiers.curve import Curve, CurvePoint
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.reports.page.parts import Note, Picture, Section, Table
from checkmate.reports.sections.frontier import CAPTION, ORIGINS
from checkmate.units import format_bytes, format_overhead


def sections(path: Path, data: Any) -> list[Section]:
    """Return the section of a ``checkmate-exploration``.

    Every schedule is replayed.

    Raises:
        FormatError: as its reader says.
    """
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
        seconds=0.0,
        time_limit_s=0.0,
        cancelled=False,
        rows=(),
        best=tuple(best),
        bounds=tuple(sorted(saved.bounds)),
        baselines=(),
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
