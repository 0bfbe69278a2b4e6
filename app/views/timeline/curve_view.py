from __future__ import annotations

import math

import numpy as np
import pyqtgraph as pg
from numpy.typing import NDArray
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QResizeEvent

from app.models.placements import MemoryLines
from app.models.span import Scale
from app.presenters.axes import StepAxis
from app.presenters.bands import NOTHING, Bands, Grouping
from app.presenters.lines_across import LineKind, top_with
from app.presenters.matrix_image import aligned
from app.presenters.memory_curve import (
    KINDS,
    Stack,
    even_starts,
    in_columns,
    line_in_columns,
    memory_stack,
    tops_of,
)
from app.presenters.pointer_words import KIND_WORDS, step_words
from app.presenters.view_tables import ViewTable, steps_table
from app.presenters.wording import live_source
from app.state.knowledge import ListedSchedule
from app.theme import mixed
from app.views.common.plot_style import color_text, name_axis
from app.views.common.view_models import ViewModels
from app.views.timeline.plot_legend import HEIGHT, EdgeLines, Entry
from app.views.timeline.pointed_plot import BandedPlot
from app.workers.background import on
from checkmate.units import byte_unit, format_bytes

_ROLES = {"fixed": "fixed", "activations": "forward", "gradients": "backward", "workspace": "recomputed"}

_SHADE = 0.42  # of a kind's colour over the panel's
_COLUMNS_PER_PIXEL = 2  # of the curve: enough for saved pictures and dense screens
_MOST_COLUMNS = 2000
_STRIDE = 128  # pixels
_WORDS, _AXES, _MARGINS = 52, 46, 2  # pixels: two lines of words above a peak; axes; beside the legend
_LABEL = 0.2  # of the scale: the height of a line's label in a low plot
_ROOMY = 300  # pixels; in a narrower view the peak's op is only in the status bar


