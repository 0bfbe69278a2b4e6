from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QToolTip

from app.presenters.sizes import BatchAnswer, stairs
from app.theme import CurrentTheme, mixed
from app.views.common.plot_style import ScreenPens, color_plot, color_text, fix_plot, name_axis, without_title
from app.views.timeline.plot_legend import CurveLegend, Entry

_ROLES, _STYLES = ("forward", "backward"), (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine)
_WIDTH, _SHADE, _LEFT = 2.0, 0.22, 54
_MARK = 5.0  # pixels
_BELOW = 0.05  # of the highest mark: how far below zero a plot of marks goes

Line = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Pair:
    """One line, or A and B. ``words`` say what is at a place on the horizontal axis; ``marked``: each point
    has a mark.
    """

    lines: Sequence[Line]
    names: Sequence[str]
    across: str
    up: str
    words: Callable[[float], str]
    marked: bool = False


class PairPlot(pg.PlotWidget):  # type: ignore[misc]
    """Draws A, or what stands alone, as a solid line and B as a dashed one; the pointer asks it."""

    def __init__(self, name: str, theme: CurrentTheme) -> None:
        super().__init__(enableMenu=False)
        self._theme = theme
        self._pair: Pair | None = None
        self.setAccessibleName(name)
        fix_plot(self, _LEFT)
        without_title(self.getPlotItem())
        self.setMouseTracking(True)
        self.setMinimumSize(220, 150)
        self.legend = CurveLegend(theme, self.entries)
        self.legend.stand_above(self.getPlotItem())
        self._pens = ScreenPens(self)
        self._curves = [pg.PlotCurveItem() for _ in _ROLES]
        self._marks = [pg.ScatterPlotItem(symbol=symbol, size=_MARK) for symbol in ("o", "s")]
        self._hover = pg.InfiniteLine(angle=90)
        self._hover.hide()
        for part in (*reversed(self._curves), *self._marks, self._hover):
            self.addItem(part)
        theme.changed.connect(self._color)
        self._color()

    def entries(self) -> Sequence[Entry]:
        if self._pair is None:
            return []
        names = self._pair.names
        if len(names) > 1:
            names = [f"{letter} {name}" for letter, name in zip("AB", names, strict=True)]
        return [
            Entry(name, self._theme.color(role), style, width=_WIDTH)
            for name, role, style in zip(names, _ROLES, _STYLES, strict=False)
        ]

    def show_pair(self, pair: Pair) -> None:
        self._pair = pair
        nothing = np.zeros(0), np.zeros(0)
        for curve, marks, (x, y) in zip(self._curves, self._marks, (*pair.lines, nothing), strict=False):
            curve.setData(x, y)
            marks.setData(x[::2] if pair.marked else [], y[::2] if pair.marked else [])
        name_axis(self, self._theme, "bottom", pair.across)
        name_axis(self, self._theme, "left", pair.up)
        ends = np.concatenate([x for x, _ in pair.lines])
        top = max(float(y.max(initial=0)) for _, y in pair.lines)
        low = float(ends.min()) if pair.marked else 0.0
        self.setXRange(low, max(float(ends.max()), low + 1e-9), padding=0.02)
        below = _BELOW * top if pair.marked else 0.0  # a mark at no cost is seen whole
        self.setYRange(-below, top * 1.08 or 1.0, padding=0)
        self.legend.update()

    def forget(self) -> None:
        self._pair = None

    def _color(self) -> None:
        theme = self._theme
        color_plot(self, theme)
        self._pens.set(self._hover, pg.mkPen(theme.color("muted"), width=1.0))
        for curve, marks, role, style in zip(self._curves, self._marks, _ROLES, _STYLES, strict=True):
            self._pens.set(curve, pg.mkPen(theme.color(role), width=_WIDTH, style=style))
            marks.setBrush(mixed(theme.now, role, 1.0))
            marks.setPen(None)
        if self._pair is not None:
            self.show_pair(self._pair)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        box = self.getPlotItem().vb
        scene = self.mapToScene(event.position().toPoint())
        inside = self._pair is not None and box.sceneBoundingRect().contains(scene)
        self._hover.setVisible(inside)
        words = ""
        if inside and self._pair is not None:
            x = float(box.mapSceneToView(QPointF(scene)).x())
            self._hover.setPos(x)
            words = self._pair.words(x)
        QToolTip.showText(event.globalPosition().toPoint(), words, self)

    def leaveEvent(self, event: QEvent) -> None:
        self._hover.hide()
        super().leaveEvent(event)


_ABOVE = 1.15  # of the highest cost


class BatchChart(pg.PlotWidget):  # type: ignore[misc]
    """Draws extra cost over batches, the graph's batch and the proved limit."""

    def __init__(self, theme: CurrentTheme) -> None:
        super().__init__(enableMenu=False)
        self._theme, self._pens = theme, ScreenPens(self)
        self.setAccessibleName("Extra cost against the batch")
        fix_plot(self, _LEFT)
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
        self.setVisible(answer is not None)
        if answer is None:
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
            name_axis(self, theme, side, words)
        self._pens.set(self._stairs, pg.mkPen(theme.color("accent"), width=2.0))
        self._points.setBrush(theme.color("accent"))
        self._points.setPen(None)
        for line, role, style in (
            (self._own, "muted", Qt.PenStyle.DotLine),
            (self._limit, "problem", Qt.PenStyle.DashLine),
        ):
            self._pens.set(line, pg.mkPen(theme.color(role), width=1.5, style=style))
            color_text(line.label, theme, role, 215)
