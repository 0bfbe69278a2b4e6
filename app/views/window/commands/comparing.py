"""Compare the explored graph with one from a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QFileDialog

from app.models.opening.other_graph import OtherGraph

if TYPE_CHECKING:
    from app.views.compare.dialog import GraphCompareDialog
    from app.views.window.main_window import MainWindow

_NOTHING = "Open a graph first; it is A, and the file that you choose is B."
_KINDS = "Graphs and explorations (*.json *.json.gz);;All files (*)"


class Comparing:
    """Asks for a file, reads it, and shows it beside the explored graph. There is one dialog."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self.dialog: GraphCompareDialog | None = None
        self._other: OtherGraph | None = None

    def ask(self) -> None:
        window = self._window
        if window.session.exploration.graph is None:
            window.statusBar().showMessage(_NOTHING, 10000)
            return
        over = self.dialog or window
        name, _ = QFileDialog.getOpenFileName(over, "Compare with a graph or an exploration", "", _KINDS)
        if name:
            self.open(Path(name))

    def open(self, path: Path) -> None:
        """Read a file, and compare with it once it is read."""
        self.close()
        window = self._window
        other = self._other = OtherGraph(window)
        other.opened.connect(lambda: self._show(other))
        other.failed.connect(lambda sentence, hint: self._on_failed(other, sentence, hint))
        window.statusBar().showMessage(f"Reading {path}…", 10000)
        other.open(path)

    def close(self) -> None:
        """End the comparison, and what is being read for it."""
        dialog, other = self.dialog, self._other
        self.dialog = self._other = None
        if dialog is not None:
            dialog.close()  # which closes the other graph, too
        elif other is not None:
            other.close()

    def _show(self, other: OtherGraph) -> None:
        if other is not self._other:
            return
        from app.views.compare.dialog import GraphCompareDialog

        window = self._window
        dialog = GraphCompareDialog(window.session.exploration, other, window.theme, window)
        dialog.other_wanted.connect(self.ask)
        dialog.finished.connect(lambda _: self._forget(dialog))
        self.dialog = dialog
        QTimer.singleShot(0, dialog, lambda: self._fill(dialog))  # in one turn, both would hold up the window

    def _fill(self, dialog: GraphCompareDialog) -> None:
        if dialog is not self.dialog:
            return
        window, other = self._window, dialog.other
        dialog.refresh()
        dialog.show()
        window.statusBar().showMessage(f"Compared with {other.file}.", 10000)

    def _forget(self, dialog: GraphCompareDialog) -> None:
        if dialog is self.dialog:
            self.dialog = self._other = None

    def _on_failed(self, other: OtherGraph, sentence: str, hint: str) -> None:
        if other is self._other:
            self._window.notice.say(sentence, hint)
            self.close()
