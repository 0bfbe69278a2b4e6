"""Asks for the file of the animated picture, and shows how far it is."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QProgressDialog, QWidget

from app.models.exploration import Exploration
from app.theme import CurrentTheme
from app.views.playback.film import PlaybackFilm


class FilmProgress(QObject):
    """A small dialog while the picture is made; Cancel or Esc ends it.

    The window can be used meanwhile.

    Signals: ``noticed(sentence)``; ``failed(sentence, hint)``.
    """

    noticed = Signal(str)
    failed = Signal(str, str)

    def __init__(self, exploration: Exploration, theme: CurrentTheme, parent: QWidget) -> None:
        super().__init__(parent)
        self._exploration, self._parent = exploration, parent
        self.film = PlaybackFilm(exploration, theme, self)
        self.film.progressed.connect(self._on_progress)
        self.film.ended.connect(self._on_ended)
        self.dialog: QProgressDialog | None = None

    def ask(self) -> None:
        """Ask for a file, then make the picture."""
        graph = self._exploration.graph
        if graph is None:
            self.failed.emit("There is nothing to play yet.", "Open a model or a graph first.")
            return
        kinds = "Animated pictures (*.gif *.png *.webp)"
        title = "Save the playback as an animated picture"
        name, _ = QFileDialog.getSaveFileName(self._parent.window(), title, f"{graph.name}.gif", kinds)
        if name:
            self.save(Path(name))

    def save(self, path: Path) -> None:
        """Make the picture of the schedule on screen."""
        if not self.film.busy:
            self.dialog = QProgressDialog(f"Drawing {path.name}", "Cancel", 0, 100, self._parent.window())
            self.dialog.setWindowTitle("Animated picture")
            self.dialog.setAccessibleName("Progress of the animated picture")
            self.dialog.setWindowModality(Qt.WindowModality.NonModal)
            self.dialog.setAutoClose(False)
            self.dialog.setAutoReset(False)
            self.dialog.setMinimumDuration(500)
            self.dialog.canceled.connect(self.film.cancel)
        self.film.start(path)

    def close(self) -> None:
        """Stop, because the window closes; an unfinished picture is not written."""
        self.film.cancel()

    def _on_progress(self, drawn: int, frames: int) -> None:
        if self.dialog is not None:
            self.dialog.setMaximum(frames + 1)  # the last one: putting the frames together
            self.dialog.setValue(drawn)
            self.dialog.setLabelText(
                f"Frame {drawn} of {frames}" if drawn < frames else "Putting the frames together"
            )

    def _on_ended(self, sentence: str, hint: str) -> None:
        if self.dialog is not None and not self.film.busy:
            self.dialog.canceled.disconnect()
            self.dialog.close()
            self.dialog.deleteLater()
            self.dialog = None
        if self.film.problem:
            self.failed.emit(sentence, hint)
        else:
            self.noticed.emit(sentence)
