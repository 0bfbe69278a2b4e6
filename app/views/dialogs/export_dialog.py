from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QFileDialog, QFormLayout, QLineEdit, QWidget

from app.models.session import Session
from app.presenters.export_result import export_card, first_budget
from app.presenters.paper import LEAST_POINTS, MOST_POINTS, FigureFile, Paper, Shows, Width
from app.presenters.phases import export_phases
from app.presenters.schedule_rows import cost_text
from app.presenters.wording import as_sentence, strong
from app.theme import CurrentTheme
from app.views.common.phase_list import PhaseList
from app.views.common.widgets import (
    NO_EDGES,
    ChoiceBox,
    DecimalBox,
    Dialog,
    ask_target,
    called,
    in_column,
    in_row,
    label,
    push_button,
)
from app.views.dialogs.export_card import CardPanel
from checkmate.errors import UsageError
from checkmate.units import Budget, format_bytes, parse_budget

_CANCELLING = "Cancelling. What runs now is ended within two seconds."


class ExportDialog(Dialog):
    """Runs the export in the device process, phase by phase, and shows what came of it. Closing the dialog
    meanwhile cancels it."""

    def __init__(self, session: Session, theme: CurrentTheme, parent: QWidget | None = None) -> None:
        super().__init__(parent, "Export training graph", once=True)
        self.setMinimumWidth(600)
        self._session, self._theme = session, theme
        self._directory, self._before = Path(), 0
        shown = session.exploration.shown
        assert shown is not None
        # Better ones may come on screen while this is open; the schedule named in the title is written.
        self._found = shown
        self._default_text, self._default = first_budget(shown, session.exploration.budget_bytes)
        self._running = self._cancelled = self._told = False
        self._promise, self._asking = label(self._promised(), muted=True, wrap=True), QWidget()
        summary = label(self._summary(), name="title", wrap=True)
        self._asking.setLayout(in_column(summary, self._promise, self._form(), gap=10, edges=NO_EDGES))
        self._phases, self._status = PhaseList(), label("", wrap=True)
        self._card: CardPanel | None = None
        self._close = push_button("Close", self.reject)
        self._start = push_button("Export and verify", self._on_start, "primary")
        self._start.setDefault(True)  # Return in a field begins, and does not open the folder chooser
        buttons = in_row(None, self._close, self._start)
        self._column = in_column(self._asking, self._phases, self._status, buttons, gap=10)
        self.setLayout(self._column)
        self._phases.hide()
        self._status.hide()
        session.progressed.connect(self._on_progress)
        session.exported.connect(self._on_exported)
        session.failed.connect(self._on_failed)
        session.device_ended.connect(self._on_ended)

    def _summary(self) -> str:
        peak, cost = format_bytes(self._found.peak_bytes), cost_text(self._found.overhead)
        return f"Peak {peak} predicted, {cost} step cost"

    def _promised(self) -> str:
        runner = self._found.graph.runner
        over = "If the peak is over the budget, tries a smaller schedule, a minute or two each."
        if runner.compiled:
            over = (
                "XLA compiles it where it is loaded, and says its bytes: schedules are compiled until one\n"
                "keeps the budget."
            )
        return (
            f"Writes graph, schedule, report, and {runner.writes}.\n"
            f"Measures the peak in fresh processes. Compares the step with the plain one.\n{over}"
        )

    def _form(self) -> QFormLayout:
        self._folder = called(QLineEdit(str(Path.cwd() / f"{self._found.graph.name}-export")), "Folder")
        most = "The most memory that the device's allocator may show"
        self._budget = called(
            QLineEdit(self._default_text), most, f"{most}: 6.5GiB, 800MiB, or 60% of the plain step's memory"
        )
        form = QFormLayout()
        form.setContentsMargins(*NO_EDGES)
        form.addRow("Folder", in_row((self._folder, 1), push_button("Choose…", self._on_browse)))
        form.addRow("Memory budget", self._budget)
        return form

    def _on_browse(self) -> None:
        chosen = QFileDialog.getExistingDirectory(self, "Folder to write into", self._folder.text())
        if chosen:
            self._folder.setText(chosen)

    def _on_start(self) -> None:
        try:
            budget = self._asked()
        except ValueError as error:
            self._say(html.escape(as_sentence(str(error))))
            return
        self._directory = Path(self._folder.text()).expanduser()
        self._before = _written_at(self._directory)
        self._cancelled = self._told = False
        self._promise.hide()
        self._drop_card()
        self._phases.begin(export_phases(self._found.graph.runner))
        self._phases.show()
        self._set_running(True)
        self._say("")
        self._session.export(self._found, self._directory, budget)

    def _asked(self) -> Budget:
        """The budget in the field, exact to the byte if the user did not change it."""
        text = self._budget.text()
        return self._default if text == self._default_text else parse_budget(text)

    def _set_running(self, running: bool) -> None:
        self._running = running
        self._close.setText("Cancel" if running else "Close")
        self._close.setEnabled(True)
        (self if running else self._close).setFocus()  # Return, held in a field, shall not press Cancel
        self._asking.setDisabled(running)
        self._start.setDisabled(running)

    def _say(self, text: str) -> None:
        self._status.setText(text)
        self._status.setVisible(bool(text))

    def _drop_card(self) -> None:
        if self._card is not None:
            self._card.hide()
            self._card.deleteLater()
            self._card = None

    def _on_progress(self, stage: str, message: str, done: float, total: float) -> None:
        if self._running:
            self._phases.show_progress(stage, message, done, total)

    def _on_exported(self, report: dict[str, Any]) -> None:
        if not self._running:
            return
        self._told = True
        found = export_card(report, self._directory)
        self._card = CardPanel(found, self._directory, self._theme)
        self._column.insertWidget(0, self._card)
        self._card.show()
        self._phases.hide()
        for part in (self._asking, self._start):
            part.setVisible(bool(found.missed))
        self._say("")

    def _on_failed(self, sentence: str, hint: str) -> None:
        if self._running and not self._session.device_busy:  # else another task failed
            self._told = True
            said = html.escape(" ".join(filter(None, (as_sentence(hint), self._left()))))
            self._say(f"{strong(f'Not exported. {as_sentence(sentence)}')}<br>{said}")

    def _on_ended(self) -> None:
        if not self._running:
            return
        self._phases.end()
        self._set_running(False)
        if not self._told:
            why = "Cancelled." if self._cancelled else "Not exported, because another graph was opened."
            self._say(f"{strong(why)} {html.escape(self._left() or 'Nothing was written.')}")

    def _left(self) -> str:
        """A sentence on the folder left by an attempt whose reloaded step was over the budget; or empty."""
        if _written_at(self._directory) == self._before:
            return ""
        return f"{self._directory} holds the attempt before, which is over the budget."

    def event(self, event: QEvent) -> bool:
        handled = super().event(event)
        if event.type() in (QEvent.Type.Show, QEvent.Type.LayoutRequest):
            self.resize(self.width(), self._column.totalHeightForWidth(self.width()))
        return handled

    def reject(self) -> None:
        if not self._running:
            super().reject()
        elif not self._cancelled:
            self._cancelled = True
            self._close.setText("Cancelling…")
            self._close.setDisabled(True)
            self._say(_CANCELLING)
            self._session.cancel_device()


