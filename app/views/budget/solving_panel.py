"""How the solve for this budget stands, with buttons for it.

The buttons stop the solve or let it go on. The panel shows the status, the gap, and the best and the bound
over time.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable

import pyqtgraph as pg
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from app.actions import action
from app.models.exploration import Exploration
from app.presenters.scale import nice_ticks
from app.presenters.wording import constraints_text, least_text, status_text, strong
from app.state.solve import Solve
from app.theme import Theme
from app.views.common.command_button import command_button
from app.views.common.panel import Panel, label
from app.views.common.screen_pens import ScreenPens
from checkmate.axis import byte_unit
from checkmate.machine.cost_origin import cost_text
from checkmate.units import format_bytes, format_overhead

_LONGEST = 170  # characters; the rest is in a tooltip


class SolvingPanel(Panel):
    """Shows the solve, and why nothing fits if so.

    Signals: ``stop_wanted``: accept the best so far; ``more_wanted``: solve longer; ``minimum_wanted``: use
        the least budget that is feasible; ``op_wanted(op)``: show the op that needs too much;
        ``clear_wanted``: drop the constraints.
    """

    _LEAST = 120
    stop_wanted = Signal()
    more_wanted = Signal()
    minimum_wanted = Signal()
    op_wanted = Signal(int)
    clear_wanted = Signal()

    def __init__(self, exploration: Exploration, theme: Theme) -> None:
        super().__init__("Solving")
        self._exploration = exploration
        self._status = label("Move the budget to solve.", wrap=True)
        self._details = label("", muted=True, wrap=True)
        self.body.addWidget(self._status)
        self.body.addWidget(self._under_row())
        self.body.addWidget(self._make_plot(theme), 9)  # it takes the free space, before the empty end does
        self.body.addWidget(self._details)
        self.body.addLayout(self._button_row())
        self.body.addStretch(1)  # keeps the texts together at the top
        self._clock = QTimer(self)
        self._clock.setInterval(250)
        self._clock.timeout.connect(self._on_solve)
        exploration.solve_changed.connect(self._on_solve)
        exploration.graph_changed.connect(self._on_solve)
        exploration.passing_changed.connect(self._on_solve)
        for signal in (exploration.constraints_changed, exploration.known_changed, exploration.shown_changed):
            signal.connect(self._on_constraints)
        self._on_solve()
        self._on_constraints()

    def _make_plot(self, theme: Theme) -> pg.PlotWidget:
        """Make the plot of the best and the bound over time."""
        self._plot = pg.PlotWidget(background=theme.color("panel"))
        self._plot.setMenuEnabled(False)
        self._plot.hideButtons()
        self._plot.setMinimumHeight(66)
        self._plot.setMaximumHeight(120)
        self._plot.getPlotItem().layout.setContentsMargins(0, 7, 8, 0)
        self._plot.getPlotItem().setMouseEnabled(x=False, y=False)
        for side in ("left", "bottom"):
            axis = self._plot.getPlotItem().getAxis(side)
            axis.setPen(theme.color("border"))
            axis.setTextPen(theme.color("muted"))
        self._plot.getPlotItem().getAxis("left").setWidth(48)
        self._plot.setAccessibleName("Best cost and bound over time")
        self._best, self._bound = self._plot.plot(), self._plot.plot()
        pens = ScreenPens(self._plot)
        pens.set(self._best, pg.mkPen(theme.color("accent"), width=2))
        pens.set(self._bound, pg.mkPen(theme.color("muted"), width=1.5, style=Qt.PenStyle.DashLine))
        return self._plot

    def _button_row(self) -> QHBoxLayout:
        """Make the buttons that stop the solve or let it go on."""
        row = QHBoxLayout()
        self._stop = QPushButton("Stop here")
        self._more = QPushButton("Solve longer")
        self._minimum = QPushButton("Find the least")
        self._stop.setToolTip(action("solve.stop").tip_with_key)
        self._more.setToolTip(action("solve.longer").tip_with_key)
        self._minimum.setToolTip(action("solve.least").tip_with_key)
        self._tightest = QPushButton("Show the op")
        self._tightest.setToolTip("The op that needs more than the budget by itself")
        for button, signal in (
            (self._stop, self.stop_wanted),
            (self._more, self.more_wanted),
            (self._minimum, self.minimum_wanted),
            (self._tightest, self._on_tightest),
        ):
            button.clicked.connect(signal)
            row.addWidget(button)
        row.addStretch(1)
        return row

    def _under_row(self) -> QWidget:
        self.under = QWidget()
        row = QHBoxLayout(self.under)
        row.setContentsMargins(0, 0, 0, 0)
        self._under_text = label("", muted=True, wrap=True)
        self.clear = command_button("edit.clear", self.clear_wanted.emit, "Clear")
        self.clear.setObjectName("small")
        row.addWidget(self._under_text, 1)
        row.addWidget(self.clear)
        return self.under

    def _on_constraints(self) -> None:
        """Say how many constraints there are, and what they cost here."""
        exploration = self._exploration
        said, other = exploration.constraints.assumptions, exploration.unconstrained
        self.under.setVisible(bool(said))
        self._fit()
        if said and other is not None:
            here, there = (which.best_for(exploration.budget_bytes) for which in (exploration, other))
            cost, without = (None if found is None else found.cost for found in (here, there))
            self._under_text.setText(constraints_text(len(said), cost, without))
            self._under_text.setToolTip("\n".join(["Compared with the best known without them:", *said]))

    def _on_solve(self) -> None:
        solve, graph = self._exploration.solve, self._exploration.graph
        running = solve is not None and solve.running
        self._stop.setVisible(running)
        self._more.setVisible(solve is not None and solve.status in ("feasible", "limit"))
        self._minimum.setVisible(solve is not None and solve.status == "infeasible")
        self._tightest.setVisible(_tightest_op(solve) is not None)
        self._plot.setVisible(solve is not None and bool(solve.best))
        if solve is None or graph is None:
            self._clock.stop()
            status, details = _before_a_solve(graph is not None, self._exploration.passing)
            self._status.setText(status)
            self._details.setText(self._exploration.preparing or details)
            self.note.setText("")
            self._fit()
            return
        if running != self._clock.isActive():
            self._clock.start() if running else self._clock.stop()
        elapsed = solve.seconds if solve.seconds is not None else time.monotonic() - solve.started
        self.note.setText(f"{elapsed:.1f} s")
        self._status.setText(_headline(solve))
        details = self._explain()
        if running and self._exploration.preparing:
            details = f"{self._exploration.preparing}. {details[:1].upper()}{details[1:]}"
        details = details[:1].upper() + details[1:] if solve.status == "infeasible" else details
        self._details.setText(details if len(details) <= _LONGEST else f"{details[:_LONGEST]}…")
        self._details.setToolTip(details if len(details) > _LONGEST else "")
        self._draw(elapsed)
        self._fit()

    def _on_tightest(self) -> None:
        op = _tightest_op(self._exploration.solve)
        if op is not None:
            self.op_wanted.emit(op)

    def _fit(self) -> None:
        """Ask for the height that the wrapped texts need at this width.

        Then nothing is covered.
        """
        needed = self.body.totalMinimumHeightForWidth(self.width()) if self.body.hasHeightForWidth() else 0
        self.setMinimumHeight(max(self._LEAST, needed))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _explain(self) -> str:
        solve, graph = self._exploration.solve, self._exploration.graph
        assert solve is not None and graph is not None
        if solve.status == "infeasible":
            return (
                solve.message
                if solve.what_if.constraints.is_empty
                else f"Under these constraints: {solve.message}"
            )
        if solve.status == "limit":
            return "Give it more time, or a larger budget. The last good schedule stays on screen."
        if not solve.best:
            return solve.message
        if solve.aim is not None:
            return _explain_least(solve)
        best = solve.best[-1][1]
        text = f"best {cost_text(graph, best)} ({format_overhead(best, graph.base_cost)})"
        if solve.lower_bound is not None:
            text += f" · none below {format_overhead(min(solve.lower_bound, best), graph.base_cost)}"
        text += f" (assuming {', '.join(solve.assumptions)})" if solve.assumptions else ""
        return text.replace(" %", "\u00a0%")

    def _draw(self, elapsed: float) -> None:
        solve, graph = self._exploration.solve, self._exploration.graph
        assert solve is not None and graph is not None
        height = (
            _extra(graph.base_cost or 1.0)
            if solve.aim is None
            else _in_unit(solve.best[0][1] if solve.best else 1)
        )
        for curve, points in ((self._best, solve.best), (self._bound, solve.bounds)):
            if points:
                # Each figure holds until the next one: steps, not slopes.
                times = [*(t for t, _ in points for _ in range(2)), max(elapsed, points[-1][0])][1:]
                curve.setData(times, [height(value) for _, value in points for _ in range(2)])
            else:
                curve.setData([], [])
        self._plot.setXRange(0, max(elapsed, 0.1), padding=0)
        heights = [height(value) for _, value in (*solve.best, *solve.bounds)]
        if heights:
            low, high = min(heights), max(heights)
            room = max(0.08 * (high - low), 1e-4 * abs(high), 0.05 if solve.aim is None else 1e-6)
            self._plot.setYRange(low - room, high + room, padding=0)
            ticks = [
                (tick, f"{tick:.6g}{' %' if solve.aim is None else ''}")
                for tick in nice_ticks(low - room, high + room, 2)
            ]
            self._plot.getPlotItem().getAxis("left").setTicks([ticks])


def _tightest_op(solve: Solve | None) -> int | None:
    """Return the op that alone proves that nothing fits, if there is one."""
    return None if solve is None or solve.status != "infeasible" else solve.tightest_op


def _extra(base: float) -> Callable[[float], float]:
    """Return a function from a cost to its percent over ``base``.

    ``base`` is the cost of computing everything once.
    """
    return lambda cost: 100 * (cost / base - 1)


def _in_unit(least: float) -> Callable[[float], float]:
    """Return a function that converts bytes to a unit.

    It is the unit that ``least`` bytes read best in.
    """
    size = byte_unit(least)[1]
    return lambda count: count / size


def _before_a_solve(opened: bool, passing: bool) -> tuple[str, str]:
    """Return what to do, or what the solve waits for, and why."""
    if passing:
        return "Solving waits for measured costs.", "A solve now would disturb the measurement."
    return ("Move the budget to solve." if opened else "Nothing to solve yet."), ""


def _headline(solve: Solve) -> str:
    """Say what was asked, and how the solve stands."""
    if solve.aim is None:
        status = html.escape(status_text(solve.status, solve.gap, solve.message))
        return f"{strong(format_bytes(solve.budget_bytes))}: {status}"
    best = solve.best[-1][1] if solve.best else None
    text = least_text(solve.status, best, solve.gap, solve.message)
    return f"{strong(f'Least memory {solve.aim.words}')}: {html.escape(text)}"


def _explain_least(solve: Solve) -> str:
    """Say what is proved, and how much was tried."""
    at = " at this cost" if solve.aim is not None and solve.aim.limited else ""
    proved = solve.lower_bound is not None and solve.lower_bound >= solve.best[-1][1]
    text = "no schedule needs less" if proved else f"none below {format_bytes(solve.lower_bound or 0)}"
    return text + at + (f" · {solve.probes} budgets tried" if solve.probes else "")
