"""Lines across a plot, named at its right edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPen, QRegion
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from app.presenters.lines_across import Box, LineKind, MemoryLine, sharing, spread
from app.theme import CurrentTheme

_FONT = 11
_ROOMY = 420  # pixels: of a plot with room for all words
_PAD, _EDGE, _LEAD = 4.0, 3.0, 10.0  # pixels: around words, to the plot's edge, from a line to its words
_PART = 8.0  # pixels, of a line that shares its height with others
_STYLES = {  # role of the colour, dashes, width
    LineKind.REQUESTED: ("forward", Qt.PenStyle.DashDotLine, 1.4),
    LineKind.ALLOCATED: ("held", Qt.PenStyle.DashDotLine, 1.4),
    LineKind.BOUND: ("muted", Qt.PenStyle.DotLine, 1.4),
    LineKind.CAPACITY: ("problem", Qt.PenStyle.SolidLine, 1.8),
}
_Placed = tuple[MemoryLine, float, QRectF]  # a line, where it is, and where its words are


class EdgeLines(pg.GraphicsObject):  # type: ignore[misc]
    """Draws lines over a plot's area, in its pixels.

    The words stand at the right edge, where they cover neither each other nor what ``covered`` returns. What
    is above the area is named at its upper edge, with an arrow.
    """

    def __init__(
        self, plot: pg.PlotItem, theme: CurrentTheme, covered: Callable[[], Sequence[QRectF]]
    ) -> None:
        super().__init__()
        self._box, self._theme, self._covered = plot.vb, theme, covered
        self._unit = 1
        self.lines: tuple[MemoryLine, ...] = ()
        self.setParentItem(self._box)
        self.setZValue(50)
        for moved in (self._box.sigRangeChanged, self._box.sigResized):
            moved.connect(lambda *_: self._move())

    def show_lines(self, lines: tuple[MemoryLine, ...], unit: int) -> None:
        """Draw other lines; the plot counts in ``unit`` bytes."""
        self.lines, self._unit = lines, unit
        self._move()

    def _move(self) -> None:
        self.prepareGeometryChange()
        self.update()

    def boundingRect(self) -> QRectF:
        return QRectF(self._box.rect())

    def height_of(self, line: MemoryLine) -> float:
        """Return where a line is, in pixels from the top of the area."""
        return float(self._box.mapFromView(QPointF(0.0, line.bytes / self._unit)).y())

    def placed(self) -> list[_Placed]:
        """Return the lines that are seen or above, with the places of their words."""
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
        taken = [_sides(rect) for rect in self._covered()]
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
                painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
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
        """Return the pen of the line at a ``place`` among ``lines`` at a height.

        Each of these draws a part of every dash and leaves the rest to the others.
        """
        role, dashes, width = _STYLES[line.kind]
        pen = QPen(self._theme.color(role), width, dashes)
        if lines > 1:
            pen.setCapStyle(Qt.PenCapStyle.FlatCap)
            part = _PART / width  # dashes are measured in widths
            pen.setDashPattern([part, part * (lines - 1)])
            pen.setDashOffset(-part * place)
        return pen

    def _said(self, line: MemoryLine, above: bool) -> str:
        words = line.words if self._box.width() > _ROOMY else line.brief
        return f"↑ {words}" if above else words


def _sides(rect: QRectF) -> Box:
    return rect.left(), rect.top(), rect.right(), rect.bottom()


def _font() -> QFont:
    font = QFont(pg.Qt.QtWidgets.QApplication.font())
    font.setPixelSize(_FONT)
    return font
