"""One HTML page about what was explored. It needs no other file."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.presenters.axes import nice_ticks
from app.presenters.hotspot_rows import CLICK, HotspotRow, View, help_rows, share_rows
from app.presenters.matrix_image import computed_image, held_image
from app.presenters.memory_curve import KINDS, even_starts, in_columns, memory_stack, tops_of
from app.presenters.wording import constraints_text, doubts, origin_text, percent, target_text
from app.state.knowledge import ListedSchedule
from checkmate import __version__
from checkmate.catalog.bundled import resource
from checkmate.ir import Graph
from checkmate.machine.cost_origin import cost_text
from checkmate.memory.hotspot import Moment, moment
from checkmate.memory.suggestions import find_suggestions, rank_suggestions
from checkmate.reports.html import cards, page, table
from checkmate.units import byte_unit, format_bytes

_MOST_ROWS = 12


@dataclass(frozen=True, eq=False)
class ReportContent:
    """``known`` is the frontier by rising peak; ``least_possible`` is a proved bound in bytes."""

    graph: Graph
    shown: ListedSchedule
    plain: ListedSchedule
    known: tuple[ListedSchedule, ...]
    least_possible: int
    constraints: tuple[str, ...]


def html_report(reported: ReportContent, when: datetime) -> str:
    """A script in the page lets a reader move through the step; without it the page is still whole. Finding
    what would help at the peak takes some dozens of replays of the schedule."""
    graph, shown, plain = reported.graph, reported.shown, reported.plain
    moves = len(shown.schedule.steps) <= MOST_STEPS
    at = moment(graph, shown.schedule, shown.timeline, shown.timeline.peak_step)
    parts = [
        f"<h1>{html.escape(graph.name)}</h1>",
        f'<p class="muted">{html.escape(_facts(reported))}</p>',
        _cards(reported, shown, plain),
        "<h2>Cost against memory</h2>",
        frontier_svg(reported.known, shown, reported.least_possible),
        "<p class=muted>Each point is a schedule that was replayed step by step. The line below it ends at "
        "the proved bound: no schedule can be cheaper. Filled: proved optimal. "
        "Grey: proved that nothing fits.</p>",
        '<p id="point"></p>',
        "<h2>Memory over the step</h2>",
        f'<div class="over" id="curve">{curve_svg(shown, plain)}<i class="line" id="scrub-line"></i></div>',
        '<p class="key"><i class="fixed"></i>parameters, optimizer, inputs '
        '<i class="activations"></i>activations <i class="gradients"></i>gradients '
        '<i class="workspace"></i>workspace <i class="again"></i>recomputation '
        "· dotted: keep everything</p>",
        scrub_controls(shown) if moves else "",
        _matrices(shown),
        _moment(at),
        _table("What would help at the peak", ("", "freed there", ""), _help(reported, at), (0, 2)),
        _table("Schedules", ("by", "peak", "step cost", "proved"), _schedules(reported), (0, 3)),
        f'<p class="muted">{html.escape(_provenance(reported, shown, when))}</p>',
    ]
    body = "\n".join(parts)
    script = scrub_script(shown) if moves else ""
    style = resource("report", "page.css").read_text("utf-8")
    return page(f"{graph.name} – Checkmate Explorer", body, style=style, script=script)


def _facts(reported: ReportContent) -> str:
    graph = reported.graph
    facts = [f"batch {graph.batch_size}"] if graph.batch_size else []
    facts += [f"{graph.n} ops", f"{format_bytes(graph.fixed_bytes)} fixed", origin_text(graph)]
    facts += [graph.device.name] if graph.device is not None and graph.device.kind != "none" else []
    facts += [words for words in (target_text(graph), doubts(graph)) if words]
    said = reported.constraints
    return " · ".join([*facts, *([constraints_text(len(said), None, None)] if said else []), *said])


def _cards(reported: ReportContent, shown: ListedSchedule, plain: ListedSchedule) -> str:
    smaller = 100 * (1 - shown.peak_bytes / plain.peak_bytes) if plain.peak_bytes else 0.0
    known, least = reported.known[0].peak_bytes, reported.least_possible
    below = "proved" if known <= least else f"none below {format_bytes(least)}"
    away = ("optimal", "proved") if shown.optimal else (f"≤ {percent(shown.gap)}", "from the best possible")
    figures = (
        (format_bytes(shown.peak_bytes), f"peak, predicted (−{smaller:.0f} %)"),
        (f"+{max(0.0, 100 * shown.overhead):.1f} %", f"step cost; {cost_text(shown.graph, shown.cost)}"),
        away,
        (format_bytes(plain.peak_bytes), "keep everything"),
        (format_bytes(known), f"least known; {below}"),
    )
    return cards(figures)


def _matrices(shown: ListedSchedule) -> str:
    pictures = "".join(
        f'<figure><div class="over"><img src="{matrix_image(shown, which)}" alt="{which}: {what}" '
        f'data-matrix="{which}"><i class="cross" data-axis="stage"></i>'
        '<i class="cross" data-axis="column"></i></div>'
        f"<figcaption><b>{which}</b> {what}</figcaption></figure>"
        for which, what in (("R", "computed in stage"), ("S", "held into stage"))
    )
    again = shown.schedule.recomputations
    steps = len(shown.schedule.steps)
    text = f"{steps} steps, {again} of them recomputed. Rows are stages, columns operations."
    below = f'<p id="cell"></p><p class="muted">{text}</p>'
    return f'<h2>What happens when</h2><div class="matrices">{pictures}</div>{below}'


def _moment(at: Moment) -> str:
    op = at.graph.ops[at.op]
    title = f"What fills the peak: step {at.step + 1}, {op.name}, {format_bytes(at.live_bytes)}"
    parts = []
    for view, name in ((View.REASONS, "reason"), (View.LAYERS, "layer"), (View.VALUES, "value")):
        rows = [(row.name, row.figure) for row in share_rows(at, view)[:_MOST_ROWS]]
        parts.append(table((name, "bytes"), rows))
    return f'<h2>{html.escape(title)}</h2><div class="columns">{"".join(parts)}</div>'


def _help(reported: ReportContent, at: Moment) -> list[tuple[str, ...]]:
    graph, shown = reported.graph, reported.shown
    found = list(find_suggestions(graph, shown.schedule, shown.timeline, at, shown.constrained.once))
    ranked = rank_suggestions(found, shown.peak_bytes)
    rows: list[HotspotRow] = help_rows(graph, shown, reported.known, ranked)
    return [(row.name, row.figure, row.detail.removesuffix(CLICK)) for row in rows]


def _schedules(reported: ReportContent) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for found in reversed(reported.known):
        cost = f"+{max(0.0, 100 * found.overhead):.2f} %"
        proved = "optimal" if found.optimal else f"within {percent(found.gap)}"
        rows.append((found.solver, format_bytes(found.peak_bytes), cost, proved))
    return rows


def _provenance(reported: ReportContent, shown: ListedSchedule, when: datetime) -> str:
    graph = reported.graph
    return (
        f"Checkmate Explorer {__version__}, {when:%Y-%m-%d %H:%M}. Graph {graph.fingerprint}; "
        f"schedule by {shown.solver} for {format_bytes(shown.budget_bytes)}. Peaks are the bytes that the "
        "ops request, predicted by replaying the schedule; a device's allocator rounds them up."
    )


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[int]) -> str:
    return f"<h2>{html.escape(title)}</h2>{table(columns, rows, words)}" if rows else ""


MOST_STEPS = 50_000  # a page of more would be tens of megabytes


def scrub_data(shown: ListedSchedule) -> dict[str, Any]:
    """All that the script shows of a schedule. ``steps``, ``again``, ``live``, ``stage`` and ``column`` are
    per step, ``ops`` and ``workspace`` per op, ``order`` is op per column. ``buffers`` and ``held`` are the
    timeline's and S's lists. ``curve``: where the curve is in its picture, in pixels."""
    graph, timeline, matrices = shown.graph, shown.timeline, shown.matrices
    left, right, width = CURVE_PLACE
    return {
        "steps": shown.schedule.steps.tolist(),
        "again": (~shown.schedule.first_occurrence).astype(int).tolist(),
        "live": timeline.live_bytes.tolist(),
        "stage": matrices.stage_of_step.tolist(),
        "column": matrices.column_of_step.tolist(),
        "ops": [op.name for op in graph.ops],
        "workspace": graph.workspace_bytes.tolist(),
        "values": [value.name for value in graph.values],
        "buffers": {
            name: getattr(timeline, f"buffer_{name}").tolist() for name in ("value", "bytes", "born", "last")
        },
        "held": {name: getattr(matrices, f"held_{name}").tolist() for name in ("column", "from", "to")},
        "order": matrices.order.tolist(),
        "fixed": timeline.fixed_bytes,
        "peak": timeline.peak_step,
        "curve": {"left": left, "right": right, "width": width},
    }


def scrub_controls(shown: ListedSchedule) -> str:
    """The slider and its texts, hidden until the script shows them."""
    last = len(shown.schedule.steps) - 1
    return (
        '<div id="scrub" hidden><div class="scrub-row">'
        f'<input type="range" id="step" min="0" max="{last}" value="0" aria-label="Step">'
        '<button type="button" id="to-peak">Peak</button></div>'
        '<p id="now"></p>'
        '<div class="wide"><table><thead><tr><th>In memory then</th><th></th><th class="n">bytes</th>'
        '<th>there</th></tr></thead><tbody id="alive"></tbody></table></div></div>'
    )


def scrub_script(shown: ListedSchedule) -> str:
    """The data and the script. No text in the data can end its element, or begin another."""
    data = json.dumps(scrub_data(shown), separators=(",", ":")).replace("<", "\\u003c")
    script = resource("report", "scrub.js").read_text("utf-8")
    return f'<script type="application/json" id="scrub-data">{data}</script>\n<script>\n{script}</script>'


_WIDTH, _HEIGHT = 640.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 12.0, 14.0, 34.0
CURVE_PLACE = _LEFT, _RIGHT, _WIDTH  # pixels left and right of the curve, and the picture's width
_MATRIX = 360  # pixels
_MOST_COLUMNS = 1200
# The window's colours: nothing, first forward, first backward, recomputed, held, checkpointed.
_COLORS = (
    (0, 0, 0, 0),
    (0, 114, 178, 255),
    (199, 84, 0, 255),
    (181, 82, 140, 255),
    (0, 127, 91, 110),
    (0, 127, 91, 255),
)


class _Chart:
    """An SVG chart; colours and lines are set by the page's style sheet."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.x, self.y = x, y
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x, self.y
        right = _LEFT + (x - x0) / (x1 - x0 or 1) * (_WIDTH - _LEFT - _RIGHT)
        down = _HEIGHT - _BOTTOM - (y - y0) / (y1 - y0 or 1) * (_HEIGHT - _TOP - _BOTTOM)
        return round(right, 1), round(down, 1)

    def add(self, shape: str, style: str, points: Sequence[tuple[float, float]]) -> None:
        text = " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in points))
        self.parts.append(f'<{shape} class="{style}" points="{text}"/>')

    def axes(self, x_title: str, y_title: str) -> None:
        for tick in nice_ticks(*self.y, 5):
            (x0, y), (x1, _) = self.at(self.x[0], tick), self.at(self.x[1], tick)
            self.parts.append(f'<line class="grid" x1="{x0}" x2="{x1}" y1="{y}" y2="{y}"/>')
            self.parts.append(f'<text class="end" x="{x0 - 6}" y="{y + 4}">{tick:g}</text>')
        for tick in nice_ticks(*self.x, 7):
            x, _ = self.at(tick, 0)
            self.parts.append(f'<text class="middle" x="{x}" y="{_HEIGHT - _BOTTOM + 16}">{tick:g}</text>')
        self.parts.append(f'<text x="2" y="10">{html.escape(y_title)}</text>')
        right, down = _WIDTH - _RIGHT, _HEIGHT - 3
        self.parts.append(f'<text class="end" x="{right}" y="{down}">{html.escape(x_title)}</text>')

    def svg(self, title: str) -> str:
        inside = "".join(self.parts)
        return (
            f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{html.escape(title)}">'
            f"<title>{html.escape(title)}</title>{inside}</svg>"
        )


