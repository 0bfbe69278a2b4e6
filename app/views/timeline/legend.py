"""What the colours of the curve and of the matrices mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QPainter, QPen
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.theme import CurrentTheme, Theme

_SIGN, _GAP, _APART = 9.0, 4.0, 9.0  # pixels
_FONT = 11
_ROOMY = 640  # pixels: of a legend beside a note
_MOST_LINES = 3  # of a legend above a plot; the tooltip has all of it
HEIGHT = 18


@dataclass(frozen=True)
class Entry:
    """One colour: its words, and how it is drawn.

    ``line`` is None for a box, whose edge has the colour ``edge``.
    """

    words: str
    color: QColor
    line: Qt.PenStyle | None = None
    edge: QColor | None = None
    width: float = 1.6


def fitting(entries: Sequence[Entry], metrics: QFontMetricsF, width: float) -> list[Entry]:
    """Return the first entries that fit into a width."""
    found: list[Entry] = []
    for entry in entries:
        width -= _SIGN + _GAP + metrics.horizontalAdvance(entry.words)
        if width < 0:
            break
        found.append(entry)
        width -= _APART
    return found


def legend_lines(entries: Sequence[Entry], metrics: QFontMetricsF, width: float) -> list[list[Entry]]:
    """Return all entries in lines, each with as many as fit into a width.

    A shorter one may come before a longer one that has no space any more.
    """
    found: list[list[Entry]] = []
    free: list[float] = []
    for entry in entries:
        wide = _SIGN + _GAP + metrics.horizontalAdvance(entry.words)
        line = next((number for number, room in enumerate(free) if wide <= room), len(found))
        if line == len(found):
            found.append([])
            free.append(width)
        found[line].append(entry)
        free[line] -= wide + _APART
    return found


def legend_metrics(font: QFont) -> QFontMetricsF:
    """Return how wide a legend's words are in a font."""
    small = QFont(font)
    small.setPixelSize(_FONT)
    return QFontMetricsF(small)


def paint_legend(painter: QPainter, entries: Sequence[Entry], place: QRectF, theme: Theme) -> None:
    """Paint as many of the entries as there is space for, from the left."""
    font = painter.font()
    font.setPixelSize(_FONT)
    painter.setFont(font)
    metrics = QFontMetricsF(font)
    x, middle = place.left(), place.center().y()
    for entry in fitting(entries, metrics, place.width()):
        sign = QRectF(x + 0.5, middle - _SIGN / 2 + 0.5, _SIGN - 1, _SIGN - 1)
        if entry.line is None:
            painter.setPen(QPen(entry.edge or entry.color, 1))
            painter.setBrush(entry.color)
            painter.drawRect(sign)
        else:
            painter.setPen(QPen(entry.color, entry.width, entry.line))
            painter.drawLine(QPointF(sign.left() - 1, middle), QPointF(sign.right() + 2, middle))
        x += _SIGN + _GAP
        painter.setPen(theme.color("muted"))
        width = metrics.horizontalAdvance(entry.words)
        box = QRectF(x, place.top(), width + 4, place.height())
        painter.drawText(box, int(Qt.AlignmentFlag.AlignVCenter), entry.words)
        x += width + _APART
    painter.setBrush(Qt.BrushStyle.NoBrush)


class CurveLegend(pg.GraphicsWidget):  # type: ignore[misc]
    """The legend of a plot, in a row above it; a note is at the right of it."""

    def __init__(
        self, theme: CurrentTheme, entries_of: Callable[[], Sequence[Entry]], note: str = ""
    ) -> None:
        super().__init__()
        self._theme, self._entries_of, self._note, self._lines = theme, entries_of, note, 1
        self.setFixedHeight(HEIGHT)

    def fit(self, width: float) -> int:
        """Take two lines where a note leaves little width; return the height."""
        return self._take(2 if self._note and width < _ROOMY else 1)

    def fit_entries(self, width: float) -> int:
        """Take the lines that the entries need, if not too many. Return the height."""
        lines = len(legend_lines(self._entries_of(), legend_metrics(QGuiApplication.font()), width))
        return self._take(max(1, min(lines, _MOST_LINES)))

    def _take(self, lines: int) -> int:
        self._lines = lines
        self.setFixedHeight(HEIGHT * lines)
        return HEIGHT * lines

    def sizeHint(self, which: Qt.SizeHint, constraint: QSizeF = QSizeF()) -> QSizeF:  # noqa: B008
        widths = {Qt.SizeHint.MinimumSize: 0, Qt.SizeHint.MaximumSize: 10_000}
        return QSizeF(widths.get(which, 200), HEIGHT * self._lines)

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None) -> None:
        place, entries = self.boundingRect(), self._entries_of()
        place.setHeight(HEIGHT)
        if self._note:
            taken = self._paint_note(painter, place)
            if self._lines == 1:
                place.setWidth(place.width() - taken)
            place.translate(0, HEIGHT * (self._lines - 1))
            paint_legend(painter, entries, place, self._theme.now)
            return
        for line in legend_lines(entries, legend_metrics(painter.font()), place.width())[: self._lines]:
            paint_legend(painter, line, place, self._theme.now)
            place.translate(0, HEIGHT)

    def _paint_note(self, painter: QPainter, place: QRectF) -> float:
        """Paint the note; return the width that it takes."""
        font = painter.font()
        font.setPixelSize(_FONT)
        font.setItalic(True)
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        words = metrics.elidedText(self._note, Qt.TextElideMode.ElideRight, place.width())
        painter.setPen(self._theme.color("muted"))
        painter.drawText(place, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight), words)
        font.setItalic(False)
        painter.setFont(font)
        return metrics.horizontalAdvance(words) + _APART
