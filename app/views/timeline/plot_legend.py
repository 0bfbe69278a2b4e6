from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QPainter, QPen, QRegion
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.presenters.lines_across import LineKind, MemoryLine, sharing, spread
from app.theme import CurrentTheme, Theme
from app.views.common.painting import across, ink, sized

_SIGN, _GAP, _APART = 9.0, 4.0, 9.0  # pixels
_FONT = 11
_ROOMY = 640  # pixels: of a legend beside a note
_MOST_LINES = 3  # of a legend above a plot; the tooltip has all of it
HEIGHT = 18


@dataclass(frozen=True)
class Entry:
    """One colour: its words, and how it is drawn. ``line`` is None for a box, whose edge has the colour
    ``edge``."""

    words: str
    color: QColor
    line: Qt.PenStyle | None = None
    edge: QColor | None = None
    width: float = 1.6


def fitting(entries: Sequence[Entry], metrics: QFontMetricsF, width: float) -> list[Entry]:
    found: list[Entry] = []
    for entry in entries:
        width -= _SIGN + _GAP + metrics.horizontalAdvance(entry.words)
        if width < 0:
            break
        found.append(entry)
        width -= _APART
    return found


def legend_lines(entries: Sequence[Entry], metrics: QFontMetricsF, width: float) -> list[list[Entry]]:
    """Divide entries into lines. A shorter one may come before a longer one that has no space any more."""
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
    return QFontMetricsF(sized(font, _FONT))


def paint_legend(painter: QPainter, entries: Sequence[Entry], place: QRectF, theme: Theme) -> None:
    painter.setFont(sized(painter.font(), _FONT))
    metrics = QFontMetricsF(painter.font())
    x, middle = place.left(), place.center().y()
    for entry in fitting(entries, metrics, place.width()):
        sign = QRectF(x + 0.5, middle - _SIGN / 2 + 0.5, _SIGN - 1, _SIGN - 1)
        if entry.line is None:
            ink(painter, QPen(entry.edge or entry.color, 1), entry.color)
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

    def stand_above(self, plot: pg.PlotItem) -> None:
        plot.layout.addItem(self, 0, 0, 1, 3)
        plot.layout.setRowFixedHeight(0, HEIGHT)

    def fit(self, width: float) -> int:
        """Take two lines where a note leaves little width; return the height."""
        return self._set_lines(2 if self._note and width < _ROOMY else 1)

    def fit_entries(self, width: float) -> int:
        lines = len(legend_lines(self._entries_of(), legend_metrics(QGuiApplication.font()), width))
        return self._set_lines(max(1, min(lines, _MOST_LINES)))

    def _set_lines(self, lines: int) -> int:
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


_EDGE_ROOMY = 420  # pixels: of a plot with room for all words
_PAD, _EDGE, _LEAD = 4.0, 3.0, 10.0  # pixels: around words, to the plot's edge, from a line to its words
_PART = 8.0  # pixels: length of a dash where several lines share one height
_STYLES = {  # role of the colour, dashes, width
    LineKind.REQUESTED: ("forward", Qt.PenStyle.DashDotLine, 1.4),
    LineKind.ALLOCATED: ("held", Qt.PenStyle.DashDotLine, 1.4),
    LineKind.BOUND: ("muted", Qt.PenStyle.DotLine, 1.4),
    LineKind.CAPACITY: ("problem", Qt.PenStyle.SolidLine, 1.8),
}
_Placed = tuple[MemoryLine, float, QRectF]  # a line, where it is, and where its words are


class EdgeLines(pg.GraphicsObject):  # type: ignore[misc]
    """Draws lines across a plot. Their labels are at the right edge, and overlap neither each other nor the
    plot's other ``words``. A line above the plot's area is named at the upper edge, with an arrow."""

    def __init__(self, plot: pg.PlotItem, theme: CurrentTheme, words: Sequence[pg.GraphicsObject]) -> None:
        super().__init__()
        self._box, self._theme, self._words = plot.vb, theme, words
        self._unit = 1
        self.lines: tuple[MemoryLine, ...] = ()
        self.setParentItem(self._box)
        self.setZValue(50)
        for moved in (self._box.sigRangeChanged, self._box.sigResized):
            moved.connect(lambda *_: self._move())

    def show_lines(self, lines: tuple[MemoryLine, ...], unit: int) -> None:
        self.lines, self._unit = lines, unit
        self._move()

    def _move(self) -> None:
        self.prepareGeometryChange()
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(self._box.rect())

    def _covered(self) -> list[QRectF]:
        return [self._box.mapRectFromItem(one, one.boundingRect()) for one in self._words if one.isVisible()]

    def height_of(self, line: MemoryLine) -> float:
        return float(self._box.mapFromView(QPointF(0.0, line.bytes / self._unit)).y())

    def placed(self) -> list[_Placed]:
        area, metrics = self.boundingRect(), QFontMetricsF(_font())
        seen = []
        for line in sorted(self.lines, key=lambda one: -one.bytes):
            y = self.height_of(line)
            above = y < area.top()
            if (above and line.kind is not LineKind.CAPACITY) or y > area.bottom():
                continue
            width = metrics.horizontalAdvance(self._said(line, above)) + 2 * _PAD
            height = metrics.height() + 1
            right = area.right() - _EDGE
            top = area.top() + 1 if above else y - height - 1
            seen.append((line, y, (right - width, top, right, top + height)))
        taken = [(one.left(), one.top(), one.right(), one.bottom()) for one in self._covered()]
        tops = spread([box for _, _, box in seen], taken, area.top(), area.bottom())
        return [
            (line, y, QRectF(box[0], top, box[2] - box[0], box[3] - box[1]))
            for (line, y, box), top in zip(seen, tops, strict=True)
        ]

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None) -> None:
        area, found = self.boundingRect(), self.placed()
        painter.setFont(_font())
        uncovered = QRegion(area.toAlignedRect())
        for rect in self._covered():
            uncovered -= QRegion(rect.toAlignedRect())  # no line goes through other words
        painter.setClipRegion(uncovered)
        for (line, y, words), share in zip(found, sharing([y for _, y, _ in found]), strict=True):
            role = _STYLES[line.kind][0]
            painter.setPen(self._pen_of(line, *share))
            if y >= area.top():
                across(painter, area, y)
                if not words.top() - _LEAD <= y <= words.bottom() + _LEAD:
                    painter.setPen(QPen(self._theme.color(role), 1.0))
                    painter.drawLine(
                        QPointF(words.right() - 1, words.center().y()), QPointF(words.right() - 1, y)
                    )
        painter.setClipRect(area)
        for line, y, words in found:
            painter.fillRect(words, self._theme.color("panel", 215))
            painter.setPen(self._theme.color(_STYLES[line.kind][0]))
            painter.drawText(words, int(Qt.AlignmentFlag.AlignCenter), self._said(line, y < area.top()))

    def _pen_of(self, line: MemoryLine, place: int, lines: int) -> QPen:
        """Return the pen of the ``place``-th of several ``lines`` at the same height: their dashes
        alternate."""
        role, dashes, width = _STYLES[line.kind]
        pen = QPen(self._theme.color(role), width, dashes)
        if lines > 1:
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            part = _PART / width  # dashes are measured in widths
            pen.setDashPattern([part, part * (lines - 1)])
            pen.setDashOffset(-part * place)
        return pen

    def _said(self, line: MemoryLine, above: bool) -> str:
        words = line.words if self._box.width() > _EDGE_ROOMY else line.brief
        return f"↑ {words}" if above else words


def _font() -> QFont:
    return sized(QGuiApplication.font(), _FONT)