def _written_at(directory: Path) -> int:
    """When an export was written there, in nanoseconds; 0: there is none."""
    path = directory / "report.json"
    return path.stat().st_mtime_ns if path.is_file() else 0


_FIGURE = "Lines and words, on white: a PDF with its fonts in it, or an SVG. It shows what the view shows."


class FigureDialog(Dialog):
    """Asks for a figure, and then where to save it. Signals: ``wanted(figure_file)``."""

    wanted = Signal(object)

    def __init__(self, shows: Shows, model: str, parent: QWidget | None = None) -> None:
        super().__init__(parent, "A figure for a paper", once=True)
        self._model = model
        self.shows, self.width_of = ChoiceBox(), ChoiceBox()
        for entry in Shows:
            self.shows.addItem(entry.words, entry)
        for width in Width:
            self.width_of.addItem(width.words, width)
        self.shows.setCurrentText(shows.words)
        self.points = DecimalBox(decimals=1, minimum=LEAST_POINTS, maximum=MOST_POINTS, suffix=" pt")
        form = QFormLayout()
        for name, field in (("Figure", self.shows), ("Width", self.width_of), ("Words", self.points)):
            form.addRow(name, called(field, name))
        self._hint = label("", muted=True, wrap=True)
        self.save = push_button("Save…", self._ask, "primary")
        self.save.setDefault(True)
        self.setLayout(
            in_column(form, self._hint, in_row(None, push_button("Cancel", self.reject), self.save), gap=10)
        )
        self.width_of.currentIndexChanged.connect(self._on_width)
        self.points.valueChanged.connect(self._check)
        self._on_width()

    def _on_width(self) -> None:
        self.points.setValue(self.width_of.currentData().usual_points)
        self._check()

    def _check(self) -> None:
        words = _FIGURE
        try:
            self._paper()
        except UsageError as error:
            words = f"{as_sentence(str(error))} {as_sentence(error.hint)}"
        self.save.setEnabled(words == _FIGURE)
        self._hint.setText(words)

    def _paper(self) -> Paper:
        return Paper(self.width_of.currentData(), self.points.value())

    def _ask(self) -> None:
        suggested = f"{self._model}-{self.shows.currentData().value}.pdf"
        if path := ask_target(self, "Save the figure", suggested, "PDF (*.pdf);;SVG (*.svg)"):
            self.take(path)

    def take(self, path: Path) -> None:
        try:
            figure = FigureFile(path, self.shows.currentData(), self._paper())
        except UsageError as error:
            self._hint.setText(f"{as_sentence(str(error))} {as_sentence(error.hint)}")
            return
        self.wanted.emit(figure)
        self.accept()
