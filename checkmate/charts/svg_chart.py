"""A chart as SVG text, in the window's light colours.

It uses presentation attributes only, no style sheet and no script, so that every viewer and editor shows it
alike.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from checkmate.units import round_values

WINDOW, PANEL, GRID, TEXT, GRAY = "#eef0f4", "#ffffff", "#e8ebf0", "#1a1d24", "#5a6372"
ACCENT, DARK, SOFT, PALE = "#2f5bd8", "#1a1d24", "#e3eafc", "#d9dde5"
_FONT = "Inter, Helvetica, Arial, sans-serif"
Size = tuple[float, float]  # the picture's width and the plot's height, in pixels
LARGE: Size = (960.0, 420.0)
SMALL: Size = (720.0, 240.0)
_LEFT, _RIGHT, _TOP = 74.0, 24.0, 66.0
_AXIS, _LEGEND_LINE = 52.0, 20.0  # below the plot: ticks and title; one line of the legend
_CHARACTER = 6.1  # mean width of a character at 11 pixels
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def escaped(text: str) -> str:
    return html.escape(_NOT_IN_XML.sub("\ufffd", text))


class Chart:
    """``x``, ``y``: (low, high) of the data."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], size: Size = LARGE) -> None:
        self.x, self.y = x, y
        self.width, height = size
        self.left, self.right, self.top, self.bottom = _LEFT, self.width - _RIGHT, _TOP, _TOP + height
        self._parts: list[str] = []
        self._over: list[str] = []
        self._legend: list[tuple[str, str]] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x, self.y
        across = self.left + (x - x0) / (x1 - x0 or 1) * (self.right - self.left)
        down = self.bottom - (y - y0) / (y1 - y0 or 1) * (self.bottom - self.top)
        return round(across, 1), round(down, 1)

    def axes(self, x_title: str, y_title: str, x_ticks: Sequence[tuple[float, str]] | None = None) -> None:
        """``x_ticks``: (place, words) instead of round values."""
        size = f'width="{self.right - self.left:g}" height="{self.bottom - self.top:g}"'
        self._parts.append(
            f'<rect x="{self.left:g}" y="{self.top:g}" {size} fill="{PANEL}" stroke="{PALE}"/>'
        )
        for tick in round_values(*self.y, 8):
            x, y = self.at(self.x[0], tick)
            self._parts.append(f'<path d="M{x} {y}H{self.right:g}" stroke="{GRID}"/>')
            self._parts.append(text(x - 8, y + 4, f"{tick:g}", anchor="end"))
        for tick, words in (
            [(tick, f"{tick:g}") for tick in round_values(*self.x, 10)] if x_ticks is None else x_ticks
        ):
            x, y = self.at(tick, self.y[0])
            self._parts.append(f'<path d="M{x} {y}v5" stroke="{GRAY}"/>')
            self._parts.append(text(x, y + 18, words, anchor="middle"))
        middle = (self.left + self.right) / 2
        self._parts.append(text(middle, self.bottom + 38, x_title, size=12, color=TEXT, anchor="middle"))
        down = (self.top + self.bottom) / 2
        turned = text(0, 0, y_title, size=12, color=TEXT, anchor="middle")
        self._parts.append(f'<g transform="translate(20 {down:g}) rotate(-90)">{turned}</g>')

    def line(
        self, points: Sequence[tuple[float, float]], color: str, *, width: float, dash: str = ""
    ) -> None:
        if len(points) > 1:
            dashes = f' stroke-dasharray="{dash}"' if dash else ""
            shape = f'fill="none" stroke="{color}" stroke-width="{width:g}" stroke-linejoin="round"{dashes}'
            self._parts.append(f'<polyline points="{self._pixels(points)}" {shape}/>')

    def area(self, points: Sequence[tuple[float, float]], color: str) -> None:
        self._parts.append(f'<polygon points="{self._pixels(points)}" fill="{color}"/>')

    def _pixels(self, points: Sequence[tuple[float, float]]) -> str:
        return " ".join(f"{x},{y}" for x, y in (self.at(*point) for point in points))

    def zone(self, low: float, high: float, color: str, name: str) -> None:
        (x0, _), (x1, _) = self.at(low, 0), self.at(high, 0)
        if x1 - x0 < 0.5:
            return
        height = self.bottom - self.top
        self._parts.append(
            f'<rect x="{x0}" y="{self.top:g}" width="{x1 - x0:.1f}" height="{height:g}" fill="{color}">'
            f"<title>{escaped(name)}</title></rect>"
        )
        if x1 - x0 >= 14:
            turned = text(0, 0, name, anchor="middle")
            middle = f"{(x0 + x1) / 2 + 4:.1f} {(self.top + self.bottom) / 2:g}"
            self._parts.append(f'<g transform="translate({middle}) rotate(-90)">{turned}</g>')

    def mark(self, kind: str, x: float, y: float, color: str, title: str) -> None:
        """``x`` and ``y`` are data; ``title`` appears where the pointer rests on the mark."""
        self._over.append(mark(kind, *self.at(x, y), color, title))

    def arrow_up(self, x: float, y: float, color: str, title: str) -> None:
        """Draw an arrow at a pixel: the point is above the picture."""
        shape = f'd="M{x} {y + 14}V{y + 2}M{x - 4} {y + 7}L{x} {y + 2}L{x + 4} {y + 7}"'
        self._over.append(
            f'<path {shape} fill="none" stroke="{color}" stroke-width="1.6">'
            f"<title>{escaped(title)}</title></path>"
        )

    def write(self, x: float, y: float, words: str, color: str, anchor: str) -> None:
        """Write words at a pixel, above all else, on a halo."""
        halo = f' stroke="{PANEL}" stroke-width="3" stroke-linejoin="round"'
        self._over.append(text(x, y, words, color=PANEL, anchor=anchor, more=halo))
        self._over.append(text(x, y, words, color=color, anchor=anchor))

    def legend_line(self, color: str, name: str, dash: str = "") -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._legend.append((f'<path d="M-9 0H9" stroke="{color}" stroke-width="2"{dashes}/>', name))

    def legend_area(self, color: str, name: str) -> None:
        self._legend.append(
            (f'<rect x="-9" y="-5" width="18" height="10" fill="{color}" stroke="{PALE}"/>', name)
        )

    def legend_mark(self, kind: str, color: str, name: str) -> None:
        self._legend.append((mark(kind, 0.0, 0.0, color, name), name))

    def svg(self, title: str, subtitle: str) -> str:
        legend, height = self._legend_at(self.bottom + _AXIS + 12)
        head = text(self.left, 28, title, size=17, color=TEXT, more=' font-weight="600"')
        head += text(self.left, 50, subtitle, size=12)
        body = "\n".join([head, *self._parts, *self._over, *legend])
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{height:g}" '
            f'viewBox="0 0 {self.width:g} {height:g}" role="img" font-family="{_FONT}" font-size="11">\n'
            f"<title>{escaped(title)}</title>\n<desc>{escaped(subtitle)}</desc>\n"
            f'<rect width="{self.width:g}" height="{height:g}" fill="{WINDOW}"/>\n{body}\n</svg>\n'
        )

    def _legend_at(self, y: float) -> tuple[list[str], float]:
        x, pieces = self.left + 9, []
        for symbol, name in self._legend:
            width = 18 + 24 + _CHARACTER * len(name)
            if x + width > self.right and x > self.left + 9:
                x, y = self.left + 9, y + _LEGEND_LINE
            pieces.append(
                f'<g transform="translate({x:.1f} {y:g})">{symbol}{text(15, 4, name, color=TEXT)}</g>'
            )
            x += width
        return pieces, y + _LEGEND_LINE


