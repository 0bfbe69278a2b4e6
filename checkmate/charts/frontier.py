"""A trade-off curve as one self-contained SVG file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from checkmate.charts.svg_chart import ACCENT, DARK, GRAY, LARGE, PALE, SOFT, Chart, LabelPlacer, Size
from checkmate.frontiers.curve import Curve, CurveBaseline, CurvePoint, CurveRow, curve_of
from checkmate.frontiers.summary import TradeOff
from checkmate.ir import SolveStatus
from checkmate.units import byte_unit, format_bytes

COLORS = ("#c75400", "#007f5b", "#b5528c", "#0072b2", "#8a6d00", "#7a4fc0", "#b3261e", "#3d6b6b")
_MARKS = ("square", "triangle", "diamond", "cross", "down", "plus", "star", "bar")
# The highest extra cost drawn: this many times the curve's, and at least this many percent.
_ROOM, _LEAST_TOP = 3.0, 32.0


@dataclass(frozen=True)
class _Series:
    """Baselines with the same points, drawn once."""

    names: tuple[str, ...]
    points: tuple[CurvePoint, ...]
    color: str
    mark: str


def svg_text(found: TradeOff) -> str:
    return curve_svg(curve_of(found))


def curve_svg(found: Curve, subtitle: str = "", size: Size = LARGE) -> str:
    """``subtitle`` replaces the words on how it was solved."""
    series = list(_series(found))
    name, unit = byte_unit(found.plain_peak_bytes)
    chart = Chart(x=_x_range(found, unit), y=(0.0, _top(found)), size=size)
    fixed = found.fixed_bytes
    of_it = f", {format_bytes(fixed)} of it fixed" if fixed else ""
    chart.axes(f"peak memory, {name}{of_it}", "extra cost over computing everything once, %")
    _infeasible(chart, found, unit)
    _curve(chart, found, unit)
    labels = LabelPlacer(chart)
    _plain(chart, found, unit, labels)
    for row in found.rows:
        _budget(chart, found, row, unit, labels)
    for one in series:
        _baseline(chart, found, one, unit, labels)
    for one in series:
        _name(chart, found, one, unit, labels)
    _legend(chart, found, series)
    return chart.svg(f"{found.name}: extra cost against peak memory", subtitle or _subtitle(found))


def _x_range(found: Curve, unit: int) -> tuple[float, float]:
    floors = [found.plain_peak_bytes, *(row.budget_bytes for row in found.rows)]
    high = 1.03 * max(floors) / unit
    floors += [point.peak_bytes for point in found.best][:1]
    if found.infeasible_below:
        floors.append(found.infeasible_below)
    low = min(floors) / unit
    return max(0.0, low - 0.1 * (high - low)), high


def _top(found: Curve) -> float:
    """Return the highest extra cost drawn, in percent. Baselines above it are marked at the upper edge."""
    curve = max((found.percent(point.cost) for point in found.best), default=0.0)
    others = [found.percent(point.cost) for baseline in found.baselines for point in baseline.points]
    return max(1.0, 1.12 * min(max([curve, *others]), max(_ROOM * curve, _LEAST_TOP)), 1.08 * curve)


def _subtitle(found: Curve) -> str:
    stopped = ", cancelled" if found.cancelled else ""
    return (
        f"{found.ops} ops, {found.cost_origin} costs, solved by {found.solver} in {found.seconds:.3g} "
        f"s{stopped}; bounds hold for any order of execution"
    )


def _stairs(corners: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for x, y in corners:
        if points:
            points.append((x, points[-1][1]))
        points.append((x, y))
    if points and points[-1][0] < end:
        points.append((end, points[-1][1]))
    return points


def _curve(chart: Chart, found: Curve, unit: int) -> None:
    end = chart.x[1]
    best = _stairs([(p.peak_bytes / unit, found.percent(p.cost)) for p in found.best], end)
    bounds = [(b, low) for b, low in found.bounds if math.isfinite(low)]
    start = max(chart.x[0], found.infeasible_below / unit)
    corners, at = [], start
    # A bound holds up to its budget; beyond the last, the bound is computing everything once.
    for budget, low in bounds:
        corners.append((at, found.percent(low)))
        at = max(at, budget / unit)
    corners.append((at, 0.0))
    below = [(x, min(y, chart.y[1])) for x, y in _stairs(corners, end)]
    if best:
        left = best[0][0]
        back = [p for p in reversed(below) if p[0] >= left]
        chart.area([*best, *back, (left, _height(below, left))], SOFT)
    chart.line(below, DARK, width=1.2, dash="5 3")
    chart.line(best, ACCENT, width=2.2)


def _height(stairs: Sequence[tuple[float, float]], x: float) -> float:
    return next((y for at, y in reversed(stairs) if at <= x), stairs[0][1])


def _infeasible(chart: Chart, found: Curve, unit: int) -> None:
    floor = max(chart.x[0], found.infeasible_below / unit)
    least = min((p.peak_bytes / unit for p in found.best), default=chart.x[1])
    chart.zone(chart.x[0], floor, PALE, "infeasible, proved")
    chart.zone(floor, least, "#f6f7f9", "no schedule known")


def _plain(chart: Chart, found: Curve, unit: int, labels: LabelPlacer) -> None:
    x = found.plain_peak_bytes / unit
    chart.line([(x, 0.0), (x, chart.y[1])], GRAY, width=1, dash="2 3")
    x, y = chart.at(x, chart.y[1])
    words = f"keep everything {format_bytes(found.plain_peak_bytes)}"
    labels.put(x - 4, y + 12, words, GRAY, anchor="end", fixed=True)


def _budget(chart: Chart, found: Curve, row: CurveRow, unit: int, labels: LabelPlacer) -> None:
    """A dot for a budget with a schedule, filled where proved optimal, otherwise a cross on the axis."""
    said = f"budget {format_bytes(row.budget_bytes)}: {row.known}"
    x = row.budget_bytes / unit
    if row.point is None:
        chart.mark("cross", x, 0.0, GRAY, said)
        return
    cost = found.percent(row.point.cost)
    said += f"; peak {format_bytes(row.point.peak_bytes)}, +{cost:.2f} %, {row.point.solver}"
    chart.mark("dot" if row.status is SolveStatus.OPTIMAL else "ring", x, cost, ACCENT, said)
    labels.avoid(*chart.at(x, cost))


def _series(found: Curve) -> Iterator[_Series]:
    groups: dict[tuple[tuple[int, float], ...], list[CurveBaseline]] = {}
    for baseline in found.baselines:
        if baseline.points:
            key = tuple((point.peak_bytes, point.cost) for point in baseline.points)
            groups.setdefault(key, []).append(baseline)
    for group, color, mark in zip(groups.values(), cycle(COLORS), cycle(_MARKS), strict=False):
        yield _Series(tuple(one.solver for one in group), group[0].points, color, mark)


def _inside(chart: Chart, found: Curve, one: _Series) -> list[CurvePoint]:
    return [point for point in one.points if found.percent(point.cost) <= chart.y[1]]


def _baseline(chart: Chart, found: Curve, one: _Series, unit: int, labels: LabelPlacer) -> None:
    shown = _inside(chart, found, one)
    places = [(point.peak_bytes / unit, found.percent(point.cost)) for point in shown]
    chart.line(places, one.color, width=0.8, dash="1 3")
    for point, (x, y) in zip(shown, places, strict=True):
        said = f"{', '.join(one.names)}: {format_bytes(point.peak_bytes)}, +{y:.2f} %"
        chart.mark(one.mark, x, y, one.color, said)
        labels.avoid(*chart.at(x, y))


def _name(chart: Chart, found: Curve, one: _Series, unit: int, labels: LabelPlacer) -> None:
    """Name a baseline at its last point; if all are above the picture, at the upper edge, with its cost."""
    shown = _inside(chart, found, one)
    text = ", ".join(one.names)
    if shown:
        x, y = chart.at(shown[-1].peak_bytes / unit, found.percent(shown[-1].cost))
        labels.put(x, y, text, one.color)
        return
    point = one.points[0]
    cost = found.percent(point.cost)
    x, y = chart.at(point.peak_bytes / unit, chart.y[1])
    chart.arrow_up(x, y, one.color, f"{text}: {format_bytes(point.peak_bytes)}, +{cost:.2f} %")
    labels.put(x, y + 14, f"{text} from +{cost:.0f} %", one.color)


def _legend(chart: Chart, found: Curve, series: Sequence[_Series]) -> None:
    chart.legend_line(ACCENT, "best schedule known")
    if any(row.status is SolveStatus.OPTIMAL for row in found.rows):
        chart.legend_mark("dot", ACCENT, "budget: proved optimal")
    if any(row.status is SolveStatus.FEASIBLE for row in found.rows):
        chart.legend_mark("ring", ACCENT, "budget: within the bound's gap")
    if any(row.point is None for row in found.rows):
        chart.legend_mark("cross", GRAY, "budget without a schedule")
    chart.legend_line(DARK, "lower bound, any order", dash="5 3")
    chart.legend_area(SOFT, "between bound and best known")
    for one in series:
        hidden = len(one.points) - len(_inside(chart, found, one))
        above = f" ({hidden} of {len(one.points)} above the picture)" if hidden else ""
        chart.legend_mark(one.mark, one.color, ", ".join(one.names) + above)
