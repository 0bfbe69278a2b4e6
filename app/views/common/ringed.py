"""Boxes for a choice or a number, with a ring while they have the keys.

Lines of text have the same ring.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QSpinBox, QWidget

_WIDTH, _ROUND = 2.0, 3.0  # pixels


class ChoiceBox(QComboBox):
    """Offers a few choices."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _ring(self)


class NumberBox(QSpinBox):
    """Asks for a whole number."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _ring(self)


class DecimalBox(QDoubleSpinBox):
    """Asks for a number."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _ring(self)


def _ring(box: QWidget) -> None:
    """Draw the ring; the style's own mark is too faint to be seen."""
    if not box.hasFocus():
        return
    painter = QPainter(box)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(box.palette().color(QPalette.ColorRole.Highlight), _WIDTH))
    inset = _WIDTH / 2
    painter.drawRoundedRect(QRectF(box.rect()).adjusted(inset, inset, -inset, -inset), _ROUND, _ROUND)
    painter.end()
