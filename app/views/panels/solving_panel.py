from __future__ import annotations

import time
from collections.abc import Sequence

import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.actions import action
from app.models.exploration import Exploration
from app.presenters.axes import nice_ticks
from app.presenters.solve_text import SolveWords, before_a_solve, of_solve, on_screen, unsolved
from app.presenters.view_tables import ViewTable, solve_table
from app.presenters.wording import constraints_text
from app.state.solve import WITHOUT, Solve
from app.theme import CurrentTheme
from app.views.common.panel import Panel
from app.views.common.plot_style import ScreenPens, color_plot
from app.views.common.widgets import NO_EDGES, command_button, fill, in_row, label, push_button
from app.workers.background import every, on
from checkmate.units import byte_unit, format_bytes

_LEAST, _LEAST_PLOT = 60, 66  # pixels of height, of the panel and of its plot


class SolvingPanel(Panel):
    """Shows the solve, and why nothing fits if so. Its buttons are connected by who owns it. Signals:
    ``op_wanted(op)``: show the op that needs too much; ``budget_wanted(bytes)``: take this budget;
    ``room_wanted(pixels)``: it needs to be higher."""

    op_wanted = Signal(int)
    budget_wanted = Signal(object)
    room_wanted = Signal(int)

    def __init__(self, exploration: Exploration, theme: CurrentTheme) -> None:
        super().__init__("Solving")
        self._exploration, self._theme = exploration, theme
        self._status = label("Move the budget to solve.", wrap=True)
        self._details = label("", muted=True, wrap=True)
        self._details.setTextFormat(Qt.TextFormat.PlainText)  # it names ops, such as <lambda>
        self._on_screen = label("", name="standing", wrap=True)
        fill(self.body, self._status, self._under_row(), self._details, self._on_screen, self._button_rows())
        # The plot comes last: in a low window, the words and buttons stay visible.
        fill(self.body, (self._make_plot(), 9), None)
        self._plotted: tuple[Solve, int, int, float | None] | None = None  # what the plot shows
        self._clock = every(self, 250, self._on_clock)
        on(self._on_solve, exploration.solve_changed, exploration.graph_changed, exploration.passing_changed)
        on(self._on_solve, exploration.budget_changed, exploration.known_changed)
        exploration.standing_changed.connect(self._on_solve)
        on(self._on_constraints, exploration.constraints_changed, exploration.known_changed)
        exploration.shown_changed.connect(self._on_constraints)
        self._on_solve()
        self._on_constraints()

    def view_table(self) -> ViewTable | None:
        solve = self._exploration.solve
        return None if solve is None else solve_table(solve)

    def _make_plot(self) -> pg.PlotWidget:
        self._plot = pg.PlotWidget(axisItems={"bottom": _SecondsAxis("bottom")}, enableMenu=False)
        self._plot.hideButtons()
        # It requests no height; it is hidden if the texts leave too little.
        self._plot.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self._plot.setMaximumHeight(120)
        self._plot.getPlotItem().layout.setContentsMargins(0, 7, 8, 0)
        self._plot.getPlotItem().setMouseEnabled(x=False, y=False)
        self._plot.getPlotItem().getAxis("left").setWidth(58)
        self._plot.setAccessibleName("Best cost and bound over time")
        self._best, self._bound = self._plot.plot(), self._plot.plot()
        self._pens = ScreenPens(self._plot)
        self._theme.changed.connect(self._color)
        self._color()
        return self._plot

    def _color(self) -> None:
        theme = self._theme
        color_plot(self._plot, theme)
        self._pens.set(self._best, pg.mkPen(theme.color("accent"), width=2))
        self._pens.set(self._bound, pg.mkPen(theme.color("muted"), width=1.5, style=Qt.PenStyle.DashLine))

    def _button_rows(self) -> ButtonRows:
        self.stop, self.more = QPushButton("Stop here"), QPushButton("Solve longer")
        self.show_best, self.minimum = QPushButton("Show the best that fits"), QPushButton("Find the least")
        self.stop.setToolTip(action("solve.stop").tip_with_key)
        self.more.setToolTip(action("solve.longer").tip_with_key)
        self.show_best.setToolTip("Show the cheapest schedule that is known to fit the budget")
        self.minimum.setToolTip(action("solve.least").tip_with_key)
        tip = "Set the budget to what the schedule on screen needs"
        self._use = push_button("Use this budget", self._on_use, tip=tip)
        tip = "Show what this op needs, value by value"
        self._tightest = push_button("Show the op", self._on_tightest, tip=tip)
        buttons = self.stop, self.more, self.show_best, self._use, self.minimum, self._tightest
        for one in buttons:
            one.setParent(self)
        self._buttons = ButtonRows(buttons)
        return self._buttons

    def _under_row(self) -> QWidget:
        self.under = QWidget()
        self._under_text = label("", muted=True, wrap=True)
        self.clear = command_button("edit.clear", text="Clear")
        self.clear.setObjectName("small")
        self.under.setLayout(in_row((self._under_text, 1), self.clear, edges=NO_EDGES))
        return self.under

    def _on_constraints(self) -> None:
        exploration = self._exploration
        said, other = exploration.constraints.assumptions, exploration.unconstrained
        self.under.setVisible(bool(said))
        self._fit()
        if said and other is not None:
            here, there = (which.best_for(exploration.budget_bytes) for which in (exploration, other))
            cost, without = (None if found is None else found.cost for found in (here, there))
            self._under_text.setText(constraints_text(len(said), cost, without))
            self._under_text.setToolTip("\n".join(["Compared with the best known without them:", *said]))

    def _on_clock(self) -> None:
        self._plotted = None
        self._on_solve()

    def _on_solve(self) -> None:
        exploration = self._exploration
        solve, graph = self._asked(), exploration.graph
        running = solve is not None and solve.running
        if running != self._clock.isActive():
            self._clock.start() if running else self._clock.stop()
        words = self._words(solve)
        self._status.setText(words.headline)
        self._status.setToolTip(words.tip)
        self._details.setText(words.details)
        self._details.setVisible(bool(words.details))
        self._show_plot()
        self.note.setText("")
        if solve is None or graph is None:
            self._plotted = None
            for curve in (self._best, self._bound):
                curve.setData([], [])
            self._plot.getPlotItem().getAxis("left").setTicks([])
        else:
            elapsed = solve.seconds if solve.seconds is not None else time.monotonic() - solve.started
            self.note.setText(f"{elapsed:.1f} s")
            # Each move of the slider sends several signals, and drawing takes milliseconds: draw news only.
            news = solve, len(solve.best), len(solve.bounds), solve.seconds
            if news != self._plotted:
                self._plotted = news
                self._draw(solve, elapsed)
        self._offer(solve)
        self._fit()

    def _show_plot(self) -> None:
        """Show the plot if the texts leave room. The plot of the previous budget's solve stays visible until
        there is a new one, so that nothing moves while the slider does."""
        roomy = self.height() >= self._words_height() + _LEAST_PLOT + self.body.spacing()
        self._plot.setVisible(
            roomy and self._exploration.graph is not None and self._was_plotted(self._asked())
        )

    def _words_height(self) -> int:
        """Return the height that all but the plot needs, in pixels."""
        return self.body.totalMinimumHeightForWidth(self.width()) if self.body.hasHeightForWidth() else 0

    def _asked(self) -> Solve | None:
        solve = self._exploration.solve
        return solve if solve is not None and solve.asked == self._exploration.asked else None

    def _was_plotted(self, solve: Solve | None) -> bool:
        # A solve that has just begun may know no schedule yet; the plot of the one before stays.
        of = solve or self._exploration.solve
        if of is None or of.status == "infeasible":
            return False
        return bool(of.best) or (of.running and not self._plot.isHidden())

    def _words(self, solve: Solve | None) -> SolveWords:
        exploration = self._exploration
        graph, standing = exploration.graph, exploration.standing
        if graph is not None and solve is not None and standing is not None:
            return of_solve(graph, solve, standing, exploration.preparing)
        untouched = exploration.asked == exploration.opened_at and exploration.solve is None
        frontier = exploration.frontier
        if graph is None or standing is None or frontier is None or untouched or exploration.passing:
            return before_a_solve(
                opened=graph is not None, passing=exploration.passing, preparing=exploration.preparing
            )
        return unsolved(graph, standing, frontier.bound(standing.budget_bytes), exploration.preparing)

    def _offer(self, solve: Solve | None) -> None:
        standing = self._exploration.standing
        said = "" if standing is None else on_screen(standing)
        self._on_screen.setText(said)
        self._on_screen.setVisible(bool(said))
        chosen = standing is not None and standing.replaceable
        without = standing is not None and standing.fit in WITHOUT
        if standing is not None:
            self._use.setText(f"Use {format_bytes(standing.shown.peak_bytes)}")
        self.stop.setVisible(solve is not None and solve.running)
        self.more.setVisible(solve is not None and solve.status in ("feasible", "limit", "cancelled"))
        self.show_best.setVisible(chosen and standing is not None and standing.best is not None)
        self._use.setVisible(chosen or without)
        self.minimum.setVisible(without and not self._exploration.passing)
        self._tightest.setVisible(_tightest_op(solve) is not None)
        self._buttons.place(self.width() - self.body.contentsMargins().left() * 2)

    def _on_use(self) -> None:
        standing = self._exploration.standing
        if standing is not None:
            self.budget_wanted.emit(standing.shown.peak_bytes)

    def _on_tightest(self) -> None:
        op = _tightest_op(self._asked())
        if op is not None:
            self.op_wanted.emit(op)

    def _fit(self) -> None:
        needed = max(_LEAST, self._words_height())
        if needed > self.height():
            self.room_wanted.emit(needed)
        self.setMinimumHeight(needed)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._offer(self._asked())
        self._fit()
        self._show_plot()

    def _draw(self, solve: Solve, elapsed: float) -> None:
        base, least = solve.what_if.graph.base_cost or 1.0, solve.best[0][1] if solve.best else 1
        name, size = byte_unit(least)
        unit, room = ("%", 0.05) if solve.aim is None else (name, 1e-6)

        def height(value: float) -> float:
            return 100 * (value / base - 1) if solve.aim is None else value / size

        for curve, points in ((self._best, solve.best), (self._bound, solve.bounds)):
            if points:
                # Each figure holds until the next one: steps, not slopes.
                times = [*(t for t, _ in points for _ in range(2)), max(elapsed, points[-1][0])][1:]
                curve.setData(times, [height(value) for _, value in points for _ in range(2)])
            else:
                curve.setData([], [])
        self._plot.setXRange(0, max(elapsed, 0.1), padding=0)
        heights = [height(value) for _, value in (*solve.best, *solve.bounds)]
        axis = self._plot.getPlotItem().getAxis("left")
        if not heights:
            axis.setTicks([])  # no figures of an earlier solve
            return
        low, high = min(heights), max(heights)
        room = max(0.08 * (high - low), 1e-4 * abs(high), room)
        low, high = low - room, high + room
        self._plot.setYRange(low, high, padding=0)
        ticks = nice_ticks(low, high, 2) or nice_ticks(low, high, 4)  # with two, none may be inside
        axis.setTicks([[(t, f"{t:.6g} {unit}") for t in ticks]])


