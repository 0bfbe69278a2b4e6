from __future__ import annotations

from typing import Protocol

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QPen
from PySide6.QtWidgets import QWidget

from app.theme import CurrentTheme


def color_plot(plot: pg.PlotWidget, theme: CurrentTheme) -> None:
    plot.setBackground(theme.color("panel"))
    for side in ("left", "right", "bottom", "top"):
        axis = plot.getPlotItem().getAxis(side)
        axis.setPen(theme.color("border"))
        axis.setTextPen(theme.color("muted"))


def name_axis(plot: pg.PlotWidget, theme: CurrentTheme, side: str, words: str) -> None:
    plot.setLabel(side, words, color=theme.now.tokens["muted"])


def color_text(text: pg.TextItem, theme: CurrentTheme, role: str, under: int) -> None:
    """Give words in a plot a colour, on the panel's at the opacity ``under``."""
    text.setColor(theme.color(role))
    text.fill = pg.mkBrush(theme.color("panel", under))
    text.update()


def fix_plot(plot: pg.PlotWidget, left: int) -> None:
    """Let nobody move a plot by hand; its left axis is so many pixels wide, and both have short ticks."""
    plot.hideButtons()
    item = plot.getPlotItem()
    item.setMouseEnabled(x=False, y=False)
    item.showGrid(y=True, alpha=0.12)
    for side in ("left", "bottom"):
        item.getAxis(side).enableAutoSIPrefix(False)
        item.getAxis(side).setStyle(tickLength=-4)
    item.getAxis("left").setWidth(left)


def without_title(plot: pg.PlotItem) -> None:
    """Leave out a plot's title, whose row is then free."""
    plot.layout.removeItem(plot.titleLabel)
    plot.titleLabel.setVisible(False)


class Drawn(Protocol):
    """An item of a plot that is drawn with a pen."""

    def setPen(self, pen: QPen) -> object: ...


class ScreenPens(QObject):
    """The pens of the items that ``widget`` shows. A plot's pens are cosmetic: their widths count device
    pixels, and a dense screen has more of those. So they are set again when the widget is first shown and
    when it comes to another screen."""

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
