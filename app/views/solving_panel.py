"""How the solve for this budget stands: status, gap, best and bound over time; stop, or why nothing fits."""

from __future__ import annotations

import time

import pyqtgraph as pg
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton

from app.models.exploration import Exploration
from app.presenters.wording import cost_text, status_text
from app.theme import Theme
from app.views.panel import Panel, label
from checkmate.units import format_bytes


class SolvingPanel(Panel):
    """Signals: ``stop_wanted`` (accept the best so far), ``more_wanted`` (seconds), ``minimum_wanted`` (use what is feasible)."""

    stop_wanted = Signal()
    more_wanted = Signal()
    minimum_wanted = Signal()

    def __init__(self, exploration: Exploration, theme: Theme) -> None:
        super().__init__("Solving")
        self._exploration = exploration
        self._status = label("Move the budget to solve.", wrap=True)
        self._details = label("", muted=True, wrap=True)
        self.body.addWidget(self._status)
        self._plot = pg.PlotWidget(background=theme.color("panel"))
        self._plot.setMenuEnabled(False)
        self._plot.hideButtons()
        self._plot.setFixedHeight(92)
        self._plot.getPlotItem().setMouseEnabled(x=False, y=False)
        for side in ("left", "bottom"):
            axis = self._plot.getPlotItem().getAxis(side)
            axis.setPen(theme.color("border"))
            axis.setTextPen(theme.color("muted"))
        self._plot.getPlotItem().getAxis("left").setWidth(48)
        self._plot.setAccessibleName("Best cost and bound over time")
        self._best = self._plot.plot(pen=pg.mkPen(theme.color("accent"), width=2))
        self._bound = self._plot.plot(pen=pg.mkPen(theme.color("muted"), width=1.5, style=Qt.PenStyle.DashLine))
        self.body.addWidget(self._plot)
        self.body.addWidget(self._details)
        row = QHBoxLayout()
        self._stop = QPushButton("Stop here")
        self._more = QPushButton("Solve longer")
        self._minimum = QPushButton("Use the least that works")
        for button, signal in (
            (self._stop, self.stop_wanted), (self._more, self.more_wanted), (self._minimum, self.minimum_wanted),
        ):  # fmt: skip
            button.clicked.connect(signal)
            row.addWidget(button)
        row.addStretch(1)
        self.body.addLayout(row)
        self._clock = QTimer(self)
        self._clock.setInterval(250)
        self._clock.timeout.connect(self._on_solve)
        exploration.solve_changed.connect(self._on_solve)
        exploration.graph_changed.connect(self._on_solve)
        self._on_solve()

    def _on_solve(self) -> None:
        solve, graph = self._exploration.solve, self._exploration.graph
        running = solve is not None and solve.status == "solving"
        self._stop.setVisible(running)
        self._more.setVisible(solve is not None and solve.status in ("feasible", "limit"))
        self._minimum.setVisible(solve is not None and solve.status == "infeasible")
        self._plot.setVisible(solve is not None and bool(solve.costs))
        if solve is None or graph is None:
            self._clock.stop()
            self._status.setText("Move the budget to solve." if graph is not None else "Nothing to solve yet.")
            self._details.setText("")
            self.note.setText("")
            return
        if running != self._clock.isActive():
            self._clock.start() if running else self._clock.stop()
        elapsed = solve.seconds if solve.seconds is not None else time.monotonic() - solve.started
        self.note.setText(f"{elapsed:.1f} s")
        best = solve.costs[-1][1] if solve.costs else None
        gap = None if best is None or solve.lower_bound is None else max(0.0, (best - solve.lower_bound) / best)
        text = status_text(solve.status, gap, solve.message)
        self._status.setText(f"<b>{format_bytes(solve.budget_bytes)}</b>: {text}")
        self._details.setText(self._explain(gap))
        self._draw(elapsed)

    def _explain(self, gap: float | None) -> str:
        solve, graph = self._exploration.solve, self._exploration.graph
        assert solve is not None and graph is not None
        if solve.status == "infeasible":
            return solve.message
        if solve.status == "limit":
            return "Give it more time, or a larger budget. The last good schedule stays on screen."
        if not solve.costs:
            return solve.message
        text = f"best {cost_text(graph, solve.costs[-1][1])}"
        if solve.lower_bound is not None:
            text += f" · no schedule costs less than {cost_text(graph, solve.lower_bound)}"
        assumptions = solve.details.get("assumptions") or []
        return text + (f" (assuming {', '.join(assumptions)})" if assumptions else "")

    def _draw(self, elapsed: float) -> None:
        solve, graph = self._exploration.solve, self._exploration.graph
        assert solve is not None and graph is not None
        base = graph.base_cost or 1.0
        for curve, points in ((self._best, solve.costs), (self._bound, solve.bounds)):
            if points:
                extended = [*points, (max(elapsed, points[-1][0]), points[-1][1])]
                curve.setData([t for t, _ in extended], [c / base for _, c in extended])
            else:
                curve.setData([], [])
