"""The window: command bar, lists on the left, graph and timeline in the middle, budget and inspector on the right."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QMainWindow,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.models.cursors import Playhead, Selection
from app.models.session import Session
from app.presenters.matrix_image import computed_image, held_image
from app.presenters.wording import origin_text, playhead_text
from app.theme import Theme
from app.views.budget_panel import BudgetPanel
from app.views.curve_view import CurveView
from app.views.export_dialog import ExportDialog
from app.views.graph_view import GraphView
from app.views.inspector import Inspector
from app.views.lists import LayersPanel, SchedulesPanel
from app.views.matrix_view import MatrixView
from app.views.panel import Panel, label
from app.views.solving_panel import SolvingPanel
from app.views.start_page import StartPage
from app.views.transport import Transport
from checkmate.request import ModelRequest
from checkmate.units import format_bytes


class MainWindow(QMainWindow):
    """One exploration. Views observe the session's models; this class only puts them together and forwards commands."""

    def __init__(self, session: Session, theme: Theme, *, batch_size: int = 32) -> None:
        super().__init__()
        self.session, self._theme, self._batch_size = session, theme, batch_size
        self.playhead, self.selection = Playhead(self), Selection(self)
        self.setWindowTitle("Checkmate Explorer")
        self.setMinimumSize(1000, 640)
        self.setAcceptDrops(True)
        self._stack = QStackedWidget()
        self._start = StartPage()
        self._stack.addWidget(self._start)
        self._stack.addWidget(self._explorer())
        central = QWidget()
        central.setObjectName("central")
        column = QVBoxLayout(central)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._command_bar())
        column.addWidget(self._stack, 1)
        self.setCentralWidget(central)
        self._make_menus()
        self._connect()
        self.statusBar().showMessage("Ready. Nothing leaves this machine.")

    def open(self, what: str) -> None:
        """Open a graph file, or profile a model, a sample or an application."""
        path = Path(what)
        if path.is_file() and (path.suffix in (".json", ".gz")):
            self.session.open_graph(path)
            return
        self._stack.setCurrentWidget(self._start)
        self._start.show_work(what)
        self.session.profile(ModelRequest(what, batch_size=self._batch_size))

    def _command_bar(self) -> QWidget:
        bar = QWidget()
        bar.setObjectName("bar")
        bar.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(bar)
        row.setContentsMargins(14, 7, 12, 7)
        row.setSpacing(14)
        self._name = label("Checkmate Explorer", name="title")
        self._facts = label("", muted=True)
        self._export = QPushButton("Export training graph…")
        self._export.setObjectName("primary")
        self._export.setEnabled(False)
        self._export.clicked.connect(self._on_export)
        opener = QPushButton("Open…")
        opener.clicked.connect(self._on_open)
        row.addWidget(self._name)
        row.addWidget(self._facts)
        row.addStretch(1)
        row.addWidget(opener)
        row.addWidget(self._export)
        return bar

    def _explorer(self) -> QWidget:
        exploration, theme = self.session.exploration, self._theme
        self.budget = BudgetPanel(exploration, theme)
        self.solving = SolvingPanel(exploration, theme)
        self.layers = LayersPanel(exploration, self.selection, theme)
        left = _column(self.layers, SchedulesPanel(exploration, theme), sizes=(430, 330))
        right = _column(
            self.budget,
            self.solving,
            Inspector(exploration, self.playhead, self.selection, theme),
            sizes=(360, 180, 330),
        )
        middle = _column(self._graph_panel(), self._timeline_panel(), sizes=(440, 400))
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.setHandleWidth(8)
        splitter.setChildrenCollapsible(False)
        for widget in (left, middle, right):
            splitter.addWidget(widget)
        left.setMinimumWidth(200)
        right.setMinimumWidth(290)
        splitter.setStretchFactor(1, 1)
        splitter.setSizes([276, 980, 344])
        holder = QWidget()
        layout = QHBoxLayout(holder)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.addWidget(splitter)
        return holder

    def _graph_panel(self) -> Panel:
        panel = Panel("Training graph")
        self.graph_view = GraphView(self.session.exploration, self.playhead, self.selection, self._theme)
        fit = QPushButton("Fit")
        fit.setToolTip("Show all of it (F)")
        fit.clicked.connect(self.graph_view.fit)
        panel.head.addWidget(fit)
        panel.body.addWidget(self.graph_view, 1)
        self._graph_note = panel.note
        return panel

    def _timeline_panel(self) -> Panel:
        panel = Panel("Timeline")
        exploration = self.session.exploration
        row = QHBoxLayout()
        row.setSpacing(12)
        for title, what, image in (("R", "computed in stage", computed_image), ("S", "held into stage", held_image)):
            row.addWidget(MatrixView(title, what, image, exploration, self.playhead, self.selection, self._theme), 3)
        row.addWidget(CurveView(exploration, self.playhead, self._theme), 6)
        panel.body.addLayout(row, 1)
        self.transport = Transport(exploration, self.playhead, self._theme)
        panel.body.addWidget(self.transport)
        self._timeline_note = panel.note
        return panel

    def _connect(self) -> None:
        session, exploration = self.session, self.session.exploration
        exploration.graph_changed.connect(self._on_graph)
        exploration.shown_changed.connect(self._on_shown)
        self.playhead.moved.connect(self._on_step)
        self.budget.solve_wanted.connect(lambda: session.solve())
        self.solving.stop_wanted.connect(session.stop_solve)
        self.solving.more_wanted.connect(lambda: session.solve(60.0))
        self.solving.minimum_wanted.connect(lambda: self.budget.choose(exploration.least_bytes))
        session.progressed.connect(self._start.show_progress)
        session.failed.connect(self._on_failed)
        session.noticed.connect(lambda text: self.statusBar().showMessage(text, 20000))
        session.device_ended.connect(self._on_device_ended)
        self._start.open_wanted.connect(self._on_open)
        self._start.sample_wanted.connect(self.open)
        self._start.graph_wanted.connect(self.open)
        self._start.cancel_wanted.connect(session.cancel_device)

    def _make_menus(self) -> None:
        peak = self.transport.go_to_peak
        menus = {
            "&File": (("Open…", "Ctrl+O", self._on_open), ("Export training graph…", "Ctrl+E", self._on_export),
                      ("Quit", "Ctrl+Q", self.close)),
            "&Solve": (("Solve for this budget", "Ctrl+R", lambda: self.session.solve()),
                       ("Stop here", "Esc", self.session.stop_solve),
                       ("Solve for a minute", "Ctrl+Shift+R", lambda: self.session.solve(60.0))),
            "&Playback": (("Play or pause", "Space", lambda: self.playhead.play(not self.playhead.playing)),
                          ("Next step", ".", lambda: self.playhead.seek(self.playhead.step + 1)),
                          ("Previous step", ",", lambda: self.playhead.seek(self.playhead.step - 1)),
                          ("Go to the peak", "P", peak)),
            "&View": (("Fit the graph", "F", lambda: self.graph_view.fit()),
                      ("Filter layers", "/", lambda: self.layers.focus_filter())),
        }  # fmt: skip
        for title, entries in menus.items():
            menu = self.menuBar().addMenu(title)
            for text, keys, run in entries:
                action = QAction(text, self)
                action.setShortcut(QKeySequence(keys))
                action.triggered.connect(lambda _=False, r=run: r())
                menu.addAction(action)
        QShortcut(QKeySequence("Ctrl+1"), self, lambda: self.graph_view.setFocus())
        QShortcut(QKeySequence("Ctrl+2"), self, lambda: self.budget.setFocus())

    def _on_graph(self) -> None:
        graph = self.session.exploration.graph
        if graph is None:
            return
        self._stack.setCurrentIndex(1)
        self.budget.setFocus()
        batch = f"batch {graph.batch_size} · " if graph.batch_size else ""
        device = f" · {graph.device.name}" if graph.device is not None and graph.device.kind != "none" else ""
        self._name.setText(graph.name)
        self._facts.setText(f"{batch}{graph.n} ops · {origin_text(graph)}{device}")
        self._export.setEnabled("request" in graph.metadata)
        self._export.setToolTip(
            "" if "request" in graph.metadata else "This graph was not profiled from a Keras model."
        )
        self._graph_note.setText(f"{graph.n} ops, {format_bytes(graph.fixed_bytes)} fixed")
        self.setWindowTitle(f"{graph.name} – Checkmate Explorer")
        self.selection.select(-1)

    def _on_shown(self) -> None:
        shown = self.session.exploration.shown
        if shown is not None:
            self.playhead.set_count(len(shown.schedule.steps))
            self._timeline_note.setText(
                f"{shown.solver} · {len(shown.schedule.steps)} steps, {shown.schedule.recomputations} recomputations"
            )

    def _on_step(self, step: int) -> None:
        shown = self.session.exploration.shown
        if shown is not None and step < len(shown.schedule.steps):
            op = int(shown.schedule.steps[step])
            live, peak = int(shown.timeline.live_bytes[step]), shown.timeline.peak_bytes
            self.statusBar().showMessage(playhead_text(shown.graph, op, step, len(shown.schedule.steps), live, peak))

    def _on_failed(self, sentence: str, hint: str) -> None:
        if self._stack.currentWidget() is self._start:
            self._start.show_problem(sentence, hint)
        self.statusBar().showMessage(f"{sentence} {hint}", 60000)

    def _on_device_ended(self) -> None:
        self._start.show_start()

    def _on_open(self) -> None:
        name, _ = QFileDialog.getOpenFileName(
            self, "Open a model or a graph", "", "Models and graphs (*.keras *.h5 *.json *.json.gz);;All files (*)"
        )
        if name:
            self.open(name)

    def _on_export(self) -> None:
        if self._export.isEnabled():
            ExportDialog(self.session, self).open()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        self.open(event.mimeData().urls()[0].toLocalFile())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.playhead.play(False)
        self.session.close()
        super().closeEvent(event)


def _column(*widgets: QWidget, sizes: tuple[int, ...]) -> QSplitter:
    splitter = QSplitter(Qt.Orientation.Vertical)
    splitter.setHandleWidth(8)
    splitter.setChildrenCollapsible(False)
    for widget in widgets:
        splitter.addWidget(widget)
    splitter.setSizes(list(sizes))
    return splitter
