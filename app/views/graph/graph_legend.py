from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPen

from app.layout.folded import BOX_WIDTH, GraphLayout
from app.theme import Theme
from app.views.common.painting import ink, sized
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
    """Paint one row at the bottom of ``area``. If space is short, the plainest entries are left out."""
    painter.setFont(sized(font, 11))
    wide = painter.fontMetrics().horizontalAdvance
    sizes = {text: 38 + wide(text) for text in _LEGEND if locks or text != "locked"}
    for text in _LEAST_NEEDED:
        if sum(sizes.values()) + 8 > area.width():
            del sizes[text]
    frame = QRectF(area.left(), area.bottom() - 26, sum(sizes.values()) + 8, 26)
    ink(painter, QPen(theme.color("border"), 1), theme.color("panel"))
    painter.drawRoundedRect(frame, 6, 6)
    x, y = area.left() + 12, frame.center().y()
    for text, width in sizes.items():
        _legend_sign(painter, theme, text, QRectF(x, y - 5.5, 16, 11))
        painter.setPen(theme.color("muted"))
        painter.drawText(QPointF(x + 22, y + 4), text)
        x += width


def _legend_sign(painter: QPainter, theme: Theme, what: str, shape: QRectF) -> None:
    ink(painter, QPen(theme.color("freed"), 1.2), theme.color("panel"))
    if what == "forward":
        ink(painter, QPen(theme.color("forward"), 1.4), theme.color("forward_fill"))
    elif what == "backward":
        ink(painter, QPen(theme.color("backward"), 1.4), theme.color("backward_fill"))
        painter.drawPolygon(pointing_left(shape, 4))
        return
    elif what == "recomputed":
        ink(painter, None, theme.color("recomputed"))
        painter.drawRoundedRect(shape, 5, 5)
        painter.setPen(theme.color("panel"))
        painter.drawText(shape, Qt.AlignmentFlag.AlignCenter, "↻")
        return
    elif what == "in memory":
        ink(painter, None, theme.color("held"))
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


OVERVIEW_WIDTH, _HEIGHT = 168.0, 46.0


def paint_overview(
    painter: QPainter,
    theme: Theme,
    layout: GraphLayout,
    live: NDArray[np.float64],
    corner: QPointF,
    seen: tuple[float, float],
) -> None:
    """Its bottom right is at ``corner``. ``live``: bytes of each box; ``seen``: (left, width) in the view."""
    frame = QRectF(corner.x() - OVERVIEW_WIDTH, corner.y() - _HEIGHT, OVERVIEW_WIDTH, _HEIGHT)
    ink(painter, QPen(theme.color("border"), 1), theme.color("panel"))
    painter.drawRoundedRect(frame, 6, 6)
    scale = (OVERVIEW_WIDTH - 16) / layout.width
    painter.setPen(Qt.PenStyle.NoPen)
    for number, box in enumerate(layout.boxes):
        role, strength = "backward" if box.backward else "forward", 230 if live[number] > 0 else 80
        painter.setBrush(theme.color(role, strength))
        top = frame.top() + (27 if box.backward else 9)
        painter.drawRect(QRectF(frame.left() + 8 + box.x * scale, top, max(1.0, BOX_WIDTH * scale), 10))
    left, width = seen
    view = QRectF(frame.left() + 8 + left * scale, frame.top() + 3, width * scale, _HEIGHT - 6)
    ink(painter, QPen(theme.color("accent"), 1.5))
    painter.drawRect(view.intersected(frame))
