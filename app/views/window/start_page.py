"""The page that is shown while no graph is open.

It is there before anything is open, while a model is being profiled, and after a failure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.models.recent import Explored
from app.presenters.wording import strong
from app.views.common.panel import Panel, label
from checkmate.catalog.bundled import graph_files
from checkmate.catalog.samples import SAMPLES

_STAGES = ("load", "trace", "fold", "measure")
_TITLES = {
    "load": "Start TensorFlow and load the model",
    "trace": "Trace the training step",
    "fold": "Fold it into a graph",
    "measure": "Measure every op on this device",
}


class StartPage(QWidget):
    """The first page.

    Signals: ``open_wanted``; ``sample_wanted(name)``; ``graph_wanted(path)``; ``cancel_wanted``.
    """

    open_wanted = Signal()
    sample_wanted = Signal(str)
    graph_wanted = Signal(str)
    cancel_wanted = Signal()

    def __init__(self, recent: Sequence[Explored] = ()) -> None:
        super().__init__()
        self._recent = recent
        outer = QHBoxLayout(self)
        outer.addStretch(1)
        column = QVBoxLayout()
        column.addStretch(1)
        self._card = self._make_card()
        self._work = self._make_work()
        self._work.setVisible(False)
        column.addWidget(self._card)
        column.addWidget(self._work)
        self._problem = Panel("That did not work")
        self._sentence = label("", name="problem", wrap=True)
        self._hint = label("", wrap=True)
        self._problem.body.addWidget(self._sentence)
        self._problem.body.addWidget(self._hint)
        self._problem.setVisible(False)
        column.addWidget(self._problem)
        column.addStretch(2)
        outer.addLayout(column)
        outer.addStretch(1)
        for card in (self._card, self._work, self._problem):
            card.setFixedWidth(560)

    def _make_card(self) -> Panel:
        card = Panel("No model open")
        drop = label("Drop a Keras model or a graph file here")
        drop.setAlignment(Qt.AlignmentFlag.AlignCenter)
        drop.setObjectName("drop")
        drop.setMinimumHeight(92)
        card.body.addWidget(drop)
        kinds = label(".keras   .h5   graph .json", muted=True)
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        card.body.addWidget(kinds)
        open_button = QPushButton("Open…")
        open_button.setObjectName("primary")
        open_button.clicked.connect(self.open_wanted)
        card.body.addWidget(open_button)
        if self._recent:
            card.body.addWidget(label("Recent explorations, with every schedule found", name="title"))
            for explored in self._recent:
                at = time.strftime("%d %B, %H:%M", time.localtime(explored.closed_at)).lstrip("0")
                card.body.addWidget(self._link(explored.name, at, str(explored.path), graph=True))
        graphs = graph_files()
        if graphs:
            card.body.addWidget(label("Graphs to explore right away, without TensorFlow", name="title"))
            for path in graphs:
                card.body.addWidget(
                    self._link(path.name.split(".")[0], "profiled training step", str(path), graph=True)
                )
        card.body.addWidget(label("Sample models, profiled on this machine", name="title"))
        for sample in SAMPLES:
            card.body.addWidget(self._link(sample.name, sample.description, sample.name, graph=False))
        return card

    def _link(self, name: str, text: str, target: str, *, graph: bool) -> QWidget:
        row = QWidget()
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        button = QPushButton(name)
        button.setObjectName("link")
        button.setAccessibleName(f"Open {name}")
        button.clicked.connect(lambda: (self.graph_wanted if graph else self.sample_wanted).emit(target))
        layout.addWidget(button)
        layout.addStretch(1)
        layout.addWidget(label(text, muted=True))
        return row

    def _make_work(self) -> Panel:
        work = Panel("Profiling")
        self._steps = [(label(""), label("", muted=True)) for _ in _STAGES]
        for step, seconds in self._steps:
            line = QHBoxLayout()
            line.addWidget(step, 1)
            line.addWidget(seconds)
            work.body.addLayout(line)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        work.body.addWidget(self._bar)
        self._cancel = QPushButton("Cancel")
        self._cancel.clicked.connect(self._on_cancel)
        row = QHBoxLayout()
        row.addWidget(self._cancel)
        row.addStretch(1)
        work.body.addLayout(row)
        self._began: dict[int, float] = {}  # when each step began
        self._reached, self._message = 0, ""
        self._clock = QTimer(self)
        self._clock.setInterval(500)
        self._clock.timeout.connect(self._show_steps)
        return work

    def _on_cancel(self) -> None:
        """Show that the click was seen.

        An import of TensorFlow cannot be interrupted: the process ends within two seconds.
        """
        self._cancel.setEnabled(False)
        self._cancel.setText("Cancelling…")
        self.cancel_wanted.emit()

    def show_work(self, name: str) -> None:
        """Show that a model is being profiled."""
        self._cancel.setEnabled(True)
        self._cancel.setText("Cancel")
        self._card.setVisible(False)
        self._problem.setVisible(False)
        self._work.setVisible(True)
        self._work.note.setText(Path(name).name)
        self._began.clear()
        self.show_progress("load", "", 0, 0)
        self._clock.start()

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

    def show_start(self) -> None:
        """Show the beginning again."""
        self._clock.stop()
        self._work.setVisible(False)
        self._card.setVisible(True)

    def show_problem(self, sentence: str, hint: str) -> None:
        """Show one sentence about what went wrong, and what to do."""
        self.show_start()
        self._sentence.setText(sentence)
        self._hint.setText(hint)
        self._problem.setVisible(True)
