"""A line above the views while costs are still being measured.

The costs are those on screen.
"""

from __future__ import annotations

import time

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from app.models.session import Session
from app.views.common.panel import label

_ENOUGH = 2  # items counted: only then can the remaining time be estimated


class MeasuringBar(QWidget):
    """Shows how far the measurement is, and a button that ends it.

    It is visible while the costs on screen are estimates that measured ones will replace.
    """

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._exploration = session, session.exploration
        self._last = (0.0, 0.0)  # how much was done, and when
        self.setObjectName("measuring")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 6, 12, 6)
        row.setSpacing(10)
        self._words = label("", wrap=True)
        row.addWidget(self._words, 1)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedWidth(160)
        row.addWidget(self._bar)
        self.keep = QPushButton("Use estimates")
        self.keep.setObjectName("small")
        self.keep.setToolTip("Stop measuring, and go on with estimated costs")
        self.keep.clicked.connect(self._on_keep)
        row.addWidget(self.keep)
        self.hide()
        session.progressed.connect(self._on_progress)
        session.exploration.passing_changed.connect(self._on_passing)

    @property
    def text(self) -> str:
        return self._words.text()

    def _on_keep(self) -> None:
        self.keep.setEnabled(False)
        self._session.cancel_device()

    def _on_passing(self) -> None:
        self._say("", 0, 0)
        self.keep.setEnabled(True)
        self.setVisible(self._exploration.passing)

    def _on_progress(self, stage: str, message: str, done: float, total: float) -> None:
        if self._exploration.passing and stage == "measure":
            self._say(message, done, total)

    def _say(self, message: str, done: float, total: float) -> None:
        words = "Measuring every op on this device; the costs shown are estimates until then"
        if message:
            words += f" · {message}"
        before, now = self._last, (done, time.monotonic())
        self._last = now
        if _ENOUGH <= done < total and before[0] < done:
            # Estimated from the pace of the last run; the measurement may need fewer runs.
            words += (
                f", at most about {(now[1] - before[1]) * (total - done) / (done - before[0]):.0f} s left"
            )
        self._words.setText(words)
        self._bar.setRange(0, int(total))
        self._bar.setValue(int(done))
        self.setAccessibleName(words)
