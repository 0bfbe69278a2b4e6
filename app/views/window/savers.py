from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QProgressDialog

from app.models.finders import Certifier, ProvedCost
from app.presenters.commands import OnScreen
from app.presenters.wording import schedule_file
from app.state.knowledge import ListedSchedule
from app.views.common.widgets import ask_target
from app.views.window.base_window import BaseWindow
from checkmate.units import format_bytes, format_overhead, plural

_NOTHING = "There is nothing to save yet: open a model or a graph first."


def ask_save(window: BaseWindow) -> None:
    graph = window.session.exploration.graph
    if graph is None:
        window.say(_NOTHING)
        return
    kinds = "Explorations (*.json.gz *.json)"
    if path := _ask(window, "Save the exploration", f"{graph.name}.exploration.json.gz", kinds):
        window.session.save(path)


def ask_save_schedule(window: BaseWindow) -> None:
    shown = window.session.exploration.shown
    if shown is None:
        window.say(_NOTHING)
        return
    kinds = "Schedules (*.json *.json.gz)"
    if path := _ask(window, "Save this schedule", schedule_file(shown, "schedule"), kinds):
        window.session.save_schedule(shown, path)


def ask_report(window: BaseWindow) -> None:
    graph = window.session.exploration.graph
    suggested = f"{'report' if graph is None else graph.name}.html"
    if path := _ask(window, "Save a report", suggested, "Pages (*.html)"):
        window.session.report(path)


def ask_picture(window: BaseWindow) -> None:
    if path := _ask(window, "Save a picture", "checkmate.png", "Pictures (*.png *.svg)"):
        window.explorer.saver.save_picture(window, path)


def _ask(window: BaseWindow, title: str, suggested: str, kinds: str) -> Path | None:
    path = ask_target(window, title, suggested, kinds)
    if path is not None:
        window.notice.hide_failure()
    return path


def copy_text(window: BaseWindow, write: Callable[[OnScreen], str]) -> None:
    shown = window.session.on_screen()
    if shown is None:
        nothing = window.session.exploration.graph is None
        why = "open a model or a graph first" if nothing else "save the exploration first; its file is needed"
        window.say(f"Nothing was copied: {why}.")
        return
    text = write(shown)
    QGuiApplication.clipboard().setText(text)
    first, *more = text.splitlines()
    lines = f"{1 + len(more)} lines" if more else "1 line"
    said = f": {first}" if first.startswith("checkmate") else " of Python."
    window.say(f"Copied {lines}{said}")


_NOTHING_TO_CERTIFY = "There is nothing to certify yet: open a model or a graph first."
_CONSTRAINED = "A certificate holds for every schedule. It knows no what-ifs: remove them first."


class Certifying:
    """Asks where to, proves in its own process, and says what is certified."""

    def __init__(self, window: BaseWindow) -> None:
        self._window = window
        self.certifier = Certifier(window)
        self.certifier.progressed.connect(self._on_progress)
        self.certifier.proved.connect(self._on_proved)
        self.certifier.failed.connect(self._on_failed)
        self.certifier.died.connect(self._end)
        self.progress: QProgressDialog | None = None

    def ask(self) -> None:
        exploration = self._window.session.exploration
        shown = exploration.shown
        if shown is None or not exploration.constraints.is_empty:
            said = _NOTHING_TO_CERTIFY if shown is None else _CONSTRAINED
            self._window.say(said)
            return
        kinds = "Certificates (*.json *.json.gz)"
        path = ask_target(self._window, "Save a certificate", schedule_file(shown, "certificate"), kinds)
        if path is not None:
            self.begin(shown, path)

    def begin(self, found: ListedSchedule, path: Path) -> None:
        self.certifier.ask(found, path, self._window.session.exploration.graph_body)
        budget = found.peak_bytes
        head = f"Proving that no schedule of {found.graph.name} within {format_bytes(budget)} costs less"
        self.progress = QProgressDialog(head, "Cancel", 0, 0, self._window)
        self.progress.setWindowTitle("Certificate")
        self.progress.setMinimumDuration(0)
        self.progress.canceled.connect(self.cancel)
        self.progress.show()

    def cancel(self) -> None:
        if self.certifier.busy:
            self.certifier.cancel()
            self._end("The certificate was cancelled; nothing was written.")

    def close(self) -> None:
        self.certifier.close()

    def _on_progress(self, sentence: str) -> None:
        if self.progress is not None:
            self.progress.setLabelText(sentence[:1].upper() + sentence[1:])

    def _on_failed(self, sentence: str, hint: str) -> None:
        self._end("")
        self._window.session.failed.emit(sentence, hint)

    def _on_proved(self, found: ListedSchedule, path: Path, proof: ProvedCost) -> None:
        self._end("")
        self._window.session.noticed.emit(self._words(found, path, proof))

    def _words(self, found: ListedSchedule, path: Path, proved: ProvedCost) -> str:
        base, within = found.graph.base_cost, format_bytes(found.peak_bytes)
        cases = plural(proved.cases, "case")
        if proved.cost is None:
            return f"Saved {path}: proved, in {cases}, that no schedule fits {within}."
        least, own = format_overhead(proved.cost, base), format_overhead(found.cost, base)
        said = f"Saved {path}: proved, in {cases}, that no schedule within {within} costs less"
        check = f"Anyone can check it: python verify.py GRAPH {path.name}"
        return f"{said} than {least}. This one costs {own}. {check}"

    def _end(self, sentence: str) -> None:
        if self.progress is not None:
            self.progress.canceled.disconnect(self.cancel)
            self.progress.close()
            self.progress.deleteLater()
            self.progress = None
        if sentence:
            self._window.say(sentence)