class CurveView(BandedPlot):
    """A stacked step curve, or bands; the pointer asks it about every step. A click moves the playhead, and
    selects the op of a band. Its colours come from the theme alone."""

    def __init__(self, models: ViewModels, lines: MemoryLines | None = None) -> None:
        self._columns, self._legend_height = 0, HEIGHT  # drawn so far
        super().__init__(models, Scale.LIVE)
        self._comparison, self._lines, self._size = models.comparison, lines, 1
        self.setAccessibleName("Memory over the step")
        self._stack: tuple[ListedSchedule, Stack] | None = None
        self._bands: tuple[Grouping, Bands] | None = None
        self._make_items()
        self._color()
        self._add_items()
        exploration = models.exploration
        on(self._draw, exploration.shown_changed, exploration.measured_changed, self._comparison.pinned)
        exploration.budget_changed.connect(self._on_budget)
        if lines is not None:
            lines.changed.connect(self._later.start)

    def _make_items(self) -> None:
        self._fills = [pg.PlotCurveItem(pen=None) for _ in KINDS]
        self._outline, self._plain = pg.PlotCurveItem(), pg.PlotCurveItem()
        self._measured = pg.PlotCurveItem()
        self._peak_text = pg.TextItem(anchor=(1.05, 1.15))
        self._marks = pg.PlotCurveItem(connect="pairs"), pg.PlotCurveItem(connect="pairs")
        self._ticks = pg.ScatterPlotItem(symbol="s", size=4, pen=None)
        self._peak = pg.ScatterPlotItem(symbol="o", size=11)
        placed = {"position": 0.98, "anchors": [(1, 1), (1, 1)]}
        self._budget = pg.InfiniteLine(angle=0, label="budget", labelOpts=placed)
        self.edge_lines = EdgeLines(self.getPlotItem(), self._theme, (self._peak_text, self._budget.label))

    def _color(self) -> None:
        super()._color()
        theme = self._theme
        for fill, kind in zip(self._fills, reversed(KINDS), strict=True):
            fill.setBrush(mixed(theme.now, _ROLES[kind], _SHADE))
        self._ticks.setBrush(theme.color("recomputed"))
        self._peak.setBrush(theme.color("panel"))
        color_text(self._peak_text, theme, "text", 230)
        color_text(self._budget.label, theme, "text", 170)
        for drawn, role, width, style in (
            (self._outline, "forward", 1.5, Qt.PenStyle.SolidLine),
            (self._measured, "text", 1.6, Qt.PenStyle.SolidLine),
            (self._peak, "text", 2.0, Qt.PenStyle.SolidLine),
            (self._budget, "text", 1.5, Qt.PenStyle.DashLine),
            (self._marks[0], "panel", 5.0, Qt.PenStyle.SolidLine),
            (self._marks[1], "accent", 2.0, Qt.PenStyle.SolidLine),
        ):
            self._pens.set(drawn, pg.mkPen(theme.color(role), width=width, style=style))
        self._draw()

    def _add_items(self) -> None:
        for entry in (
            *self._fills,
            self.bands,
            self._plain,
            self._outline,
            self._measured,
            *self._marks,
            self._ticks,
            self._budget,
            self._peak,
            self._peak_text,
            self._chosen,
            self._hover,
            self._case,
            self._line,
        ):
            self.addItem(entry)
        for depth, words in ((1, self._peak_text), (1, self._budget), (2, self._peak)):
            words.setZValue(depth)  # readable even if the playhead is on them

    def _draw(self) -> None:
        shown, plain, axis = self._exploration.shown, self._exploration.plain, self._span.axis
        if shown is None or plain is None or axis is None:
            return
        self._later.stop()
        lines = () if self._lines is None else self._lines.now
        self._columns = self._fitting_columns()
        first, last = math.floor(self._span.begin), math.ceil(self._span.end)
        starts = axis.columns(first, last, self._columns)
        name, self._size = byte_unit(plain.peak_bytes)
        self.edge_lines.show_lines(lines, self._size)
        self._fit_legend()
        stack = in_columns(self._stack_of(shown), starts, last)
        edges = axis.edges[np.append(starts, last)]
        self._draw_stack(edges, stack)
        self._draw_other(axis)
        self._draw_measured(starts, last, edges)
        top = self._top()
        self._show_bands(shown, axis, top)
        again = (edges[:-1] + edges[1:])[stack.recomputed] / 2
        self._ticks.setData(again, np.full(len(again), top * 0.012))
        self._draw_peak(axis, top)
        name_axis(self, self._theme, "left", name)
        self._name_steps(axis)
        self._place_budget()
        low, high = axis.place((self._span.begin, self._span.end))
        self.setXRange(low, high, padding=0)
        self._show_heights(top)
        self._on_budget()
        self._on_chosen()
        self._on_selection()
        self._on_step(self._playhead.step)
        self.legend.update()

    def _show_bands(self, shown: ListedSchedule, axis: StepAxis, top: float) -> None:
        grouping, before = self._span.grouping, self._bands
        for fill in self._fills:
            fill.setVisible(grouping is None)
        self.bands.setVisible(grouping is not None)
        if grouping is None:
            self.bands.clear()
            return
        if before is None or before[0] is not grouping or before[1].shown is not shown:
            before = self._bands = grouping, Bands.of(shown, grouping, None if before is None else before[1])
        self._draw_bands(before[1], axis, top * self._size, self._size)

    @property
    def answering(self) -> Bands | None:
        return None if self._bands is None or self._span.grouping is None else self._bands[1]

    def _stack_of(self, shown: ListedSchedule) -> Stack:
        if self._stack is None or self._stack[0] is not shown:
            self._stack = shown, memory_stack(shown.graph, shown.schedule, shown.timeline)
        return self._stack[1]

    def view_table(self) -> ViewTable | None:
        shown = self._exploration.shown
        return None if shown is None else steps_table(shown)

    def legend_entries(self) -> list[Entry]:
        """The most needed come first. Lines across the plot are named at its edge."""
        shown, theme = self._exploration.shown, self._theme
        if shown is None:
            return []
        layers = self._stack_of(shown).layers
        found = self.bands.entries() or [
            self._entry_of(kind)
            for kind, layer in zip(KINDS, layers, strict=True)
            if kind != "fixed" and layer.any()
        ]
        if self._exploration.measured_shown is not None:
            predicted, measured = theme.color("forward"), theme.color("text")
            solid, source = Qt.PenStyle.SolidLine, live_source(shown.graph)
            found[:0] = [Entry("predicted", predicted, solid), Entry(source, measured, solid)]
        other = self._comparison.other
        if other is not None:  # first: the plot has no room for words at a second peak
            words = f"B {format_bytes(other.peak_bytes)}"
            found.insert(0, Entry(words, theme.color("backward"), Qt.PenStyle.DotLine, width=2.0))
        elif shown is not self._exploration.plain:
            found.append(Entry("plain step", theme.color("freed"), Qt.PenStyle.DotLine))
        if self._span.grouping is None and layers[KINDS.index("fixed")].any():
            found.append(self._entry_of("fixed"))
        if shown.schedule.recomputations:
            found.append(Entry("recomputed", theme.color("recomputed")))
        return found

    def _entry_of(self, kind: str) -> Entry:
        role = _ROLES[kind]
        return Entry(KIND_WORDS[kind], mixed(self._theme.now, role, _SHADE), edge=self._theme.color(role))

    def _draw_stack(self, edges: NDArray[np.float64], stack: Stack) -> None:
        above = np.cumsum(stack.layers, axis=0)[::-1] / self._size
        # Each layer is drawn from zero up to its own top, the highest first.
        for fill, heights in zip(self._fills, above, strict=True):
            fill.setData(edges, heights, stepMode="center", fillLevel=0)
        self._outline.setData(edges, stack.total / self._size, stepMode="center")

    def _draw_other(self, axis: StepAxis) -> None:
        shown, plain, pinned = self._exploration.shown, self._exploration.plain, self._comparison.other
        assert shown is not None and plain is not None
        other = pinned or plain
        middles = aligned(other.schedule, shown.schedule) + 0.5
        begin, end = np.searchsorted(middles, (self._span.begin, self._span.end))
        first, last = max(0, int(begin) - 1), min(len(middles), int(end) + 1)
        live = other.timeline.live_bytes / self._size
        some = tops_of(live, first + even_starts(last - first, self._columns), last)
        self._plain.setData(axis.place(middles[some]), live[some])
        compared = pinned is not None
        role, width = ("backward", 2.0) if compared else ("freed", 1.2)
        self._pens.set(self._plain, pg.mkPen(self._theme.color(role), width=width, style=Qt.PenStyle.DotLine))

    def _draw_peak(self, axis: StepAxis, top: float) -> None:
        shown = self._exploration.shown
        assert shown is not None
        peak_step, timeline_peak = shown.timeline.peak_step, shown.timeline.peak_bytes
        seen = self._span.begin <= peak_step + 0.5 <= self._span.end
        self._peak.setVisible(seen)
        self._peak_text.setVisible(seen)
        place = float(axis.place(peak_step + 0.5))
        self._peak.setData([place], [shown.timeline.peak_bytes / self._size])
        op = shown.graph.ops[int(shown.schedule.steps[peak_step])]
        words = [f"peak {format_bytes(shown.timeline.peak_bytes)}", (op.group or op.name).rsplit("/", 1)[-1]]
        # Name the op alone if the peak's line says the bytes; else in a narrow view the bytes alone.
        named = any(line.kind is LineKind.REQUESTED for line in self.edge_lines.lines)
        self._peak_text.setText(" · ".join(words[named : 1 + (named or self.width() > _ROOMY)]))
        near = 0 <= self._exploration.budget_bytes - timeline_peak < 0.1 * top * self._size
        # The anchor moves with the peak, from the text's left end to its right end, so that the text stays in
        # the plot. It goes above the budget's label if both would overlap.
        low, high = axis.place((self._span.begin, self._span.end))
        left = min(1.0, max(0.0, (place - low) / (high - low))) if high > low else 0.5
        self._peak_text.setAnchor((left, 2.0 if near else 1.15))
        self._peak_text.setPos(place, shown.timeline.peak_bytes / self._size)

    def _draw_measured(self, starts: NDArray[np.int64], last: int, edges: NDArray[np.float64]) -> None:
        measured = self._exploration.measured_shown
        self._measured.setVisible(measured is not None)
        if measured is not None:
            live = np.asarray(measured.live_bytes, np.float64)
            heights = line_in_columns(live, starts, last) / self._size
            self._measured.setData(edges, heights, stepMode="center")

    def _place_budget(self) -> None:
        """Put the budget's label on the side away from the peak; below the budget's line if the peak is above
        it and there is room."""
        shown, budget = self._exploration.shown, self._exploration.budget_bytes
        assert shown is not None
        right = 2 * shown.timeline.peak_step < self._span.begin + self._span.end
        below = shown.peak_bytes > budget > _LABEL * self._top() * self._size
        anchor = (1.0 if right else 0.0, 0.0 if below else 1.0)
        self._budget.label.anchors = [anchor, anchor]
        self._budget.label.setPosition(0.98 if right else 0.02)

    def _top(self) -> float:
        """Return the top of the scale, in bytes, with room for the labels above the peak and the lines."""
        exploration = self._exploration
        shown, plain = exploration.shown, exploration.plain
        assert shown is not None and plain is not None
        other = self._comparison.other or plain
        height = max(2 * _WORDS, self.height() - _AXES - self._legend_height)
        least = shown.timeline.peak_bytes * max(1.2, height / (height - _WORDS))
        measured = exploration.measured_shown
        highest = max(
            1.12 * (max(measured.live_bytes, default=0) if measured is not None else 0),
            least,
            1.05 * plain.peak_bytes,
            1.12 * other.peak_bytes,
            1.12 * exploration.budget_bytes,
        )
        return float(top_with(self.edge_lines.lines, highest) / self._size)

    def _fitting_columns(self) -> int:
        # In strides, so that dragging a border does not draw everything again for every pixel.
        wide = -(-int(self.width()) // _STRIDE) * _STRIDE
        return min(_MOST_COLUMNS, _COLUMNS_PER_PIXEL * wide)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._columns:
            self._fit_legend()
        if self._columns not in (0, self._fitting_columns()):
            self._draw()
        elif self._columns:
            self._show_heights(self._top())
            self._on_selection()  # its marks are as high as the scale
            if self._span.grouping is not None:
                self._later.start()  # its image has another size

    def _fit_legend(self) -> None:
        fit = self.legend.fit_entries if self._span.grouping is None else self.legend.fit
        self._legend_height = fit(self.width() - _MARGINS)
        self.getPlotItem().layout.setRowFixedHeight(0, self._legend_height)

    def _on_budget(self) -> None:
        budget = self._exploration.budget_bytes
        self._budget.setPos(budget / self._size)
        if self._exploration.shown is not None:
            self._place_budget()
        self._budget.label.setText(f"budget {format_bytes(budget)}")

    def _on_selection(self, *_: object) -> None:
        super()._on_selection()
        shown, axis = self._exploration.shown, self._span.axis
        if shown is None or axis is None:
            return
        runs = np.flatnonzero(shown.schedule.steps == self._selection.op) + 0.5
        some = runs[(runs >= self._span.begin) & (runs <= self._span.end)]
        places = np.repeat(axis.place(some), 2)
        for line in self._marks:
            line.setData(places, np.tile([0.0, self._top()], len(some)))

    def _words_at(self, position: QPointF) -> str:
        shown, axis = self._exploration.shown, self._span.axis
        if shown is None or axis is None:
            return ""
        if not self.is_inside(position):
            above = position.y() < self.getPlotItem().vb.sceneBoundingRect().top() - HEIGHT
            said = [entry.words for entry in self.legend_entries()]
            said += [line.tip for line in self.edge_lines.lines]
            return "\n".join(said) if above else ""
        words = step_words(shown, axis, self._stack_of(shown), self.step_at(position))
        bands, band = self.answering, self.owner_at(position)
        return words if bands is None or band == NOTHING else f"{bands.words(band)}\n\n{words}"
