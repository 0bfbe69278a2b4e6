from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPen

from app.layout.folded import GraphLayout
from app.layout.rows import Rows
from app.theme import Theme
from app.views.common.painting import ink, sized
from app.views.graph.paint import paint_lock, pointing_left

_LEGEND = (
    "forward →",
    "backward ←",
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
    if what == "forward →":
        ink(painter, QPen(theme.color("forward"), 1.4), theme.color("forward_fill"))
    elif what == "backward ←":
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


OVERVIEW_WIDTH, _MOST_HEIGHT = 168.0, 120.0


def paint_overview(
    painter: QPainter,
    theme: Theme,
    layout: GraphLayout,
    rows: Rows,
    live: NDArray[np.float64],
    corner: QPointF,
    seen: QRectF,
) -> None:
    """Its bottom right is at ``corner``. ``live``: bytes of each box; ``seen``: what the view shows."""
    wide, high = rows.size
    scale = min((OVERVIEW_WIDTH - 16) / wide, _MOST_HEIGHT / high)
    frame = QRectF(0, 0, OVERVIEW_WIDTH, high * scale + 6)
    frame.moveBottomRight(corner)
    ink(painter, QPen(theme.color("border"), 1), theme.color("panel"))
    painter.drawRoundedRect(frame, 6, 6)
    painter.save()
    painter.setClipRect(frame)
    painter.translate(frame.left() + 8, frame.top() + 3 + rows.above * scale)
    painter.scale(scale, scale)
    for number, box in enumerate(layout.boxes):
        role, strength = "backward" if box.backward else "forward", 230 if live[number] > 0 else 80
        ink(painter, None, theme.color(role, strength))
        painter.drawRect(QRectF(*rows.corner(box), rows.width, rows.height))
    ink(painter, QPen(theme.color("accent"), 1.5 / scale))
    painter.drawRect(seen)
    painter.restore()
