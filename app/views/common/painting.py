from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QPaintDevice, QPainter, QPen

LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
CENTER = int(Qt.AlignmentFlag.AlignCenter)


def smooth(device: QPaintDevice) -> QPainter:
    painter = QPainter(device)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    return painter


def ink(painter: QPainter, pen: QPen | QColor | None, fill: QBrush | QColor | None = None) -> None:
    """Draw with this pen and fill with this colour from now on; None: no lines, or no filling."""
    painter.setPen(Qt.PenStyle.NoPen if pen is None else pen)
    painter.setBrush(Qt.BrushStyle.NoBrush if fill is None else fill)


def across(painter: QPainter, area: QRectF, y: float) -> None:
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))


def down(painter: QPainter, area: QRectF, x: float) -> None:
    painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))


def sized(font: QFont, pixels: int) -> QFont:
    made = QFont(font)
    made.setPixelSize(pixels)
    return made
