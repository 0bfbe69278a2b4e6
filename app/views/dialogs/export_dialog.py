from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFileDialog, QFormLayout, QLineEdit, QProgressBar, QWidget

from app.models.session import Session
from app.presenters.export_result import first_budget, result_text
from app.presenters.paper import LEAST_POINTS, MOST_POINTS, FigureFile, Paper, Shows, Width
from app.presenters.schedule_rows import cost_text
from app.presenters.wording import as_sentence, strong
from app.views.common.widgets import (
    ChoiceBox,
    DecimalBox,
    Dialog,
    called,
    in_column,
    in_row,
    label,
    push_button,
)
from checkmate.errors import UsageError
from checkmate.units import Budget, format_bytes, parse_budget


class ExportDialog(Dialog):
    """Runs the export in the device process; closing the dialog cancels it. The window can be used
    meanwhile."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent, "Export training graph", once=True)
        self.setMinimumWidth(560)
        self._session = session
        self._directory = Path()
        shown = session.exploration.shown
        assert shown is not None
        # Better ones may come on screen while this is open; the schedule named in the title is written.
        self._found = shown
        self._default_text, self._default = first_budget(shown, session.exploration.budget_bytes)
        self._bar = QProgressBar(textVisible=False)
        self._bar.setVisible(False)
        self._status = label("", wrap=True)
        self._close = push_button("Close", self.reject)
        self._start = push_button("Export and verify", self._on_start, "primary")
        self._start.setDefault(True)  # Return in a field begins, and does not open the folder chooser
        buttons = in_row(None, self._close, self._start)
        summary = label(self._summary(), name="title", wrap=True)
        promise = label(self._promise(), muted=True, wrap=True)
        self.setLayout(in_column(summary, promise, self._form(), self._bar, self._status, buttons, gap=10))
        self._running = False
        session.progressed.connect(self._on_progress)
        session.exported.connect(self._on_exported)
        session.failed.connect(self._on_failed)
        session.device_ended.connect(self._on_ended)

    def _summary(self) -> str:
        peak, cost = format_bytes(self._found.peak_bytes), cost_text(self._found.overhead)
        return f"Peak {peak} predicted, {cost} step cost"

    def _promise(self) -> str:
        over = "If the peak is over the budget, tries a smaller schedule, a minute or two each."
        if self._found.graph.runner.compiled:
            over = (
                "XLA compiles it where it is loaded, and says its bytes: schedules are compiled until one\n"
                "keeps the budget."
            )
        return (
            "Writes graph, schedule, report, and a SavedModel that needs TensorFlow alone.\n"
            f"Measures the peak in fresh processes. Compares the step with the plain one.\n{over}"
        )

    def _form(self) -> QFormLayout:
        self._folder = called(QLineEdit(str(Path.cwd() / f"{self._found.graph.name}-export")), "Folder")
        most = "The most memory that the device's allocator may show"
        self._budget = called(
            QLineEdit(self._default_text), most, f"{most}: 6.5GiB, 800MiB, or 60% of the plain step's memory"
        )
        form = QFormLayout()
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
            self._status.setText(html.escape(as_sentence(str(error))))
            return
        self._running = True
        self._start.setEnabled(False)
        self._budget.setEnabled(False)
        self._close.setText("Cancel")
        self._bar.setVisible(True)
        self._bar.setRange(0, 0)
        self._directory = Path(self._folder.text()).expanduser()
        self._session.export(self._found, self._directory, budget)

    def _asked(self) -> Budget:
        """The budget in the field, exact to the byte if the user did not change it."""
        text = self._budget.text()
        return self._default if text == self._default_text else parse_budget(text)

    def _on_progress(self, stage: str, message: str, done: float, total: float) -> None:
        self._status.setText(message)

    def _on_ended(self) -> None:
        self._running = False
        self._bar.setVisible(False)
        self._start.setEnabled(True)
        self._budget.setEnabled(True)
        self._close.setText("Close")

    def _on_exported(self, report: dict[str, Any]) -> None:
        self._status.setText(result_text(report, self._directory))
        self.resize(self.width(), max(self.height(), self._needed_height()))

    def _needed_height(self) -> int:
        layout = self.layout()
        assert layout is not None
        return layout.totalHeightForWidth(self.width())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.resize(self.width(), self._needed_height())  # no more than that, too

    def _on_failed(self, sentence: str, hint: str) -> None:
        if not self._running:
            return  # another task failed
        self._status.setText(f"{strong(as_sentence(sentence))}<br>{html.escape(as_sentence(hint))}")

    def reject(self) -> None:
        if self._running:
            self._session.cancel_device()
            return
        super().reject()


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
        kinds = "PDF (*.pdf);;SVG (*.svg)"
        name, kind = QFileDialog.getSaveFileName(self, "Save the figure", suggested, kinds)
        if not name:
            return
        path = Path(name) if Path(name).suffix else Path(name).with_suffix(kind[-5:-1])
        self.take(path)

    def take(self, path: Path) -> None:
        try:
            figure = FigureFile(path, self.shows.currentData(), self._paper())
        except UsageError as error:
            self._hint.setText(f"{as_sentence(str(error))} {as_sentence(error.hint)}")
            return
        self.wanted.emit(figure)
        self.accept()
