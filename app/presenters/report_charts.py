"""The pictures of a report as SVG and PNG text; no Qt, nothing fetched. The page that they stand in gives
them their colours."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.presenters.axes import nice_ticks
from app.presenters.matrix_image import computed_image, held_image
from app.presenters.memory_curve import KINDS, highest, memory_stack, thinned
from app.state.knowledge import ListedSchedule
from checkmate.units import byte_unit, format_bytes

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
    """The axes of a chart, from data to pixels, and the pieces drawn so far."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = x, y
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a point."""
        (x0, x1), (y0, y1) = self._x, self._y
        right = _LEFT + (x - x0) / (x1 - x0 or 1) * (_WIDTH - _LEFT - _RIGHT)
        down = _HEIGHT - _BOTTOM - (y - y0) / (y1 - y0 or 1) * (_HEIGHT - _TOP - _BOTTOM)
        return round(right, 1), round(down, 1)

    def line(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Add a polyline of class ``style``."""
        text = " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in points))
        self.parts.append(f'<polyline class="{style}" points="{text}"/>')

    def area(self, points: Sequence[tuple[float, float]], style: str) -> None:
        closed = [(points[0][0], 0.0), *points, (points[-1][0], 0.0)]
        text = " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in closed))
        self.parts.append(f'<polygon class="{style}" points="{text}"/>')

    def axes(self, x_title: str, y_title: str, y_format: str) -> None:
        for tick in nice_ticks(*self._y, 5):
            (x0, y), (x1, _) = self.at(self._x[0], tick), self.at(self._x[1], tick)
            self.parts.append(f'<line class="grid" x1="{x0}" x2="{x1}" y1="{y}" y2="{y}"/>')
            self.parts.append(f'<text class="end" x="{x0 - 6}" y="{y + 4}">{tick:{y_format}}</text>')
        for tick in nice_ticks(*self._x, 7):
            x, _ = self.at(tick, 0)
            self.parts.append(f'<text class="middle" x="{x}" y="{_HEIGHT - _BOTTOM + 16}">{tick:g}</text>')
        self.parts.append(f'<text x="2" y="10">{html.escape(y_title)}</text>')
        self.parts.append(
            f'<text class="end" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 3}">{html.escape(x_title)}</text>'
        )

    def svg(self, title: str) -> str:
        inside = "".join(self.parts)
        return (
            f'<svg viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{html.escape(title)}">'
            f"<title>{html.escape(title)}</title>{inside}</svg>"
        )


def frontier_svg(known: Sequence[ListedSchedule], shown: ListedSchedule, least_possible: int) -> str:
    """Draw cost against memory. It shows every known schedule, the bound below them, what is proved
    infeasible, and the schedule that the report is about."""
    largest = max(found.peak_bytes for found in known)
    name, unit = byte_unit(largest)
    low = 0.9 * (least_possible or known[0].peak_bytes) / unit
    top = max(1.02, *(1 + found.overhead for found in known))
    chart = _Chart((low, largest / unit * 1.02), (1 - 0.04 * (top - 1), top + 0.06 * (top - 1)))
    chart.axes(f"peak memory, {name}", "step cost ×", "g")
    stairs: list[tuple[float, float]] = []
    for found in known:
        x, y = found.peak_bytes / unit, 1 + found.overhead
        stairs += [(x, stairs[-1][1]), (x, y)] if stairs else [(x, y)]
    if least_possible:
        (x0, _), (x1, y0) = chart.at(low, 1), chart.at(least_possible / unit, chart._y[1])
        height = _HEIGHT - _TOP - _BOTTOM
        chart.parts.append(
            f'<rect class="never" x="{x0}" y="{y0}" width="{max(0.0, x1 - x0):.1f}" height="{height}"/>'
        )
    chart.line(stairs, "best")
    for found in known:
        x, y = chart.at(found.peak_bytes / unit, 1 + found.overhead)
        base = found.graph.base_cost or 1.0
        _, bound = chart.at(found.peak_bytes / unit, max(1.0, found.lower_bound / base))
        chart.parts.append(f'<line class="gap" x1="{x}" x2="{x}" y1="{y}" y2="{bound}"/>')
        style = "here" if found is shown else "proved" if found.optimal else "point"
        text = f"{found.solver}: {format_bytes(found.peak_bytes)}, +{100 * found.overhead:.2f} %"
        radius = 6 if found is shown else 3.5
        chart.parts.append(
            f'<circle class="{style}" cx="{x}" cy="{y}" r="{radius}" tabindex="0" '
            f'data-said="{html.escape(text)}"><title>{html.escape(text)}</title></circle>'
        )
    return chart.svg("Step cost against peak memory")


def curve_svg(shown: ListedSchedule, plain: ListedSchedule) -> str:
    """Draw the live memory over the step. It shows what fills the memory, and the plain step's live
    memory."""
    whole = memory_stack(shown.graph, shown.schedule, shown.timeline)
    name, unit = byte_unit(plain.peak_bytes)
    count = len(whole.total)
    starts, stack = thinned(whole, _MOST_COLUMNS)
    top = max(plain.peak_bytes, shown.peak_bytes) / unit * 1.08
    chart = _Chart((0, count), (0, top))
    chart.axes("step", name, "g")
    above = np.cumsum(stack.layers, axis=0) / unit
    for kind, heights in zip(reversed(KINDS), above[::-1], strict=True):
        chart.area(_steps(starts, heights), kind)
    chart.line(_steps(starts, stack.total / unit), "total")
    live = plain.timeline.live_bytes / unit
    some = highest(live, _MOST_COLUMNS).tolist()
    chart.line([(i * count / len(live), round(float(live[i]), 3)) for i in some], "plain")
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
    """Return R or S as a PNG in the page."""
    image = computed_image if which == "R" else held_image
    pixels = np.array(_COLORS, np.uint8)[image(shown.graph, shown.matrices, _MATRIX)]
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode('ascii')}"


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return uint8[height, width, 4] as the content of a PNG file."""
    height, width, _ = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * 4)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
