from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QRectF, QSize, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from app.presenters.export_result import ExportCard
from app.theme import CurrentTheme
from app.views.common.painting import LEFT, RIGHT, down, ink, smooth
from app.views.common.panel import Panel
from app.views.common.widgets import fill, in_row, label, push_button
from checkmate.units import format_bytes

_ROW, _BAR, _GAP = 24, 12, 10  # pixels
_ROOM = 1.04  # of the largest: the line of a budget stays inside


class CardPanel(Panel):
    """Shows what an export measured and wrote."""

    def __init__(self, card: ExportCard, directory: Path, theme: CurrentTheme) -> None:
        super().__init__("Written, but not as promised" if card.missed else "Verified and written")
        self._card, self._directory = card, directory
        facts = QGridLayout()
        facts.setColumnStretch(1, 1)
        facts.setHorizontalSpacing(_GAP)
        for row, (name, text) in enumerate(card.facts):
            facts.addWidget(label(name, muted=True), row, 0, Qt.AlignmentFlag.AlignTop)
            facts.addWidget(_words(text), row, 1)
        self._lines = push_button(f"Copy the three lines that {card.lines_do}", self._on_copy)
        self._lines.setToolTip("\n".join(card.lines))
        folder = push_button("Open folder", self._on_open, tip=str(directory))
        fill(
            self.body,
            *(_words(sentence, "problem") for sentence in card.missed),
            _PeakBars(card, theme),
            facts,
            *(_words(note, "muted") for note in card.notes),
            in_row(folder, self._lines, None),
        )

    def _on_copy(self) -> None:
        QGuiApplication.clipboard().setText("\n".join(self._card.lines) + "\n")
        self.note.setText("Copied")

    def _on_open(self) -> None:
        if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._directory.absolute()))):
            self.note.setText("No program here opens folders")


def _words(text: str, name: str = "") -> QLabel:
    made = label(text.replace("/", "/\u200b"), name=name, wrap=True)  # a path wraps too
    made.setTextFormat(Qt.TextFormat.PlainText)
    return made


class _PeakBars(QWidget):
    """Draws the peak of both steps from zero, and the budget as a line across."""

    def __init__(self, card: ExportCard, theme: CurrentTheme) -> None:
        super().__init__()
        self._card, self._theme = card, theme
        self._figures = [f"{format_bytes(bar.size)} {bar.how}" for bar in card.bars]
        self._budget = f"budget {format_bytes(card.budget_bytes)}"
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        said = [f"{bar.name} {figure}" for bar, figure in zip(card.bars, self._figures, strict=True)]
        self.setAccessibleName(", ".join((*said, self._budget)))

    def sizeHint(self) -> QSize:
        return QSize(_ROW, _ROW * (len(self._card.bars) + 1))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, color, width = smooth(self), self._theme.color, self.fontMetrics().horizontalAdvance
        left = max(width(bar.name) for bar in self._card.bars) + _GAP
        right = self.width() - max(map(width, self._figures)) - _GAP
        budget = self._card.budget_bytes
        scale = (right - left) / (_ROOM * max(budget, *(bar.size for bar in self._card.bars)))
        for row, (bar, figure) in enumerate(zip(self._card.bars, self._figures, strict=True)):
            line = QRectF(0, row * _ROW, self.width(), _ROW)
            painter.setPen(color("text"))
            painter.drawText(line, LEFT, bar.name)
            painter.drawText(line.adjusted(right + _GAP, 0, 0, 0), LEFT, figure)
            role = "freed" if bar is self._card.bars[0] else "held" if bar.size <= budget else "problem"
            ink(painter, None, color(role))
            painter.drawRoundedRect(QRectF(left, line.center().y() - _BAR / 2, bar.size * scale, _BAR), 3, 3)
        self._paint_budget(painter, left + budget * scale, right, width(self._budget))

    def _paint_budget(self, painter: QPainter, at: float, right: float, wide: int) -> None:
        rows, color = _ROW * len(self._card.bars), self._theme.color("text")
        ink(painter, QPen(color, 1.5, Qt.PenStyle.DashLine))
        down(painter, QRectF(0, 2, self.width(), rows + 2), at)
        begin = max(0.0, min(at - wide / 2, self.width() - wide))
        painter.drawText(QRectF(begin, rows + 2, wide, _ROW - 2), RIGHT, self._budget)
