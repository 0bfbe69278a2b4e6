"""Pens of plots that look equally thick on dense and on other screens."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QPen
from PySide6.QtWidgets import QWidget


class Drawn(Protocol):
    """An item of a plot that is drawn with a pen."""

    def setPen(self, pen: QPen) -> object: ...


class ScreenPens(QObject):
    """The pens of the items that ``widget`` shows.

    A plot's pens are cosmetic: their widths count device pixels, and a dense screen has more of those. So
    they are set again when the widget is first shown and when it comes to another screen.
    """

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._widget, self._ratio = widget, 1.0
        self._pens: dict[Drawn, QPen] = {}
        widget.installEventFilter(self)

    def set(self, item: Drawn, pen: QPen) -> None:
        """Draw ``item`` with ``pen``, whose width is in pixels of 1/96 inch."""
        self._pens[item] = pen
        scaled = QPen(pen)
        scaled.setWidthF(pen.widthF() * self._ratio)
        item.setPen(scaled)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Show, QEvent.Type.DevicePixelRatioChange):
            ratio = self._widget.devicePixelRatioF()
            if ratio != self._ratio:
                self._ratio = ratio
                for item, pen in tuple(self._pens.items()):
                    self.set(item, pen)
        return super().eventFilter(watched, event)
