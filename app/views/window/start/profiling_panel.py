"""The panel that says how far the profile of a model is."""

from __future__ import annotations

import time
from pathlib import Path

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton

from app.presenters.wording import strong
from app.views.common.panel import Panel, label

_STAGES = ("load", "trace", "fold", "measure")
_TITLES = {
    "load": "Start TensorFlow and load the model",
    "trace": "Trace the training step",
    "fold": "Fold it into a graph",
    "measure": "Measure every op on this device",
}


class ProfilingPanel(Panel):
    """Lists the steps of a profile with the seconds they take. Signals: ``cancel_wanted``."""

    cancel_wanted = Signal()

    def __init__(self) -> None:
        super().__init__("Profiling")
        self._steps = [(label(""), label("", muted=True)) for _ in _STAGES]
        for step, seconds in self._steps:
            line = QHBoxLayout()
            line.addWidget(step, 1)
            line.addWidget(seconds)
            self.body.addLayout(line)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self.body.addWidget(self._bar)
        self._cancel = QPushButton("Cancel")
        self._cancel.clicked.connect(self._on_cancel)
        row = QHBoxLayout()
        row.addWidget(self._cancel)
        row.addStretch(1)
        self.body.addLayout(row)
        self._began: dict[int, float] = {}  # when each step began
        self._reached, self._message = 0, ""
        self._clock = QTimer(self)
        self._clock.setInterval(500)
        self._clock.timeout.connect(self._show_steps)

    def _on_cancel(self) -> None:
        """Show that the click was seen.

        An import of TensorFlow cannot be interrupted: the process ends within two seconds.
        """
        self._cancel.setEnabled(False)
        self._cancel.setText("Cancelling…")
        self.cancel_wanted.emit()

    def begin(self, name: str) -> None:
        """Show that a model is being profiled."""
        self._cancel.setEnabled(True)
        self._cancel.setText("Cancel")
        self.note.setText(Path(name).name)
        self._began.clear()
        self.show_progress("load", "", 0, 0)
        self._clock.start()

    def end(self) -> None:
        self._clock.stop()

    def show_progress(self, stage: str, message: str, done: float, total: float) -> None:
        """Show how far the profile is."""
        reached = _STAGES.index(stage) if stage in _STAGES else 0
        now = time.monotonic()
        for number in range(len(self._began), reached + 1):
            self._began[number] = now
        self._reached, self._message = reached, message
        self._bar.setRange(0, int(total))
        self._bar.setValue(int(done))
        self._show_steps()

    def _show_steps(self) -> None:
        """Show each step with the seconds it took or has taken so far."""
        now, reached = time.monotonic(), _STAGES[self._reached]
        for number, (name, (line, seconds)) in enumerate(zip(_STAGES, self._steps, strict=True)):
            mark = "✓" if number < self._reached else "●" if number == self._reached else "○"
            # Of the other steps, what is reported says no more than the title does.
            more = f": {self._message}" if name == reached == "measure" and self._message else ""
            text = f"{mark}\u00a0\u00a0{_TITLES[name]}{more}"  # spaces that rich text keeps too
            line.setText(strong(text) if number == self._reached else text)
            began = self._began.get(number)
            end = self._began.get(number + 1, now)
            seconds.setText("" if began is None else f"{end - began:.0f} s")
