"""The views of an open graph, put together.

They are lists, graph, timeline, budget, solving, and inspector.
"""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QSplitter, QWidget

from app.models.comparison import Comparison
from app.models.cursors import Playhead, Selection
from app.models.session import Session
from app.models.undo import WhatIfs
from app.presenters.matrix_image import computed_image, held_image
from app.state.solve import LONGER_SECONDS
from app.theme import Theme
from app.views.budget.budget_panel import BudgetPanel
from app.views.budget.solving_panel import SolvingPanel
from app.views.common.command_button import command_button
from app.views.common.paint_turns import PaintTurns
from app.views.common.panel import Panel
from app.views.common.view_saver import ViewSaver
from app.views.graph.view import GraphView
from app.views.inspector.inspector import Inspector
from app.views.lists.layers_panel import LayersPanel
from app.views.lists.schedules_panel import SchedulesPanel
from app.views.playback.film_progress import FilmProgress
from app.views.playback.transport import Transport
from app.views.timeline.compare_bar import CompareBar
from app.views.timeline.curve_view import CurveView
from app.views.timeline.matrix_view import MatrixView
from app.views.window.copy_save_menus import add_copy_save_menus


class Explorer(QWidget):
    """Three columns with movable borders.

    Every view observes the models; nothing here holds state.
    """

    def __init__(
        self, session: Session, playhead: Playhead, selection: Selection, what_ifs: WhatIfs, theme: Theme
    ) -> None:
        super().__init__()
        self._what_ifs = what_ifs
        self._session, self._playhead, self._selection, self._theme = session, playhead, selection, theme
        exploration = session.exploration
        self.comparison = Comparison(exploration, self)
        self.budget = BudgetPanel(exploration, theme)
        self.solving = SolvingPanel(exploration, theme)
        self.layers = LayersPanel(exploration, selection, theme)
        self.inspector = Inspector(exploration, self.comparison, playhead, selection, theme, what_ifs)
        self.schedules = SchedulesPanel(exploration, self.comparison, theme)
        left = _column(self.layers, self.schedules, sizes=(430, 330))
        right = self._right_column()
        self.graph_panel, self.timeline_panel = self._graph_panel(), self._timeline_panel()
        middle = _column(self.graph_panel, self.timeline_panel, sizes=(470, 380))
        self.turns = PaintTurns(
            (
                self.budget,
                self.curve,
                self.solving,
                *self.matrices,
                self.graph_view,
                self.inspector,
                self.schedules,
                self.layers,
            ),
            self,
        )
        self.saver = ViewSaver(theme, self.turns.finish, self)
        self.film = FilmProgress(exploration, theme, self)
        add_copy_save_menus(self.saver, self, exploration)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addWidget(_side_by_side(left, middle, right))
        self._connect()

    def _connect(self) -> None:
        session, exploration = self._session, self._session.exploration
        self.saver.noticed.connect(session.noticed)
        self.saver.failed.connect(session.failed)
        self.film.noticed.connect(session.noticed)
        self.film.failed.connect(session.failed)
        self.budget.solve_wanted.connect(self._what_ifs.ask)
        self.solving.stop_wanted.connect(session.stop_solve)
        self.solving.more_wanted.connect(lambda: session.solve(LONGER_SECONDS))
        self.solving.clear_wanted.connect(self._what_ifs.clear)
        self.solving.minimum_wanted.connect(self.budget.aim_at_least)
        self.solving.op_wanted.connect(self._show_op)
        exploration.graph_changed.connect(self._on_graph)
        exploration.shown_changed.connect(self._on_shown)
        exploration.shown_changed.connect(self.turns.begin)

    def _right_column(self) -> QScrollArea:
        """Put the budget, the solve and the inspector into one column.

        A small window scrolls it instead of squeezing plots until they cover each other.
        """
        for panel, least in ((self.budget, 316), (self.inspector, 180)):
            panel.setMinimumHeight(least)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(_column(self.budget, self.solving, self.inspector, sizes=(384, 244, 277)))
        return area

    def _graph_panel(self) -> Panel:
        panel = Panel("Training graph")
        self.graph_view = GraphView(
            self._session.exploration, self._playhead, self._selection, self._what_ifs, self._theme
        )
        view = self.graph_view
        self._zoom = command_button("view.zoom_reset", view.zoom_reset, "100 %")
        for button in (
            command_button("view.zoom_out", view.zoom_out, "−"),
            self._zoom,
            command_button("view.zoom_in", view.zoom_in, "+"),
            command_button("view.fit", view.fit, "Fit"),
        ):
            button.setObjectName("small")
            panel.head.addWidget(button)
        self.graph_view.changed.connect(self._on_zoom)
        panel.body.addWidget(self.graph_view, 1)
        self._graph_note = panel.note
        return panel

    def _timeline_panel(self) -> Panel:
        panel = Panel("Timeline")
        exploration, comparison, playhead = self._session.exploration, self.comparison, self._playhead
        self.compare_bar = CompareBar(exploration, comparison, self._theme)
        panel.body.addWidget(self.compare_bar)
        row = QHBoxLayout()
        row.setSpacing(12)
        self.matrices = [
            MatrixView(title, what, image, exploration, comparison, playhead, self._selection, self._theme)
            for title, what, image in (
                ("R", "computed in stage", computed_image),
                ("S", "held into stage", held_image),
            )
        ]
        for matrix in self.matrices:
            row.addWidget(matrix, 4)
        self.curve = CurveView(exploration, comparison, playhead, self._theme)
        self.curve.setMinimumWidth(230)
        row.addWidget(self.curve, 7)
        panel.body.addLayout(row, 1)
        self.transport = Transport(exploration, self._playhead, self._theme)
        panel.body.addWidget(self.transport)
        self._timeline_note = panel.note
        return panel

    def _on_graph(self) -> None:
        self._on_zoom()

    def _show_op(self, op: int) -> None:
        """Select the op and go to the step where the schedule first runs it.

        The views then show what is live at that step.
        """
        shown = self._session.exploration.shown
        if shown is not None:
            self._selection.select(op)
            self._playhead.seek(int(np.flatnonzero(shown.schedule.steps == op)[0]))

    def _on_zoom(self) -> None:
        graph, layout = self._session.exploration.graph, self.graph_view.layout_shown
        if graph is not None and layout is not None:
            self._graph_note.setText(f"{graph.n} ops in {len(layout.boxes)} boxes")
            self._zoom.setText(f"{self.graph_view.zoom_percent} %")

    def _on_shown(self) -> None:
        shown = self._session.exploration.shown
        if shown is not None:
            steps, again = len(shown.schedule.steps), shown.schedule.recomputations
            again_words = f"{again} recomputation{'s' * (again != 1)}"
            self._timeline_note.setText(f"{shown.solver} · {steps} steps, {again_words}")


def _side_by_side(left: QWidget, middle: QWidget, right: QWidget) -> QSplitter:
    """Put three columns side by side; the middle one grows with the window."""
    splitter = QSplitter(Qt.Orientation.Horizontal)
    splitter.setHandleWidth(8)
    splitter.setChildrenCollapsible(False)
    for widget in (left, middle, right):
        splitter.addWidget(widget)
    left.setMinimumWidth(200)
    right.setMinimumWidth(300)
    splitter.setStretchFactor(1, 1)
    splitter.setSizes([298, 958, 344])
    return splitter


def _column(*widgets: QWidget, sizes: tuple[int, ...]) -> QSplitter:
    splitter = QSplitter(Qt.Orientation.Vertical)
    splitter.setHandleWidth(8)
    splitter.setChildrenCollapsible(False)
    for widget in widgets:
        splitter.addWidget(widget)
    splitter.setSizes(list(sizes))
    return splitter
