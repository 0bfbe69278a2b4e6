"""The window: command bar, lists on the left, graph and timeline in the middle, budget and inspector on the right."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QCloseEvent, QDragEnterEvent, QDropEvent, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QMainWindow,
    QMessageBox,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.models.cursors import Playhead, Selection
from app.models.recovery import Recovery
from app.models.session import Session
from app.models.solve import Aim
from app.models.targets import Kind
from app.presenters.wording import origin_text, playhead_text
from app.theme import Theme
from app.views.export_dialog import ExportDialog
from app.views.palette import Palette
from app.views.palette_entries import commands, content, outlets
from app.views.panel import label
from app.views.start_page import StartPage
from app.views.take_out import Takeable
from app.views.what_ifs import WhatIfs
from checkmate.request import ModelRequest

if TYPE_CHECKING:
    from app.views.explorer import Explorer


_ROOMY = 1300  # pixels; a narrower window has no room for all the words


class MainWindow(QMainWindow):
    """One exploration. Views observe the session's models; this class only puts them together and forwards commands."""

    def __init__(
        self, session: Session, theme: Theme, *, batch_size: int = 32, recovery: Recovery | None = None
    ) -> None:
        super().__init__()
        self.recovery = recovery
        self.session, self._theme, self._batch_size = session, theme, batch_size
        self.playhead, self.selection = Playhead(self), Selection(self)
        self.what_ifs = WhatIfs(session, self.selection, self)
        self.setWindowTitle("Checkmate Explorer")
        self.setMinimumSize(1000, 640)
        self.setAcceptDrops(True)
        self._stack = QStackedWidget()
        self._start = StartPage()
        self._stack.addWidget(self._start)
        self._explorer: Explorer | None = None
        self._trusted: set[str] = set()
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
        self._saved = label("", muted=True)
        self.statusBar().addPermanentWidget(self._saved)
        self.statusBar().showMessage("Ready. Nothing leaves this machine.")

    def open(self, what: str) -> None:
        """Open a graph file, or profile a model, a sample or an application."""
        self.prepare()
        path = Path(what)
        if path.is_file() and (path.suffix in (".json", ".gz")):
            self.session.open_file(path)
            return
        runs_code = ".py:" in what
        if runs_code and not self._allows_code(what):
            return
        self._stack.setCurrentWidget(self._start)
        self._start.show_work(what)
        self.session.profile(ModelRequest(what, batch_size=self._batch_size, allow_code=runs_code))

    def _allows_code(self, what: str) -> bool:
        """Ask once for each file whose code would run."""
        if what not in self._trusted:
            answer = QMessageBox.question(
                self,
                "Run this file's code?",
                f"Opening {what} runs the Python code in that file, in a process of its own.",
            )
            if answer != QMessageBox.StandardButton.Yes:
                return False
            self._trusted.add(what)
        return True

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
        self.omnibox = QPushButton("Search layers, schedules, commands   Ctrl+K")
        self.omnibox.setObjectName("omnibox")
        self.omnibox.setAccessibleName("Search layers, schedules, commands")
        self.omnibox.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # Ctrl+K is its way from the keyboard
        self.omnibox.clicked.connect(self.open_palette)
        row.addStretch(1)
        row.addWidget(self.omnibox)
        row.addStretch(1)
        row.addWidget(opener)
        row.addWidget(self._export)
        return bar

    def open_palette(self) -> Palette:
        """Search everything there is."""
        entries = list(commands(self.menuBar()))
        if self._explorer is not None and self.session.exploration.graph is not None:
            entries += outlets(self._explorer.take_out)
        entries += content(self.session.exploration, self.selection)
        palette = Palette(entries, self._theme, self)
        palette.open()
        return palette

    def resizeEvent(self, event: QResizeEvent) -> None:
        roomy = self.width() >= _ROOMY
        self.omnibox.setText(f"{'Search layers, schedules, commands' if roomy else 'Search'}   Ctrl+K")
        super().resizeEvent(event)

    def prepare(self) -> None:
        """Build the explorer's views. Done after the first paint: plotting alone takes as long to import as all the rest."""
        if self._explorer is not None:
            return
        from app.views.explorer import Explorer

        self._explorer = Explorer(self.session, self.playhead, self.selection, self.what_ifs, self._theme)
        self._stack.addWidget(self._explorer)

    @property
    def explorer(self) -> Explorer:
        """The views of an open graph."""
        self.prepare()
        assert self._explorer is not None
        return self._explorer

    def _connect(self) -> None:
        session, exploration = self.session, self.session.exploration
        exploration.graph_changed.connect(self._on_graph)
        exploration.shown_changed.connect(self._on_shown)
        self.playhead.moved.connect(self._on_step)
        session.progressed.connect(self._start.show_progress)
        session.failed.connect(self._on_failed)
        session.noticed.connect(lambda text: self.statusBar().showMessage(text, 20000))
        session.device_ended.connect(self._on_device_ended)
        if self.recovery is not None:
            self.recovery.saved.connect(lambda at: self._saved.setText(f"saved {at}"))
            self.recovery.failed.connect(lambda text: self.statusBar().showMessage(text, 20000))
        self._start.open_wanted.connect(self._on_open)
        self._start.sample_wanted.connect(self.open)
        self._start.graph_wanted.connect(self.open)
        self._start.cancel_wanted.connect(session.cancel_device)

    def _make_menus(self) -> None:
        menus = {
            "&File": (("Open…", "Ctrl+O", self._on_open), ("Save exploration…", "Ctrl+S", self._on_save), ("Export training graph…", "Ctrl+E", self._on_export),
                      ("Save a picture of the window…", "Ctrl+Shift+P", self._on_picture),
                      ("Save a report…", "Ctrl+Shift+E", self._on_report),
                      ("Restore what was not closed", "", self.restore), None,
                      ("Quit", "Ctrl+Q", self.close)),
            "&Edit": self._edit_actions(),
            "&Solve": (("Solve for this budget", "Ctrl+R", lambda: self.session.solve()),
                       ("Stop here", "Esc", self.session.stop_solve),
                       ("Solve for a minute", "Ctrl+Shift+R", lambda: self.session.solve(60.0)), None,
                       ("Least memory at this extra cost", "M", lambda: self.explorer.budget.aims.ask_within()),
                       ("Least possible memory", "Shift+M", lambda: self.explorer.budget.aim(Aim(math.inf))), None, self._gradients_action()),
            "&Playback": (("Play or pause", "Space", lambda: self.playhead.play(not self.playhead.playing)),
                          ("Next step", ".", lambda: self.playhead.seek(self.playhead.step + 1)),
                          ("Previous step", ",", lambda: self.playhead.seek(self.playhead.step - 1)),
                          ("Go to the peak", "P", lambda: self.explorer.transport.go_to_peak()), None,
                          ("Save as an animated picture…", "Ctrl+Shift+G", lambda: self.explorer.film.ask())),
            "&View": (("Search everything", "Ctrl+K", self.open_palette), ("Fit the graph", "F", lambda: self.explorer.graph_view.fit()),
                      ("Filter layers", "/", lambda: self.explorer.layers.focus_filter()), None,
                      ("Compare A | B", "D", lambda: self.explorer.comparison.toggle()),
                      ("Compare what comes with what is shown now", "B", lambda: self.explorer.comparison.pin_shown())),
        }  # fmt: skip
        for title, entries in menus.items():
            menu = self.menuBar().addMenu(title)
            for entry in entries:
                if entry is None:
                    menu.addSeparator()
                else:
                    menu.addAction(entry if isinstance(entry, QAction) else self._action(*entry))
        QShortcut(QKeySequence("Ctrl+1"), self, lambda: self.explorer.graph_view.setFocus())
        QShortcut(QKeySequence("Ctrl+2"), self, lambda: self.explorer.budget.setFocus())

    def _action(self, text: str, keys: str, run: Callable[[], object]) -> QAction:
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        action.triggered.connect(lambda _=False: run())
        return action

    def _edit_actions(self) -> tuple[QAction | None, ...]:
        """Undo and redo, and the what-ifs of what is selected."""
        stack, what_ifs = self.what_ifs.stack, self.what_ifs
        undo, redo = stack.createUndoAction(self, "Undo"), stack.createRedoAction(self, "Redo")
        undo.setShortcut(QKeySequence("Ctrl+Z"))
        redo.setShortcut(QKeySequence("Ctrl+Shift+Z"))
        keep = self._action("Keep always", "K", lambda: what_ifs.switch(Kind.KEEP))
        once = self._action("Never recompute", "R", lambda: what_ifs.switch(Kind.ONCE))
        clear = self._action("Clear the constraints", "", what_ifs.clear)

        def refresh() -> None:
            target = what_ifs.target
            for action, kind in ((keep, Kind.KEEP), (once, Kind.ONCE)):
                action.setCheckable(True)
                action.setEnabled(target is not None and bool(target.names(kind)))
                action.setChecked(what_ifs.is_set(kind, target))
            clear.setEnabled(not self.session.exploration.constraints.is_empty)

        what_ifs.changed.connect(refresh)
        refresh()
        return undo, redo, None, keep, once, clear

    def _gradients_action(self) -> QAction:
        action = QAction("Recompute gradients", self)
        action.setCheckable(True)
        action.setChecked(True)
        action.setToolTip("Whether ops of the backward pass may run more than once")
        action.triggered.connect(self.what_ifs.recompute_gradients)
        exploration = self.session.exploration
        self.what_ifs.changed.connect(lambda: action.setChecked(exploration.constraints.recompute_gradients))
        return action

    def _on_graph(self) -> None:
        graph = self.session.exploration.graph
        if graph is None:
            return
        self._stack.setCurrentWidget(self.explorer)
        self.explorer.budget.setFocus()
        batch = f"batch {graph.batch_size} · " if graph.batch_size else ""
        device = f" · {graph.device.name}" if graph.device is not None and graph.device.kind != "none" else ""
        self._name.setText(graph.name)
        self._facts.setText(f"{batch}{graph.n} ops · {origin_text(graph)}{device}")
        self._export.setEnabled("request" in graph.metadata)
        self._export.setToolTip(
            "" if "request" in graph.metadata else "This graph was not profiled from a Keras model."
        )
        self.setWindowTitle(f"{graph.name} – Checkmate Explorer")
        self.selection.select(-1)

    def _on_shown(self) -> None:
        shown = self.session.exploration.shown
        if shown is not None:
            self.playhead.set_count(len(shown.schedule.steps))

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

    def _on_save(self) -> None:
        graph = self.session.exploration.graph
        if graph is None:
            self.statusBar().showMessage("There is nothing to save yet: open a model or a graph first.", 10000)
            return
        name, _ = QFileDialog.getSaveFileName(
            self, "Save the exploration", f"{graph.name}.exploration.json.gz", "Explorations (*.json.gz *.json)"
        )
        if name:
            self.session.save(Path(name))

    def _on_report(self) -> None:
        graph = self.session.exploration.graph
        suggested = f"{'report' if graph is None else graph.name}.html"
        name, _ = QFileDialog.getSaveFileName(self, "Save a report", suggested, "Pages (*.html)")
        if name:
            self.session.report(Path(name))

    def restore(self, *, by_itself: bool = False) -> bool:
        """Open what a window that did not close has left; whether there was any."""
        orphans = [] if self.recovery is None else self.recovery.orphans()
        orphan = next((entry for entry in orphans if entry.restores_itself or not by_itself), None)
        if self.recovery is None or orphan is None:
            if not by_itself:
                self.statusBar().showMessage(
                    "There is nothing to restore: every window was closed as it should.", 10000
                )
            return False
        self.recovery.adopt(orphan)
        assert self.recovery.path is not None
        self.prepare()
        self.session.open_file(self.recovery.path, at_once=True)
        graph = self.session.exploration.graph
        if graph is not None:
            self.statusBar().showMessage(
                f"Restored {graph.name} as it was at {orphan.words}: that window did not close."
            )
        return graph is not None

    def _on_picture(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, "Save a picture", "checkmate.png", "Pictures (*.png *.svg)")
        if name:
            self.explorer.take_out.save_picture(Takeable("the window", self, lambda: None), Path(name))

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
        if self._explorer is not None:
            self._explorer.inspector.hotspot.close()
            self._explorer.film.close()
        self.session.close()
        if self.recovery is not None:
            self.recovery.close()
        super().closeEvent(event)
