"""The least extra cost that was found for each batch."""

from __future__ import annotations

import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.presenters.sizes import BatchAnswer, stairs
from app.theme import CurrentTheme
from app.views.common.plot_colors import color_plot, color_text
from app.views.common.screen_pens import ScreenPens

_LEFT, _ABOVE = 54, 1.15  # pixels; of the highest cost


class BatchChart(pg.PlotWidget):  # type: ignore[misc]
    """Draws extra cost over batches, the graph's batch and the proved limit."""

    def __init__(self, theme: CurrentTheme, parent: QWidget | None = None) -> None:
        super().__init__(parent, enableMenu=False)
        self._theme, self._pens = theme, ScreenPens(self)
        self.setAccessibleName("Extra cost against the batch")
        self.hideButtons()
        item = self.getPlotItem()
        item.setMouseEnabled(x=False, y=False)
        item.showGrid(y=True, alpha=0.12)
        for side in ("left", "bottom"):
            item.getAxis(side).enableAutoSIPrefix(False)
            item.getAxis(side).setStyle(tickLength=-4)
        item.getAxis("left").setWidth(_LEFT)
        self._stairs = pg.PlotCurveItem()
        self._points = pg.ScatterPlotItem(symbol="o", size=7)
        own, limit = ({"position": place, "anchors": [(0, 0), (1, 0)]} for place in (0.96, 0.82))
        self._own = pg.InfiniteLine(angle=90, label="", labelOpts=own)
        self._limit = pg.InfiniteLine(angle=90, label="", labelOpts=limit)
        for part in (self._own, self._stairs, self._points, self._limit):
            self.addItem(part)
        theme.changed.connect(self._color)
        self._color()

    def show_answer(self, answer: BatchAnswer | None) -> None:
        """Draw another answer; the plot is hidden where there is none."""
        self.setVisible(answer is not None and answer.batch > 0)
        if answer is None or not answer.batch:
            return
        x, y = stairs(answer)
        self._stairs.setData(x, y)
        self._points.setData(x[1::2], y[1::2])
        own = answer.question.graph.batch_size or 0
        self._own.setPos(own)
        self._own.label.setText(f"this graph, {own:,}")
        self._limit.setPos(answer.upper_batch)
        self._limit.label.setText(f"none above {answer.upper_batch:,}, proved")
        most = max(answer.upper_batch, own)
        self.setXRange(0, 1.04 * most, padding=0)
        self.setYRange(0, max(1.0, _ABOVE * float(y.max(initial=0))), padding=0)

    def _color(self) -> None:
        theme = self._theme
        color_plot(self, theme)
        for side, words in (("left", "extra cost, %"), ("bottom", "batch (scaled, estimated)")):
            self.setLabel(side, words, color=theme.now.muted)
        self._pens.set(self._stairs, pg.mkPen(theme.color("accent"), width=2.0))
        self._points.setBrush(theme.color("accent"))
        self._points.setPen(None)
        for line, role, style in (
            (self._own, "muted", Qt.PenStyle.DotLine),
            (self._limit, "problem", Qt.PenStyle.DashLine),
        ):
            self._pens.set(line, pg.mkPen(theme.color(role), width=1.5, style=style))
            color_text(line.label, theme, role, 215)
