"""The legend below the training graph."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPen

from app.theme import Theme
from app.views.graph.paint import paint_lock, pointing_left

_LEGEND = (
    "forward",
    "backward",
    "recomputed",
    "in memory",
    "freed",
    "not yet run",
    "computing now",
    "locked",
)
_LEAST_NEEDED = ("not yet run", "freed", "computing now", "in memory")


def paint_legend(painter: QPainter, theme: Theme, font: QFont, area: QRectF, locks: bool) -> None:
    """Paint the legend in one row at the bottom of ``area``.

    It says what the shapes and colours mean. If space is short, the plainest entries are left out.
    """
    font = QFont(font)
    font.setPixelSize(11)
    painter.setFont(font)
    sizes = {
        text: 38 + painter.fontMetrics().horizontalAdvance(text)
        for text in _LEGEND
        if locks or text != "locked"
    }
    for text in _LEAST_NEEDED:
        if sum(sizes.values()) + 8 > area.width():
            del sizes[text]
    entries, widths = list(sizes), list(sizes.values())
    frame = QRectF(area.left(), area.bottom() - 26, sum(widths) + 8, 26)
    painter.setPen(QPen(theme.color("border"), 1))
    painter.setBrush(theme.color("panel"))
    painter.drawRoundedRect(frame, 6, 6)
    x, y = area.left() + 12, frame.center().y()
    for text, width in zip(entries, widths, strict=True):
        _legend_sign(painter, theme, text, QRectF(x, y - 5.5, 16, 11))
        painter.setPen(theme.color("muted"))
        painter.drawText(QPointF(x + 22, y + 4), text)
        x += width


def _legend_sign(painter: QPainter, theme: Theme, what: str, shape: QRectF) -> None:
    painter.setPen(QPen(theme.color("freed"), 1.2))
    painter.setBrush(theme.color("panel"))
    if what == "forward":
        painter.setPen(QPen(theme.color("forward"), 1.4))
        painter.setBrush(theme.color("forward_fill"))
    elif what == "backward":
        painter.setPen(QPen(theme.color("backward"), 1.4))
        painter.setBrush(theme.color("backward_fill"))
        painter.drawPolygon(pointing_left(shape, 4))
        return
    elif what == "recomputed":
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("recomputed"))
        painter.drawRoundedRect(shape, 5, 5)
        painter.setPen(theme.color("panel"))
        painter.drawText(shape, Qt.AlignmentFlag.AlignCenter, "↻")
        return
    elif what == "in memory":
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("held"))
        painter.drawRoundedRect(QRectF(shape.left(), shape.center().y() - 2, shape.width(), 4), 2, 2)
        return
    elif what == "locked":
        paint_lock(painter, theme, shape.center(), whole=True)
        return
    elif what == "freed":
        painter.setPen(QPen(theme.color("freed"), 1.4, Qt.PenStyle.DashLine))
    elif what == "computing now":
        painter.setPen(QPen(theme.color("playhead_case"), 4))
        painter.drawRoundedRect(shape, 3, 3)
        painter.setPen(QPen(theme.color("playhead"), 2.4))
    painter.drawRoundedRect(shape, 3, 3)
