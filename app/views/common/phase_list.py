from __future__ import annotations

import time

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QProgressBar, QWidget

from app.presenters.phases import BROKEN, COMING, PRESENT, Phase, Story
from app.presenters.wording import strong
from app.views.common.widgets import NO_EDGES, called, in_column, label
from app.workers.background import every

_PARTS = 1000  # of the bar
_GAP = 4  # pixels


class PhaseList(QWidget):
    """Lists the phases of a job with the seconds they take. The bar below counts them, and a part of the
    present one only where that is known."""

    def __init__(self) -> None:
        super().__init__()
        self._story, self._message = Story((), ()), ""
        self._lines: list[tuple[QLabel, QLabel]] = []
        self._grid = QGridLayout()
        self._grid.setColumnStretch(0, 1)
        self._grid.setVerticalSpacing(_GAP)
        self._bar = called(QProgressBar(textVisible=False, maximum=_PARTS), "Phases")
        self._words = label("", muted=True, wrap=True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self.setLayout(in_column(self._grid, self._bar, self._words, gap=8, edges=NO_EDGES))
        self._clock = every(self, 500, self._show)

    def begin(self, phases: tuple[Phase, ...]) -> None:
        self._story, self._message = Story(phases, ((0, time.monotonic()),)), ""
        self._clock.start()
        self._show()

    def end(self) -> None:
        """Leave the phase that was reached as the one where it ended."""
        if self._clock.isActive():
            self._clock.stop()
            self._show(BROKEN)

    def show_progress(self, stage: str, message: str, done: float, total: float) -> None:
        if self._clock.isActive():
            self._story = self._story.told(stage, done, total, time.monotonic())
            self._message = message
            self._show()

    def _show(self, mark: str = PRESENT) -> None:
        rows = self._story.rows(time.monotonic(), mark)
        while len(self._lines) < len(rows):
            line = label("", name="phase"), label("", muted=True)
            for column, part in enumerate(line):
                self._grid.addWidget(part, len(self._lines), column)
            self._lines.append(line)
        for number, (title, seconds) in enumerate(self._lines):
            row = rows[number] if number < len(rows) else None
            for part in (title, seconds):
                part.setVisible(row is not None)
            if row is not None:
                text = f"{row.mark}\u00a0\u00a0{row.title}"  # spaces that rich text keeps too
                title.setText(strong(text) if row.mark == mark else text)
                title.setEnabled(row.mark != COMING)
                seconds.setText(row.seconds)
        reached = f"Phase {len(self._story.begun)} of {self._story.count}"
        self._bar.setValue(int(_PARTS * self._story.finished))
        self._bar.setAccessibleName(reached)
        self._words.setText(f"{reached}: {self._message}" if self._message else reached)
