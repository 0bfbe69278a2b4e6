"""The memory budget: a big figure, and the frontier whose horizontal axis is the slider's track."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QVBoxLayout

from app.models.exploration import Exploration
from app.presenters.wording import memory_change, time_change
from app.theme import Theme
from app.views.curve_view import unit_for
from app.views.panel import Panel, label
from checkmate.units import format_bytes, parse_budget

DEBOUNCE_MS = 300


class BudgetPanel(Panel):
    """Dragging previews the best known schedule at once; ``solve_wanted`` comes 300 ms after the last move, or on release."""

    solve_wanted = Signal()

    def __init__(self, exploration: Exploration, theme: Theme) -> None:
        super().__init__("Memory budget")
        self._exploration, self._theme = exploration, theme
        self._size = 1
        self._moving = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DEBOUNCE_MS)
        self._timer.timeout.connect(self.solve_wanted)
        row = QHBoxLayout()
        self._figure = label("–", name="big")
        self._change = label("", muted=False)
        self._change.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._figure)
        row.addStretch(1)
        row.addWidget(self._change)
        self.body.addLayout(row)
        self._plot = _FrontierPlot(theme)
        self._plot.handle.sigDragged.connect(self._on_dragged)
        self._plot.handle.sigPositionChangeFinished.connect(self._on_released)
        self.body.addWidget(self._plot, 1)
        entry = QHBoxLayout()
        self._entry = QLineEdit()
        self._entry.setPlaceholderText("exact budget: 6.5GiB, 60% or min")
        self._entry.setAccessibleName("Exact budget")
        self._entry.returnPressed.connect(self._on_entered)
        entry.addWidget(self._entry)
        self.body.addLayout(entry)
        foot = QVBoxLayout()
        self._ends = label("", muted=True, wrap=True)
        foot.addWidget(self._ends)
        self.body.addLayout(foot)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        exploration.graph_changed.connect(self._on_known)
        exploration.known_changed.connect(self._on_known)
        exploration.budget_changed.connect(self._on_budget)
        exploration.shown_changed.connect(self._on_budget)
        exploration.solve_changed.connect(self._on_known)

    def choose(self, budget_bytes: int) -> None:
        """Move the slider as a user would, and ask for a solve after the usual pause."""
        self._exploration.set_budget(max(0, budget_bytes))
        self._timer.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        plain = self._exploration.plain
        if plain is None:
            return
        stride = plain.peak_bytes * (0.1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 0.01)
        budget = self._exploration.budget_bytes
        moves = {
            Qt.Key.Key_Left: budget - stride,
            Qt.Key.Key_Right: budget + stride,
            Qt.Key.Key_Home: self._exploration.least_bytes,
            Qt.Key.Key_End: plain.peak_bytes,
        }
        if event.key() in moves:
            self.choose(int(moves[Qt.Key(event.key())]))
        else:
            super().keyPressEvent(event)

    def _on_dragged(self, handle: pg.InfiniteLine) -> None:
        self._moving = True
        self.choose(int(handle.value() * self._size))
        self._moving = False

    def _on_released(self, handle: pg.InfiniteLine) -> None:
        self._timer.stop()
        self.solve_wanted.emit()

    def _on_entered(self) -> None:
        plain = self._exploration.plain
        if plain is None:
            return
        try:
            budget = parse_budget(self._entry.text())
        except ValueError as error:
            self._ends.setText(str(error))
            return
        self.choose(budget.resolve(keep_everything_peak=plain.peak_bytes, minimum=self._exploration.least_bytes))

    def _on_known(self) -> None:
        exploration = self._exploration
        if exploration.plain is None:
            return
        _, self._size = unit_for(exploration.plain.peak_bytes)
        self._plot.show_frontier(exploration, self._size)
        floor = exploration.range.get("bound_bytes")
        least = f"least reached {format_bytes(exploration.least_bytes)}"
        if floor is not None:
            least += (
                " (proved least)" if floor >= exploration.least_bytes else f", at least {format_bytes(floor)} needed"
            )
        self._ends.setText(f"{least} · keep everything {format_bytes(exploration.plain.peak_bytes)}")
        self._on_budget()

    def _on_budget(self) -> None:
        exploration = self._exploration
        if exploration.plain is None or exploration.shown is None:
            return
        self._figure.setText(format_bytes(exploration.budget_bytes))
        shown = exploration.shown
        fits = shown.peak_bytes <= exploration.budget_bytes
        if fits:
            change = memory_change(shown.peak_bytes, exploration.plain.peak_bytes)
            self._change.setText(f"<b>{change}</b><br>{time_change(shown.overhead)}")
        else:
            self._change.setText("no schedule known<br>for so little")
        self.note.setText("predicted, requested bytes")
        if not self._moving:
            self._plot.handle.setValue(exploration.budget_bytes / self._size)
        self._plot.mark(exploration.budget_bytes / self._size, shown.overhead if fits else None)


class _FrontierPlot(pg.PlotWidget):
    """Overhead against budget: the known schedules as steps, the bound below them, the handle to drag."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(background=theme.color("panel"))
        self.setAccessibleName("Frontier: step cost against memory budget")
        self.setMenuEnabled(False)
        self.hideButtons()
        self.setMinimumHeight(150)
        item = self.getPlotItem()
        item.setMouseEnabled(x=False, y=False)
        for side in ("left", "bottom"):
            axis = item.getAxis(side)
            axis.setPen(theme.color("border"))
            axis.setTextPen(theme.color("muted"))
        item.showGrid(y=True, alpha=0.12)
        self._line = pg.PlotDataItem(
            pen=pg.mkPen(theme.color("accent"), width=2), symbol="o", symbolSize=6,
            symbolBrush=theme.color("panel"), symbolPen=pg.mkPen(theme.color("accent"), width=1.5),
        )  # fmt: skip
        self._bounds = pg.PlotDataItem(
            pen=None, symbol="t1", symbolSize=7, symbolBrush=theme.color("muted"), symbolPen=None
        )
        self._hatch = pg.LinearRegionItem(
            movable=False, brush=pg.mkBrush(theme.color("freed", 60)), pen=pg.mkPen(theme.color("freed"))
        )
        self._hatch.setVisible(False)
        self._hatch_text = pg.TextItem("infeasible", color=theme.color("muted"), anchor=(0, 0.5), angle=90)
        self._hatch_text.setVisible(False)
        self.handle = pg.InfiniteLine(
            angle=90, movable=True, pen=pg.mkPen(theme.color("accent"), width=2),
            hoverPen=pg.mkPen(theme.color("accent"), width=5),
        )  # fmt: skip
        self._dot = pg.ScatterPlotItem(
            size=15, brush=theme.color("accent"), pen=pg.mkPen(theme.color("panel"), width=2)
        )
        for entry in (self._hatch, self._hatch_text, self._bounds, self._line, self._dot, self.handle):
            self.addItem(entry)
        self._theme = theme

    def show_frontier(self, exploration: Exploration, size: int) -> None:
        """Draw everything known, in units of ``size`` bytes."""
        assert exploration.plain is not None
        known = exploration.known
        peaks = np.array([found.peak_bytes for found in known]) / size
        costs = np.array([1 + found.overhead for found in known])
        self._line.setData(peaks, costs)
        proved = [
            f for f in known if f.lower_bound is not None and f.graph.base_cost > 0 and f is not exploration.plain
        ]
        self._bounds.setData(
            [f.budget_bytes / size for f in proved],
            [f.lower_bound / f.graph.base_cost for f in proved if f.lower_bound],
        )
        top = exploration.plain.peak_bytes / size
        floor = exploration.range.get("bound_bytes", 0) / size
        left = float(max(0.0, min(floor * 0.9, top * 0.9)) if floor else min(peaks) * 0.9)
        self.setXRange(left, top * 1.04, padding=0)
        highest = max(1.05, float(costs.max()))
        self.setYRange(1 - 0.06 * (highest - 1), 1 + 1.15 * (highest - 1), padding=0)
        self.handle.setBounds((left, top * 1.04))
        self._hatch.setVisible(floor > left)
        self._hatch_text.setVisible(floor - left > 0.06 * (top - left))
        if floor > left:
            self._hatch.setRegion((left, floor))
            self._hatch_text.setPos(left + 0.25 * (floor - left), 1 + 0.2 * (highest - 1))
        self.setLabel("left", "step cost ×", color=self._theme.muted)
        self.setLabel("bottom", unit_for(exploration.plain.peak_bytes)[0], color=self._theme.muted)

    def mark(self, budget: float, overhead: float | None) -> None:
        """The dot on the handle: the schedule on screen."""
        self._dot.setData([] if overhead is None else [budget], [] if overhead is None else [1 + overhead])
