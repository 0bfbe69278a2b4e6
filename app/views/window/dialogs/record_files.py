"""Open logs and profiles from the window, and lead from one to its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSettings, QTimer
from PySide6.QtWidgets import QFileDialog

from app.models.opening.recent import RecentRecords
from app.models.opening.record_opening import RecordOpening
from app.views.window.dialogs.record_dialog import RecordDialog
from checkmate.records.memory import ReadRecord
from checkmate.records.read import LOG_ENDINGS, PROFILE_ENDING
from checkmate.request import ModelRequest

if TYPE_CHECKING:
    from app.views.window.main_window import MainWindow

RECORD_FILTER = f"Logs and profiles ({' '.join(f'*{end}' for end in (*LOG_ENDINGS, PROFILE_ENDING))})"


class RecordFiles(QObject):
    """Reads a file in the background, then opens a dialog about it.

    ``dialog`` is the last one that was opened; None if it is closed.
    """

    def __init__(self, window: MainWindow, settings: QSettings | None) -> None:
        super().__init__(window)
        self._window, self.recent = window, RecentRecords(settings)
        self.dialog: RecordDialog | None = None
        self._opening = RecordOpening(self)
        self._opening.opened.connect(self._on_opened)
        self._opening.failed.connect(window.session.failed)
        self._wanted: tuple[str, int] | None = None  # a model that is being profiled, and its budget
        window.session.exploration.graph_changed.connect(self._on_graph)

    def ask(self) -> None:
        name, _ = QFileDialog.getOpenFileName(
            self._window,
            "Explain an out-of-memory log or a profile",
            "",
            f"{RECORD_FILTER};;All files (*)",
        )
        if name:
            self.open(Path(name))

    def open(self, path: Path) -> None:
        """Read ``path``, a log, a profile or a log directory."""
        self._window.notice.hide()
        self._window.statusBar().showMessage(f"Reading {path}…")
        self._opening.start(path)

    def close(self) -> None:
        """Give up what is being read."""
        self._opening.stop()

    def _on_opened(self, reading: ReadRecord, path: Path) -> None:
        self._window.statusBar().showMessage(f"Read {path}.", 10000)
        self.recent.keep(path)
        graph = self._window.session.exploration.graph
        if self.dialog is not None:
            self.dialog.close()
        dialog = RecordDialog(reading, self._window.theme, "" if graph is None else graph.name, self._window)
        dialog.profile_wanted.connect(self._ask_profile)
        dialog.budget_wanted.connect(self._use_budget)
        dialog.destroyed.connect(lambda: self._forget(dialog))
        self.dialog = dialog
        dialog.show()

    def _forget(self, dialog: RecordDialog) -> None:
        if self.dialog is dialog:
            self.dialog = None

    def _ask_profile(self, budget: int) -> None:
        """Ask for the model; once it is profiled, its budget is this one."""
        asking = self._window.ask_profile()

        def on_asked(request: ModelRequest) -> None:
            self._wanted = (request.model, budget) if budget else None
            if self.dialog is not None:
                self.dialog.close()

        asking.asked.connect(on_asked)

    def _use_budget(self, budget: int) -> None:
        if self._window.session.exploration.graph is not None and budget:
            self._window.explorer.budget.choose(budget)

    def _on_graph(self) -> None:
        """Choose the budget for the model that was asked for. Another graph ends the wish."""
        wanted, self._wanted = self._wanted, None
        graph = self._window.session.exploration.graph
        request = None if graph is None else graph.metadata.get("request")
        if wanted is None or not isinstance(request, dict) or request.get("model") != wanted[0]:
            return
        # After all views have taken the graph in.
        QTimer.singleShot(0, self, lambda: self._use_budget(wanted[1]))
