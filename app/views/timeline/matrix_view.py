from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QResizeEvent, QWheelEvent

from app.models.span import Scale
from app.presenters import matrix_image as images
from app.presenters.pointer_words import cell_near, cell_words, compared_words
from app.presenters.view_tables import ViewTable, computed_table, held_table
from app.state.knowledge import ListedSchedule
from app.views.common.plot_style import name_axis
from app.views.common.view_models import ViewModels
from app.views.timeline.bands_item import PictureItem
from app.views.timeline.plot_legend import Entry
from app.views.timeline.pointed_plot import PointedPlot, turned
from app.workers.background import on

_DOT = 3  # the least size of a recomputation, in pixels
_HATCHED = 8.0  # the least height of a row of R, in pixels, at which its cells are hatched
_WHAT = {"R": "computed over the step", "S": "held over the step"}
_ROLES = ("panel", "forward", "backward", "recomputed")
_ALPHA = (0, 255, 255, 255)
# In a comparison: cells of neither, of both, of A only, of B only, and the stripes of the last two.
_COMPARED_ROLES = ("panel", "freed", "forward", "backward", "forward", "backward")
_COMPARED_ALPHA = (0, 120, 255, 255, 90, 90)
_SHADES = 256
_LIGHT = 110  # of 255: a value that no backward op waits for


