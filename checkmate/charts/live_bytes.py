from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkmate.charts.frontier import COLORS
from checkmate.charts.svg_chart import ACCENT, DARK, GRAY, LARGE, PALE, SOFT, Chart, Size
from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.units import byte_unit, format_bytes

_MOST = 1200  # most corners of a line; each stretch is drawn at its highest, so that no peak is lost
_AGAIN = COLORS[2]


def memory_svg(graph: Graph, schedule: Schedule, budget_bytes: int | None, size: Size = LARGE) -> str:
    plain = simulate(graph, Schedule.plain(graph))
    shown = simulate(graph, schedule)
    same = len(schedule.steps) == graph.n and bool((schedule.steps == np.arange(graph.n)).all())
    highest = max(plain.peak_bytes, shown.peak_bytes, budget_bytes or 0)
    name, unit = byte_unit(highest)
    chart = Chart((0.0, float(len(schedule.steps))), (0.0, 1.08 * highest / unit or 1.0), size)
    chart.axes("step", f"live memory, {name}")
    corners = _stairs(shown.live_bytes / unit, len(schedule.steps))
    end = chart.x[1]
    fixed = shown.fixed_bytes / unit
    chart.area([(0.0, fixed), *corners, (end, fixed)], SOFT)
    if fixed:
        chart.area([(0.0, 0.0), (0.0, fixed), (end, fixed), (end, 0.0)], PALE)
    if not same:
        chart.line(_stairs(plain.live_bytes / unit, len(schedule.steps)), GRAY, width=1, dash="2 3")
    chart.line(corners, ACCENT, width=1.6)
    if budget_bytes is not None:
        chart.line([(0.0, budget_bytes / unit), (end, budget_bytes / unit)], DARK, width=1.2, dash="5 3")
    again = np.flatnonzero(~schedule.first_occurrence)
    if len(again) > _MOST:
        again = again[np.linspace(0, len(again) - 1, _MOST).astype(np.int64)]
    for step in again.tolist():
        chart.line([(step + 0.5, 0.0), (step + 0.5, 0.02 * chart.y[1])], _AGAIN, width=1.5)
    chart.mark(
        "ring", shown.peak_step + 0.5, shown.peak_bytes / unit, DARK, f"peak {format_bytes(shown.peak_bytes)}"
    )
    _legend(chart, same=same, budget=budget_bytes is not None, again=bool(len(again)), fixed=bool(fixed))
    what = (
        "the plain step"
        if same
        else f"{len(schedule.steps)} steps, {schedule.recomputations} of them recomputed"
    )
    return chart.svg(
        f"{graph.name}: live memory over the step", f"{what}; requested bytes, predicted by replaying"
    )


def _legend(chart: Chart, *, same: bool, budget: bool, again: bool, fixed: bool) -> None:
    chart.legend_line(ACCENT, "keep everything" if same else "this schedule")
    if not same:
        chart.legend_line(GRAY, "keep everything, stretched to the same width", dash="2 3")
    if budget:
        chart.legend_line(DARK, "budget", dash="5 3")
    if fixed:
        chart.legend_area(PALE, "parameters, optimizer, inputs")
    if again:
        chart.legend_line(_AGAIN, "recomputation")
    chart.legend_mark("ring", DARK, "peak")


def _stairs(heights: NDArray[np.float64], width: int) -> list[tuple[float, float]]:
    """Return the corners of at most ``_MOST`` stretches, each as high as its highest step."""
    count = len(heights)
    if not count:
        return []
    parts = min(_MOST, count)
    starts = np.arange(parts) * count // parts
    tops = np.maximum.reduceat(heights, starts)
    edges = np.append(starts, count) * (width / count)
    corners: list[tuple[float, float]] = []
    for left, right, exact in zip(edges[:-1].tolist(), edges[1:].tolist(), tops.tolist(), strict=True):
        corners += [(left, round(exact, 4)), (right, round(exact, 4))]
    return corners
