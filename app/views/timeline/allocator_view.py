from __future__ import annotations

import math

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent

from app.models.placements import Placing
from app.models.span import Scale
from app.presenters.axes import StepAxis
from app.presenters.bands import NOTHING, ON_CPU, ORIGIN, Bands, Grouping, PlacedBlocks
from app.presenters.memory_curve import line_in_columns
from app.presenters.view_tables import ViewTable
from app.state.knowledge import ListedSchedule
from app.views.common.plot_style import color_text, name_axis
from app.views.common.view_models import ViewModels
from app.views.timeline.plot_legend import Entry
from app.views.timeline.pointed_plot import BandedPlot
from checkmate.memory.placement import Placement
from checkmate.units import byte_unit, format_bytes

_ABOVE = 1.04  # of the memory's top: the scale's
_MOST_COLUMNS = 2000
_WISH = "addresses"


class AllocatorView(BandedPlot):
    """Draws a block for each buffer, at its address while it lives. The gaps are free chunks. Lines are the
    bytes requested, those in chunks, and the top of the memory. Until a new schedule is placed, the old one's
    picture stays. Steps, keys and colours are the memory curve's."""

    def __init__(self, models: ViewModels, placing: Placing) -> None:
        super().__init__(models, Scale.ADDRESSES, blocks=True, note=ORIGIN)
        self._placing = placing
        self.placed: PlacedBlocks | None = None
        self._grouping, self._unit = Grouping.KIND, 1
        self.setAccessibleName("Addresses over the step")
        self.setAccessibleDescription(f"{ORIGIN}. {ON_CPU}")
        self.getPlotItem().hideAxis("top")
        self._lines = pg.PlotCurveItem(), pg.PlotCurveItem()
        placed = {"position": 0.02, "anchors": [(0, 0), (0, 0)]}
        self._top = pg.InfiniteLine(angle=0, label="top", labelOpts=placed)
        self._regions = pg.PlotCurveItem(connect="pairs")
        self._words = pg.TextItem(anchor=(0.5, 0.5))
        parts = (self.bands, self._regions, *self._lines, self._top, self._chosen, self._hover, self._words)
        for part in (*parts, self._case, self._line):
            self.addItem(part)
        self._color()
        placing.changed.connect(self._later.start)

    def _color(self) -> None:
        super()._color()
        theme, solid = self._theme, Qt.PenStyle.SolidLine
        color_text(self._words, theme, "muted", 230)
        color_text(self._top.label, theme, "text", 170)
        for drawn, role, width, style in (
            (self._lines[0], "text", 1.0, solid),
            (self._lines[1], "text", 1.0, Qt.PenStyle.DotLine),
            (self._top, "accent", 1.4, Qt.PenStyle.DashLine),
            (self._regions, "freed", 1.0, Qt.PenStyle.DotLine),
        ):
            self._pens.set(drawn, pg.mkPen(theme.color(role), width=width, style=style))

    def _draw(self) -> None:
        # Until this schedule is placed, the picture of the one before stays, though the axis is not its own.
        self._later.stop()
        found, axis = self._placing.found, self._span.axis
        if found is None:
            self.placed = None
            self.bands.clear()
        elif found[0] is self._exploration.shown and axis is not None and self.isVisible():
            self._set_placement(*found)
            self._draw_blocks(axis)
        for part in (*self._lines, self._top, self._regions, self._case, self._line):
            part.setVisible(self.placed is not None)
        words = self._status_text()
        self._words.setVisible(bool(words))
        self._words.setText(words)
        self._words.setPos(self.getPlotItem().vb.viewRect().center())
        self._on_chosen()
        self._on_step(self._playhead.step)
        self.legend.update()

    def _status_text(self) -> str:
        share, said = self._placing.share, list[str]()
        if share is not None or self._placing.problem:
            said.append(
                self._placing.problem if share is None else f"placing the buffers: {100 * share:.0f} %"
            )
        if self.placed is not None and self.answering is None:
            said.append("of the schedule before")
        return "\n".join(said)

    def _set_placement(self, shown: ListedSchedule, placement: Placement) -> None:
        grouping, before = self._span.grouping or Grouping.KIND, self.placed
        if before is None or before.placement is not placement or self._grouping is not grouping:
            bands = Bands.of(shown, grouping, None if before is None else before.bands)
            self.placed, self._grouping = PlacedBlocks.of(bands, placement), grouping

    def _draw_blocks(self, axis: StepAxis) -> None:
        placed = self.placed
        assert placed is not None
        place = placed.placement
        name, self._unit = byte_unit(max(1, place.top))
        name_axis(self, self._theme, "left", name)
        name_axis(self, self._theme, "bottom", axis.cost_word if axis.by_cost else "step")
        highest = _ABOVE * max(1, place.top)
        self._draw_bands(placed, axis, highest, self._unit)
        self._on_selection()
        self._draw_lines(axis, place)
        self.setXRange(*axis.place((self._span.begin, self._span.end)), padding=0)
        self._show_heights(highest / self._unit)

    def _draw_lines(self, axis: StepAxis, place: Placement) -> None:
        first, last = math.floor(self._span.begin), math.ceil(self._span.end)
        starts = axis.columns(first, last, _MOST_COLUMNS)
        edges = axis.edges[np.append(starts, last)]
        for line, figures in zip(self._lines, (place.requested, place.allocated), strict=True):
            heights = line_in_columns(figures.astype(np.float64), starts, last)
            line.setData(edges, heights / self._unit, stepMode="center")
        self._top.setPos(place.top / self._unit)
        self._top.label.setText(f"top {format_bytes(place.top)}")
        begins = np.repeat(np.array(place.regions[1:], np.float64) / self._unit, 2)
        self._regions.setData(np.tile([axis.edges[0], axis.edges[-1]], len(begins) // 2), begins)

    def legend_entries(self) -> list[Entry]:
        placed, theme = self.placed, self._theme
        if placed is None:
            return []
        place, text = placed.placement, theme.color("text")
        most = [format_bytes(int(figures.max(initial=0))) for figures in (place.requested, place.allocated)]
        lines = [
            Entry(f"requested ≤ {most[0]}", text, Qt.PenStyle.SolidLine),
            Entry(f"chunks ≤ {most[1]}", text, Qt.PenStyle.DotLine),
        ]
        return lines + self.bands.entries()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._placing.want(True, _WISH)
        self._later.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._placing.want(False, _WISH)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._ready:
            self.getPlotItem().layout.setRowFixedHeight(0, self.legend.fit(self.width()))
            self._later.start()  # its image has another size

    def _go_to(self, position: QPointF) -> None:
        if self.answering is not None:
            super()._go_to(position)

    @property
    def answering(self) -> PlacedBlocks | None:
        placed = self.placed
        return placed if placed is not None and placed.shown is self._exploration.shown else None

    def view_table(self) -> ViewTable | None:
        placed = self.answering
        return None if placed is None else placed.table()

    def _words_at(self, position: QPointF) -> str:
        placed = self.answering
        if placed is None:
            return ""
        if not self.is_inside(position):
            above = position.y() < self.getPlotItem().vb.sceneBoundingRect().top()
            said = [ORIGIN, ON_CPU, *(entry.words for entry in self.legend_entries())]
            return "\n".join(said) if above else ""
        owner, free = self.owner_at(position), placed.free_words(self.step_at(position))
        at = self._plot_place(position).y() * self._unit
        if owner == NOTHING and not 0 <= at < placed.placement.top:
            return free
        return f"{placed.words(owner)}\n\n{free}"
