"""The small picture of the whole graph.

A frame is around what is visible.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from app.layout.folded import BOX_WIDTH, GraphLayout
from app.theme import Theme

OVERVIEW_WIDTH, _HEIGHT = 168.0, 46.0


def paint_overview(
    painter: QPainter,
    theme: Theme,
    layout: GraphLayout,
    live: NDArray[np.float64],
    corner: QPointF,
    seen: tuple[float, float],
) -> None:
    """Paint the overview with its bottom right at ``corner``.

    ``live`` are the live bytes of each box; boxes that hold any are painted strongly. ``seen`` is (left,
    width) of what is visible, in the layout's units.
    """
    frame = QRectF(corner.x() - OVERVIEW_WIDTH, corner.y() - _HEIGHT, OVERVIEW_WIDTH, _HEIGHT)
    painter.setPen(QPen(theme.color("border"), 1))
    painter.setBrush(theme.color("panel"))
    painter.drawRoundedRect(frame, 6, 6)
    scale = (OVERVIEW_WIDTH - 16) / layout.width
    painter.setPen(Qt.PenStyle.NoPen)
    for number, box in enumerate(layout.boxes):
        painter.setBrush(
            theme.color("backward" if box.backward else "forward", 230 if live[number] > 0 else 80)
        )
        top = frame.top() + (27 if box.backward else 9)
        painter.drawRect(QRectF(frame.left() + 8 + box.x * scale, top, max(1.0, BOX_WIDTH * scale), 10))
    left, width = seen
    view = QRectF(frame.left() + 8 + left * scale, frame.top() + 3, width * scale, _HEIGHT - 6).intersected(
        frame
    )
    painter.setPen(QPen(theme.color("accent"), 1.5))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRect(view)
