from __future__ import annotations

import html
import threading
import time

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QGridLayout, QLabel, QProgressBar, QScrollArea, QWidget

from app.models.session import Session
from app.theme import CurrentTheme, Theme
from app.views.common.widgets import Dialog, called, in_column, in_row, label, push_button
from app.workers.background import Background
from checkmate.doctor.diagnosis import Diagnosis, Line, PartState
from checkmate.doctor.lines import diagnose
from checkmate.doctor.look import look_around
from checkmate.progress import silent

_SIZE = (840, 580)  # pixels
_ROLES = {PartState.OK: "held", PartState.LIMITED: "backward", PartState.MISSING: "problem"}
_PATIENCE_S = 2.0


class DoctorDialog(Dialog):
    """Checks the machine as soon as it is open. The window can be used meanwhile. Closing it ends the
    processes that check. It does not check while a model is measured: only one process at a time may use a
    GPU, and a measurement needs the machine alone."""

    def __init__(self, theme: CurrentTheme, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent, "What this machine can do", _SIZE, once=True)
        self._theme, self._session = theme, session
        self.found: Diagnosis | None = None  # also while the check runs
        self._stopped = threading.Event()
        self._background = Background(self)
        self._background.done.connect(lambda _: self._on_done())
        self._background.failed.connect(self._on_done)
        self._verdict = label("", name="title", wrap=True)
        self._bar = called(QProgressBar(textVisible=False), "Looking")
        self._bar.setRange(0, 0)
        self._area = called(QScrollArea(widgetResizable=True), "What was found")
        self._area.setFrameShape(QScrollArea.Shape.NoFrame)
        self._copy, self._again = push_button("Copy", self._on_copy), push_button("Look again", self.look)
        buttons = in_row(self._copy, self._again, None, push_button("Close", self.reject))
        self.setLayout(in_column(self._verdict, self._bar, (self._area, 1), buttons, gap=10))
        self.finished.connect(self.stop)
        application = QCoreApplication.instance()
        assert application is not None
        application.aboutToQuit.connect(self.stop)
        theme.changed.connect(self._show_found)
        self.look()

    def look(self) -> None:
        if self._session.device_busy:
            self._bar.hide()
            self._verdict.setText(
                "A model is being measured, and this check would disturb it. Look again when it is done."
            )
            return
        self._stopped.clear()
        self.found = None
        self._verdict.setText("Looking. TensorFlow takes a few seconds to answer.")
        self._bar.show()
        self._copy.setEnabled(False)
        self._again.setEnabled(False)
        self._area.setWidget(QWidget())
        self._background.start(self._work)

    def stop(self) -> None:
        self._stopped.set()
        self._background.close(_PATIENCE_S)

    def _work(self) -> None:
        started = time.monotonic()
        facts = look_around(report=silent, cancelled=self._stopped.is_set)
        self.found = diagnose(facts, time.monotonic() - started)

    def _on_done(self, problem: str = "") -> None:
        self._bar.hide()
        self._again.setEnabled(True)
        if self.found is None:
            self._verdict.setText(problem)
            return
        self._verdict.setText(self.found.verdict)
        self._copy.setEnabled(True)
        self._show_found()

    def _show_found(self) -> None:
        if self.found is not None:
            self._area.setWidget(self._table(self.found.lines))

    def _table(self, lines: tuple[Line, ...]) -> QWidget:
        table = QWidget()
        grid = QGridLayout(table)
        grid.setContentsMargins(0, 0, 12, 0)
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(2, 1)
        for number, line in enumerate(lines):
            state, title = QLabel(line.state.value), label(line.title, name="title")
            state.setStyleSheet(f"color: {self._theme.color(_ROLES[line.state]).name()}; font-weight: 600;")
            for place, part in enumerate((state, title, _text(line, self._theme.now))):
                grid.addWidget(part, number, place, Qt.AlignmentFlag.AlignTop)
        grid.setRowStretch(len(lines), 1)
        return table

    def _on_copy(self) -> None:
        if self.found is not None:
            QGuiApplication.clipboard().setText(self.found.text())


def _text(line: Line, theme: Theme) -> QLabel:
    mend = line.mend if line.state is not PartState.OK else ""
    more = (
        f'<br><span style="color:{theme.color("accent").name()}">→ {html.escape(mend)}</span>' if mend else ""
    )
    text = label(f"{html.escape(line.text)}{more}", wrap=True)
    text.setTextFormat(Qt.TextFormat.RichText)
    text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return text