class MatrixView(PointedPlot):
    """Shows R or S (``title``) over the steps of the memory curve. Rows are ops, in the order of first
    computation. R has a box for each step; a cell of S covers the steps of its stage. A click moves the
    playhead and selects the op; the wheel shows fewer steps and fewer ops. While two schedules are compared,
    the colours say which of them has a cell."""

    def __init__(self, title: str, models: ViewModels) -> None:
        super().__init__(models, Scale.OPS)
        self._title, self._comparison = title, models.comparison
        self.sharpness = 1.0  # pixels of the picture to one of the screen; a printed figure has more
        self.setAccessibleName(f"Matrix {title}: {_WHAT[title]}")
        item = self.getPlotItem()
        item.hideAxis("top")
        item.hideAxis("bottom")  # the curve's is above
        item.getAxis("left").setTicks([])
        self._picture = PictureItem()
        self._row = pg.InfiniteLine(angle=0)
        self._marks = pg.InfiniteLine(angle=0), pg.InfiniteLine(angle=0)
        parts = (*self._marks, self._chosen, self._hover, self._row, self._case, self._line)
        for part in (self._picture, *parts):
            self.addItem(part)
        self._color()
        self._on_selection()
        self._on_pointed()
        on(self._draw, models.exploration.shown_changed, self._comparison.pinned)

    def _color(self) -> None:
        super()._color()
        for drawn, role, width in (
            (self._row, "muted", 1.0),
            (self._marks[0], "panel", 6.0),  # the cells may be as blue
            (self._marks[1], "accent", 2.0),
        ):
            self._pens.set(drawn, pg.mkPen(self._theme.color(role), width=width))
        name_axis(self, self._theme, "left", "← op")
        self._draw()

    def _draw(self) -> None:
        self._later.stop()
        shown, axis = self._exploration.shown, self._span.axis
        if shown is None or axis is None:
            return
        steps, n = (self._span.begin, self._span.end), shown.matrices.n
        low, high = axis.place(steps)
        bottom, top = (n * share for share in self._span.heights[self._scale])
        area, ratio = self.getPlotItem().vb.rect(), self.devicePixelRatioF() * self.sharpness
        size = max(1, round(ratio * area.height())), max(1, round(ratio * area.width()))
        raster = images.Raster.of(axis, steps, (n - top, n - bottom), size, max(1, round(_DOT * ratio)))
        self._picture.put(QRectF(low, bottom, high - low, top - bottom), self._pixels(shown, raster)[::-1])
        self._name_steps(axis)
        self.setXRange(low, high, padding=0)
        self._show_heights(n)
        self._on_chosen()
        self._on_selection()
        self._on_step(self._playhead.step)
        self.legend.update()

    def _pixels(self, shown: ListedSchedule, raster: images.Raster) -> NDArray[np.uint32]:
        other = self._comparison.other
        if other is not None:
            found = images.compared_picture(shown.matrices, other.matrices, self._title, raster)
            if self._title == "S" or raster.row >= _HATCHED:
                found = images.hatched(found)
            return self._colors(_COMPARED_ROLES, _COMPARED_ALPHA)[found]
        if self._title == "R":
            return self._colors(_ROLES, _ALPHA)[images.computed_picture(shown.graph, shown.matrices, raster)]
        # A pixel that stands for many cells is the darker, the more of them are held.
        strength = images.held_strength(shown.graph, shown.matrices, raster)
        shades = np.rint(strength * (_SHADES - 1)).astype(np.uint8)
        return self._colors(["held"] * _SHADES, range(_SHADES))[shades]

    def _colors(self, roles: Sequence[str], alphas: Sequence[int]) -> NDArray[np.uint32]:
        colors = (self._theme.color(role, alpha).rgba() for role, alpha in zip(roles, alphas, strict=True))
        return np.fromiter(colors, np.uint32)

    def _row_of(self, op: int) -> float | None:
        """Return where the middle of an op's row is; the first op is at the top."""
        shown = self._exploration.shown
        found = [] if shown is None else np.flatnonzero(shown.matrices.order == op).tolist()
        return shown.matrices.n - found[0] - 0.5 if shown is not None and found else None

    def _on_selection(self, *_: object) -> None:
        self._show_rows(self._marks, self._selection.op)

    def _on_pointed(self) -> None:
        super()._on_pointed()
        self._show_rows((self._row,), self._span.pointed[1])

    def _show_rows(self, lines: Sequence[pg.InfiniteLine], op: int) -> None:
        row = self._row_of(op)
        for line in lines:
            line.setVisible(row is not None)
            if row is not None:
                line.setPos(row)

    def legend_entries(self) -> list[Entry]:
        theme = self._theme
        if self._comparison.other is not None:
            what = "computed" if self._title == "R" else "held"
            words = {
                "freed": f"{self._title}: {what} in both",
                "forward": "only in A",
                "backward": "only in B",
            }
        elif self._title == "R":
            words = {
                "forward": "R: each dot an op computed",
                "recomputed": "computed again",
                "backward": "backward",
            }
        else:
            light, held = theme.color("held", _LIGHT), theme.color("held")
            return [
                Entry("S: each line a value held", light, edge=held),
                Entry("for the backward pass", held),
            ]
        return [Entry(said, theme.color(role)) for role, said in words.items()]

    def view_table(self) -> ViewTable | None:
        shown, table = self._exploration.shown, computed_table if self._title == "R" else held_table
        return None if shown is None else table(shown)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._ready:
            self._draw()  # its picture has another size

    def wheelEvent(self, event: QWheelEvent) -> None:
        super().wheelEvent(event)
        factor = turned(event)[1]
        if factor != 1 and not event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._zoom_heights(event.position(), factor)

    def _cell_at(self, position: QPointF) -> tuple[int, int]:
        """Return the step and the column at a place, or those of an enlarged cell drawn over it."""
        shown, axis = self._exploration.shown, self._span.axis
        assert shown is not None and axis is not None
        place, n = self._plot_place(position), shown.matrices.n
        wide, high = self.getPlotItem().vb.viewPixelSize()
        half = (_DOT if self._title == "R" else 1) / 2
        at, reach = (place.x(), n - place.y()), (half * wide, half * high)
        return cell_near(shown, axis, self._title, at, reach)

    def _pointed_at(self, position: QPointF) -> tuple[int, int]:
        step, column = self._cell_at(position)
        assert self._exploration.shown is not None
        return step, int(self._exploration.shown.matrices.order[column])

    def _go_to(self, position: QPointF) -> None:
        super()._go_to(position)
        if self.is_inside(position):
            self._selection.select(self._pointed_at(position)[1])

    def _words_at(self, position: QPointF) -> str:
        shown, other = self._exploration.shown, self._comparison.other
        if shown is None:
            return ""
        if not self.is_inside(position):
            above = position.y() < self.getPlotItem().vb.sceneBoundingRect().top()
            return "\n".join(entry.words for entry in self.legend_entries()) if above else ""
        step, column = self._cell_at(position)
        words = cell_words(shown, self._title, step, column)
        if other is None:
            return words
        stage = int(shown.matrices.stage_of_step[step])
        return "\n".join([words, *compared_words(shown, other, self._title, stage, column)])