class LabelPlacer:
    """Place words so that they cover neither each other nor the marks."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._taken: list[tuple[float, float, float, float]] = []

    def avoid(self, x: float, y: float) -> None:
        self._taken.append((x - 5, y - 5, x + 5, y + 5))

    def put(
        self, x: float, y: float, words: str, color: str, *, anchor: str = "start", fixed: bool = False
    ) -> None:
        """Put ``words`` beside the pixel, wherever they cover least; or ``fixed`` there."""
        width = _CHARACTER * len(words)
        best = (x, y, anchor)
        if not fixed:
            places = [
                (x + dx if side == "start" else x - dx if side == "end" else x, y + dy, side)
                for dy, dx in ((4, 9), (-8, 5), (16, 5), (-18, 5), (28, 5), (-30, 5), (40, 5))
                for side in ("start", "end", "middle")
                if side != "middle" or abs(dy) > 6
            ]
            best = min(places, key=lambda place: self._covered(_box(place[0], place[1], place[2], width)))
        self._taken.append(_box(*best, width))
        self._chart.write(round(best[0], 1), round(best[1], 1), words, color, best[2])

    def _covered(self, box: tuple[float, float, float, float]) -> float:
        """Return how much of a label is covered, in pixels. Those outside the plot count ten times."""
        x0, y0, x1, y1 = box
        plot = self._chart
        inside = max(0.0, min(x1, plot.right) - max(x0, plot.left)) * max(
            0.0, min(y1, plot.bottom) - max(y0, plot.top)
        )
        covered = 10 * ((x1 - x0) * (y1 - y0) - inside)
        for a0, b0, a1, b1 in self._taken:
            covered += max(0.0, min(x1, a1) - max(x0, a0)) * max(0.0, min(y1, b1) - max(y0, b0))
        return round(covered, 6)


def _box(x: float, y: float, anchor: str, width: float) -> tuple[float, float, float, float]:
    left = x if anchor == "start" else x - width if anchor == "end" else x - width / 2
    return left, y - 10, left + width, y + 3


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 11,
    color: str = GRAY,
    anchor: str = "start",
    more: str = "",
) -> str:
    """``y`` is the base line."""
    where = f'x="{x:.5g}" y="{y:.5g}"' + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    return f'<text {where} font-size="{size}" fill="{color}"{more}>{escaped(words)}</text>'


_SHAPES = {
    "square": "M-4 -4H4V4H-4Z",
    "triangle": "M0 -5L5 4H-5Z",
    "down": "M0 5L5 -4H-5Z",
    "diamond": "M0 -5.5L5 0L0 5.5L-5 0Z",
    "star": "M0 -6L1.6 -1.6L6 0L1.6 1.6L0 6L-1.6 1.6L-6 0L-1.6 -1.6Z",
    "bar": "M-2 -6H2V6H-2Z",
    "cross": "M-4 -4L4 4M-4 4L4 -4",
    "plus": "M-5 0H5M0 -5V5",
    "dot": "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
    "ring": "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
}


def mark(kind: str, x: float, y: float, color: str, title: str) -> str:
    thin = kind in ("cross", "plus")
    fill = "none" if thin else PANEL if kind == "ring" else color
    stroke, width = (color, 2) if thin or kind == "ring" else (PANEL, 1)
    return (
        f'<path transform="translate({x:g} {y:g})" d="{_SHAPES[kind]}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{width}"><title>{escaped(title)}</title></path>'
    )