def _tightest_op(solve: Solve | None) -> int | None:
    tightest = None if solve is None or solve.status != "infeasible" else solve.tightest
    return None if tightest is None or tightest.at_end else tightest.op


class _SecondsAxis(pg.AxisItem):  # type: ignore[misc]
    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        return [f"{text} s" for text in super().tickStrings(values, scale, spacing)]


class ButtonRows(QVBoxLayout):
    """Puts buttons side by side, and those that do not fit in further rows; hidden buttons are left out. Each
    button must have a parent already."""

    def __init__(self, buttons: Sequence[QPushButton]) -> None:
        super().__init__()
        self._buttons = tuple(buttons)
        self._rows: list[QHBoxLayout] = []
        self._places: list[list[QPushButton]] = []

    def place(self, width: int) -> None:
        places = self._in_rows(width)
        if places == self._places:
            return
        self._places = places
        for row in self._rows:
            while row.count():
                row.takeAt(0)
        while len(self._rows) < len(places):
            row = QHBoxLayout()
            self._rows.append(row)
            self.addLayout(row)
        for row, buttons in zip(self._rows, places, strict=False):
            for button in buttons:
                row.addWidget(button)
            row.addStretch(1)

    def _in_rows(self, width: int) -> list[list[QPushButton]]:
        rows: list[list[QPushButton]] = [[]]
        left = width
        for button in self._buttons:
            if button.isHidden():
                continue
            needed = button.sizeHint().width() + self.spacing()
            if rows[-1] and needed > left:
                rows.append([])
                left = width
            rows[-1].append(button)
            left -= needed
        return rows
