"""What asks where to save something, and what copies it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from app.presenters.commands import OnScreen
from app.presenters.wording import schedule_file
from app.views.common.view_saver import SavableView

if TYPE_CHECKING:
    from app.views.window.main_window import MainWindow


def ask_save(window: MainWindow) -> None:
    """Ask where to save the exploration."""
    graph = window.session.exploration.graph
    if graph is None:
        window.statusBar().showMessage("There is nothing to save yet: open a model or a graph first.", 10000)
        return
    name, _ = QFileDialog.getSaveFileName(
        window,
        "Save the exploration",
        f"{graph.name}.exploration.json.gz",
        "Explorations (*.json.gz *.json)",
    )
    if name:
        window.notice.hide_failure()
        window.session.save(Path(name))


def ask_save_schedule(window: MainWindow) -> None:
    """Ask where to save the schedule on screen. The file is for an export where the model is."""
    shown = window.session.exploration.shown
    if shown is None:
        window.statusBar().showMessage("There is nothing to save yet: open a model or a graph first.", 10000)
        return
    suggested = schedule_file(shown, "schedule")
    name, _ = QFileDialog.getSaveFileName(
        window, "Save this schedule", suggested, "Schedules (*.json *.json.gz)"
    )
    if name:
        window.notice.hide_failure()
        window.session.save_schedule(shown, Path(name))


def ask_report(window: MainWindow) -> None:
    """Ask where to save a report."""
    graph = window.session.exploration.graph
    suggested = f"{'report' if graph is None else graph.name}.html"
    name, _ = QFileDialog.getSaveFileName(window, "Save a report", suggested, "Pages (*.html)")
    if name:
        window.notice.hide_failure()
        window.session.report(Path(name))


def ask_picture(window: MainWindow) -> None:
    """Ask where to save a picture of the window."""
    name, _ = QFileDialog.getSaveFileName(window, "Save a picture", "checkmate.png", "Pictures (*.png *.svg)")
    if name:
        window.notice.hide_failure()
        window.explorer.saver.save_picture(SavableView("the window", window, lambda: None), Path(name))


def copy_text(window: MainWindow, write: Callable[[OnScreen], str]) -> None:
    """Copy what leads to what is on screen, and say its first line."""
    shown = window.session.on_screen()
    if shown is None:
        nothing = window.session.exploration.graph is None
        why = "open a model or a graph first" if nothing else "save the exploration first; its file is needed"
        window.statusBar().showMessage(f"Nothing was copied: {why}.", 10000)
        return
    text = write(shown)
    QGuiApplication.clipboard().setText(text)
    first, *more = text.splitlines()
    lines = f"{1 + len(more)} lines" if more else "1 line"
    said = f": {first}" if first.startswith("checkmate") else " of Python."
    window.statusBar().showMessage(f"Copied {lines}{said}", 10000)