def frontier_svg(known: Sequence[ListedSchedule], shown: ListedSchedule, least_possible: int) -> str:
    """Cost against memory of every known schedule, the bound below them, and what is proved infeasible."""
    largest = max(found.peak_bytes for found in known)
    name, unit = byte_unit(largest)
    low = 0.9 * (least_possible or known[0].peak_bytes) / unit
    top = max(1.02, *(1 + found.overhead for found in known))
    chart = _Chart((low, largest / unit * 1.02), (1 - 0.04 * (top - 1), top + 0.06 * (top - 1)))
    chart.axes(f"peak memory, {name}", "step cost ×")
    stairs: list[tuple[float, float]] = []
    for found in known:
        x, y = found.peak_bytes / unit, 1 + found.overhead
        stairs += [(x, stairs[-1][1]), (x, y)] if stairs else [(x, y)]
    if least_possible:
        (x0, _), (x1, y0) = chart.at(low, 1), chart.at(least_possible / unit, chart.y[1])
        height = _HEIGHT - _TOP - _BOTTOM
        chart.parts.append(
            f'<rect class="never" x="{x0}" y="{y0}" width="{max(0.0, x1 - x0):.1f}" height="{height}"/>'
        )
    chart.add("polyline", "best", stairs)
    for found in known:
        x, y = chart.at(found.peak_bytes / unit, 1 + found.overhead)
        base = found.graph.base_cost or 1.0
        _, bound = chart.at(found.peak_bytes / unit, max(1.0, found.lower_bound / base))
        chart.parts.append(f'<line class="gap" x1="{x}" x2="{x}" y1="{y}" y2="{bound}"/>')
        style = "here" if found is shown else "proved" if found.optimal else "point"
        text = html.escape(f"{found.solver}: {format_bytes(found.peak_bytes)}, +{100 * found.overhead:.2f} %")
        radius = 6 if found is shown else 3.5
        chart.parts.append(
            f'<circle class="{style}" cx="{x}" cy="{y}" r="{radius}" tabindex="0" '
            f'data-said="{text}"><title>{text}</title></circle>'
        )
    return chart.svg("Step cost against peak memory")


