"""Live memory over the step.

The view shows what fills memory, the budget, the peak, and the playhead.
"""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.models.comparison import Comparison
from app.models.cursors import Playhead
from app.models.exploration import Exploration
from app.presenters.difference import aligned
from app.presenters.memory_curve import KINDS, Stack, highest, memory_stack, thinned, thinned_line
from app.theme import Theme, mixed
from app.views.common.screen_pens import ScreenPens
from checkmate.axis import byte_unit
from checkmate.units import format_bytes

_ROLES = {"fixed": "fixed", "activations": "forward", "gradients": "backward", "workspace": "recomputed"}

_COLUMNS_PER_PIXEL = 2  # of the curve: enough for saved pictures and dense screens
_MOST_COLUMNS = 2000
_STRIDE = 128  # pixels
_WORDS, _AXIS = 52, 50  # pixels: two lines of words above a peak; the axis below
_ROOMY = 300  # pixels; in a narrower view the peak's op is only in the status bar


class CurveView(pg.PlotWidget):
    """A stacked step curve; a click moves the playhead.

    Its colours come from the theme alone.
    """

    # Columns drawn so far. The base class resizes the view before ``__init__`` has drawn any.
    _columns = 0

    def __init__(
        self,
        exploration: Exploration,
        comparison: Comparison,
        playhead: Playhead,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, background=theme.color("panel"))
        self._exploration, self._playhead, self._theme = exploration, playhead, theme
        self._comparison = comparison
        self.setAccessibleName("Memory over the step")
        self._size = 1
        self._style_axes()
        self._make_items()
        self._set_pens()
        self._add_items()
        exploration.shown_changed.connect(self._on_shown)
        exploration.measured_changed.connect(self._on_shown)
        comparison.pinned.connect(self._on_shown)
        exploration.budget_changed.connect(self._on_budget)
        playhead.moved.connect(self._on_step)
        self.scene().sigMouseClicked.connect(self._on_clicked)

    def _style_axes(self) -> None:
        theme, item = self._theme, self.getPlotItem()
        self.setMenuEnabled(False)
        self.hideButtons()
        item.setMouseEnabled(x=False, y=False)
        for side in ("left", "bottom"):
            axis = item.getAxis(side)
            axis.setPen(theme.color("border"))
            axis.setTextPen(theme.color("muted"))
            axis.setStyle(tickLength=-4)
        item.showGrid(y=True, alpha=0.12)

    def _make_items(self) -> None:
        theme = self._theme
        self._fills = [
            pg.PlotCurveItem(pen=None, brush=mixed(theme, _ROLES[kind], 0.42)) for kind in reversed(KINDS)
        ]
        self._outline, self._plain = pg.PlotCurveItem(), pg.PlotCurveItem()
        self._measured = pg.PlotCurveItem()
        self._legend = pg.TextItem(fill=theme.color("panel", 200))
        self._other_text = pg.TextItem(
            color=theme.color("backward"), anchor=(1.08, 0.9), fill=theme.color("panel", 170)
        )
        self._ticks = pg.ScatterPlotItem(symbol="s", size=4, pen=None, brush=theme.color("recomputed"))
        self._peak = pg.ScatterPlotItem(symbol="o", size=11, brush=theme.color("panel"))
        self._peak_text = pg.TextItem(
            color=theme.color("text"), anchor=(1.05, 1.15), fill=theme.color("panel", 230)
        )
        self._budget = pg.InfiniteLine(
            angle=0,
            label="budget",
            labelOpts={
                "position": 0.98,
                "color": theme.color("text"),
                "anchors": [(1, 1), (1, 1)],
                "fill": theme.color("panel", 170),
            },
        )
        self._case, self._line = pg.InfiniteLine(angle=90), pg.InfiniteLine(angle=90)

    def _set_pens(self) -> None:
        theme = self._theme
        self._pens = ScreenPens(self)
        for drawn, role, width, style in (
            (self._outline, "forward", 1.5, Qt.PenStyle.SolidLine),
            (self._plain, "freed", 1.2, Qt.PenStyle.DotLine),
            (self._measured, "text", 1.6, Qt.PenStyle.SolidLine),
            (self._peak, "text", 2.0, Qt.PenStyle.SolidLine),
            (self._budget, "text", 1.5, Qt.PenStyle.DashLine),
            (self._case, "playhead_case", 5.0, Qt.PenStyle.SolidLine),
            (self._line, "playhead", 3.0, Qt.PenStyle.SolidLine),
        ):
            self._pens.set(drawn, pg.mkPen(theme.color(role), width=width, style=style))

    def _add_items(self) -> None:
        """Add the items, later ones above earlier ones."""
        for entry in (
            *self._fills,
            self._plain,
            self._outline,
            self._measured,
            self._ticks,
            self._budget,
            self._peak,
            self._peak_text,
            self._other_text,
            self._legend,
        ):
            self.addItem(entry)
        self.addItem(self._case)
        self.addItem(self._line)
        for depth, words in ((1, self._peak_text), (1, self._budget), (2, self._peak)):
            words.setZValue(depth)  # readable even if the playhead is on them

    def _on_shown(self) -> None:
        shown, plain = self._exploration.shown, self._exploration.plain
        if shown is None or plain is None:
            return
        whole = memory_stack(shown.graph, shown.schedule, shown.timeline)
        count = len(whole.total)
        self._columns = self._fitting_columns()
        starts, stack = thinned(whole, self._columns)
        name, self._size = byte_unit(plain.peak_bytes)
        self._draw_stack(starts - 0.5, stack)
        self._draw_other()
        right = 2 * shown.timeline.peak_step < count  # on the side away from the peak
        self._draw_measured(starts, right, self._comparison.other is not None)
        top = self._top()
        again = starts[:-1][stack.recomputed]
        self._ticks.setData(again, np.full(len(again), top * 0.012))
        self._draw_peak(top)
        self.setLabel("left", name, color=self._theme.muted)
        self.setLabel("bottom", "step", color=self._theme.muted)
        # The budget's words are at the end away from the peak.
        self._budget.label.anchors = [(1, 1), (1, 1)] if right else [(0, 1), (0, 1)]
        self._budget.label.setPosition(0.98 if right else 0.02)
        self.setXRange(-0.5, count - 0.5, padding=0)
        self.setYRange(0, top, padding=0)
        self._on_budget()

    def _draw_stack(self, edges: NDArray[np.float64], stack: Stack) -> None:
        """Draw what fills memory, and the outline of all of it."""
        above = np.cumsum(stack.layers, axis=0)[::-1] / self._size
        # Each layer is drawn from zero up to its own top, the highest first.
        for fill, heights in zip(self._fills, above, strict=True):
            fill.setData(edges, heights, stepMode="center", fillLevel=0)
        self._outline.setData(edges, stack.total / self._size, stepMode="center")

    def _draw_other(self) -> None:
        """Draw the pinned schedule, or the plain one where none is pinned."""
        shown, plain, pinned = self._exploration.shown, self._exploration.plain, self._comparison.other
        assert shown is not None and plain is not None
        other = pinned or plain
        places = aligned(other.schedule, shown.schedule)
        live = other.timeline.live_bytes / self._size
        some = highest(live, self._columns)
        self._plain.setData(places[some], live[some])
        compared = pinned is not None
        role, width = ("backward", 2.0) if compared else ("freed", 1.2)
        self._pens.set(self._plain, pg.mkPen(self._theme.color(role), width=width, style=Qt.PenStyle.DotLine))
        self._other_text.setVisible(compared)
        self._other_text.setText(f"B {format_bytes(other.peak_bytes)}")
        self._other_text.setPos(places[other.timeline.peak_step], other.peak_bytes / self._size)

    def _draw_peak(self, top: float) -> None:
        """Draw the peak, with its bytes and its op in words.

        ``top`` is the top of the scale.
        """
        shown = self._exploration.shown
        assert shown is not None
        peak_step, timeline_peak = shown.timeline.peak_step, shown.timeline.peak_bytes
        self._peak.setData([peak_step], [shown.timeline.peak_bytes / self._size])
        op = shown.graph.ops[int(shown.schedule.steps[peak_step])]
        text = f"peak {format_bytes(shown.timeline.peak_bytes)}"
        if self.width() > _ROOMY:
            text += f" · {(op.group or op.name).rsplit('/', 1)[-1]}"
        self._peak_text.setText(text)
        near = 0 <= self._exploration.budget_bytes - timeline_peak < 0.1 * top * self._size
        # As far left of the peak as the peak is from the left edge, so it never leaves the plot; and above
        # the budget's own label if both would be on one line.
        left = peak_step / max(1, len(shown.schedule.steps) - 1)
        self._peak_text.setAnchor((left, 2.0 if near else 1.15))
        self._peak_text.setPos(peak_step, shown.timeline.peak_bytes / self._size)

    def _draw_measured(self, edges: NDArray[np.float64], right: bool, compared: bool) -> None:
        """Draw what was measured over what was predicted.

        Only this case needs a legend.
        """
        measured = self._exploration.measured_shown
        self._measured.setVisible(measured is not None)
        self._legend.setVisible(measured is not None)
        if measured is None:
            return
        live = np.asarray(measured.live_bytes, np.float64)
        self._measured.setData(edges - 0.5, thinned_line(live, edges) / self._size, stepMode="center")
        strokes = (("forward", "—", "predicted"), ("text", "—", "measured"))
        other = ("backward", "···", "B") if compared else ("freed", "···", "plain step")
        words = "&nbsp;&nbsp; ".join(
            f"<span style='color:{self._theme.color(role).name()}; font-weight:600'>{stroke}</span> {name}"
            for role, stroke, name in (*strokes, other)
        )
        self._legend.setHtml(f"<span style='color:{self._theme.text}; font-size:11px'>{words}</span>")
        # In the corner away from the peak.
        self._legend.setAnchor((1.0, 0.0) if right else (0.0, 0.0))
        self._legend.setPos(edges[-1] - 0.5 if right else -0.5, self._top())

    def _top(self) -> float:
        """Return the top of the scale.

        There is space for the words above the peak and above the other lines.
        """
        exploration = self._exploration
        shown, plain = exploration.shown, exploration.plain
        assert shown is not None and plain is not None
        other = self._comparison.other or plain
        height = max(2 * _WORDS, self.height() - _AXIS)
        least = shown.timeline.peak_bytes * max(1.2, height / (height - _WORDS))
        measured = exploration.measured_shown
        highest_measured = max(measured.live_bytes, default=0) if measured is not None else 0
        highest = max(
            1.12 * highest_measured,
            least,
            1.05 * plain.peak_bytes,
            1.12 * other.peak_bytes,
            1.12 * exploration.budget_bytes,
        )
        return float(highest / self._size)

    def _fitting_columns(self) -> int:
        # In strides, so that dragging a border does not draw everything again for every pixel.
        wide = -(-int(self.width()) // _STRIDE) * _STRIDE
        return min(_MOST_COLUMNS, _COLUMNS_PER_PIXEL * wide)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._columns not in (0, self._fitting_columns()):
            self._on_shown()
        elif self._columns:
            self.setYRange(0, self._top(), padding=0)
            self._legend.setPos(self._legend.pos().x(), self._top())

    def _on_budget(self) -> None:
        budget = self._exploration.budget_bytes
        self._budget.setPos(budget / self._size)
        self._budget.label.setText(f"budget {format_bytes(budget)}")

    def _on_step(self, step: int) -> None:
        self._case.setPos(step)
        self._line.setPos(step)

    def show_cursor(self, visible: bool) -> None:
        """Set whether the playhead is drawn."""
        for line in (self._case, self._line):
            line.setVisible(visible)

    def cursor_line(self, step: int) -> QLineF:
        """Return where the playhead is on ``step``, in the widget's pixels."""
        box = self.getPlotItem().vb
        x = self.mapFromScene(box.mapViewToScene(QPointF(step, 0.0))).x()
        area = self.mapFromScene(box.sceneBoundingRect()).boundingRect()
        return QLineF(x, area.top(), x, area.bottom())

    def _on_clicked(self, event: object) -> None:
        position = self.getPlotItem().vb.mapSceneToView(event.scenePos())  # type: ignore[attr-defined]
        self._playhead.seek(round(position.x()))
