"""Ask for a figure for a paper: its view, width and size of words."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.presenters.paper import LEAST_POINTS, MOST_POINTS, FigureFile, Paper, Shows, Width
from app.presenters.wording import as_sentence
from app.views.common.panel import label
from app.views.common.ringed import ChoiceBox, DecimalBox
from checkmate.errors import UsageError


class FigureDialog(QDialog):
    """Asks for a figure, and then where to save it. Signals: ``wanted(figure_file)``."""

    wanted = Signal(object)

    def __init__(self, shows: Shows, model: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("A figure for a paper")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._model = model
        self.shows, self.width_of = ChoiceBox(), ChoiceBox()
        for entry in Shows:
            self.shows.addItem(entry.words, entry)
        for width in Width:
            self.width_of.addItem(width.words, width)
        self.shows.setCurrentIndex(list(Shows).index(shows))
        self.points = DecimalBox()
        self.points.setDecimals(1)
        self.points.setRange(LEAST_POINTS, MOST_POINTS)
        self.points.setSuffix(" pt")
        form = QFormLayout()
        for name, field in (("Figure", self.shows), ("Width", self.width_of), ("Words", self.points)):
            field.setAccessibleName(name)
            form.addRow(name, field)
        self._hint = label("", muted=True, wrap=True)
        column = QVBoxLayout(self)
        column.setSpacing(10)
        column.addLayout(form)
        column.addWidget(self._hint)
        column.addLayout(self._buttons())
        self.width_of.currentIndexChanged.connect(self._on_width)
        self.points.valueChanged.connect(self._check)
        self._on_width()

    def _buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.addStretch(1)
        cancel, self.save = QPushButton("Cancel"), QPushButton("Save…")
        cancel.clicked.connect(self.reject)
        self.save.setObjectName("primary")
        self.save.setDefault(True)
        self.save.clicked.connect(self._ask)
        for button in (cancel, self.save):
            row.addWidget(button)
        return row

    @property
    def _width(self) -> Width:
        return list(Width)[self.width_of.currentIndex()]

    @property
    def _shows(self) -> Shows:
        return list(Shows)[self.shows.currentIndex()]

    def _on_width(self) -> None:
        self.points.setValue(self._width.usual_points)
        self._check()

    def _check(self) -> None:
        """Say what is written, or why it cannot be."""
        words = (
            "Lines and words, on white: a PDF with its fonts in it, or an SVG. It shows what the view shows."
        )
        try:
            Paper(self._width, self.points.value())
        except UsageError as error:
            words = f"{as_sentence(str(error))} {as_sentence(error.hint)}"
            self.save.setEnabled(False)
        else:
            self.save.setEnabled(True)
        self._hint.setText(words)

    def _ask(self) -> None:
        suggested = f"{self._model}-{self._shows.value}.pdf"
        kinds = "PDF (*.pdf);;SVG (*.svg)"
        name, kind = QFileDialog.getSaveFileName(self, "Save the figure", suggested, kinds)
        if not name:
            return
        path = Path(name) if Path(name).suffix else Path(name).with_suffix(kind[-5:-1])
        self.take(path)

    def take(self, path: Path) -> None:
        """Ask for the figure in this file, and close."""
        try:
            figure = FigureFile(path, self._shows, Paper(self._width, self.points.value()))
        except UsageError as error:
            self._hint.setText(f"{as_sentence(str(error))} {as_sentence(error.hint)}")
            return
        self.wanted.emit(figure)
        self.accept()