def curve_svg(shown: ListedSchedule, plain: ListedSchedule) -> str:
    whole = memory_stack(shown.graph, shown.schedule, shown.timeline)
    name, unit = byte_unit(plain.peak_bytes)
    count = len(whole.total)
    columns = even_starts(count, _MOST_COLUMNS)
    stack, starts = in_columns(whole, columns, count), np.append(columns, count).astype(np.float64)
    top = max(plain.peak_bytes, shown.peak_bytes) / unit * 1.08
    chart = _Chart((0, count), (0, top))
    chart.axes("step", name)
    above = np.cumsum(stack.layers, axis=0) / unit
    for kind, heights in zip(reversed(KINDS), above[::-1], strict=True):
        points = _steps(starts, heights)
        chart.add("polygon", kind, [(points[0][0], 0.0), *points, (points[-1][0], 0.0)])
    chart.add("polyline", "total", _steps(starts, stack.total / unit))
    live = plain.timeline.live_bytes / unit
    some = tops_of(live, even_starts(len(live), _MOST_COLUMNS), len(live)).tolist()
    chart.add("polyline", "plain", [(i * count / len(live), round(float(live[i]), 3)) for i in some])
    for step in starts[:-1][stack.recomputed].tolist():
        x, y = chart.at(step, 0)
        chart.parts.append(f'<rect class="again" x="{x}" y="{y - 5}" width="2" height="4"/>')
    x, y = chart.at(shown.timeline.peak_step + 0.5, shown.peak_bytes / unit)
    chart.parts.append(f'<circle class="peak" cx="{x}" cy="{y}" r="5"/>')
    return chart.svg("Live memory over the training step")


def _steps(starts: NDArray[np.float64], heights: NDArray[np.float64]) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for at, end, exact in zip(starts[:-1].tolist(), starts[1:].tolist(), heights.tolist(), strict=True):
        height = round(exact, 3)
        if points and points[-1][1] == height:
            points[-1] = (end, height)
        else:
            points += [(at, height), (end, height)]
    return points


def matrix_image(shown: ListedSchedule, which: str) -> str:
    """R or S as a PNG in the page."""
    image = computed_image if which == "R" else held_image
    pixels = np.array(_COLORS, np.uint8)[image(shown.graph, shown.matrices, _MATRIX)]
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=9)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
