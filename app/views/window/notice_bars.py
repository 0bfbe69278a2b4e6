from __future__ import annotations

import html
import time
from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QProgressBar, QWidget

from app.models.session import Session
from app.presenters.wording import as_sentence, strong
from app.theme import CurrentTheme
from app.views.common.widgets import called, in_row, label, push_button

_EDGES = 14, 6, 12, 6  # pixels


class NoticeBar(QWidget):
    """A line that is hidden until ``say``. Signal ``report_wanted(sentence, hint)``."""

    report_wanted = Signal(str, str)

    def __init__(self, theme: CurrentTheme) -> None:
        super().__init__()
        self._theme = theme
        self.setObjectName("notice")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._sentence = self._hint = self._offered = ""
        self._words = label("", name="problem", wrap=True)
        self._words.setTextFormat(Qt.TextFormat.RichText)
        self._act: Callable[[], object] = self.hide
        self.action = push_button("What to do", lambda: self._act(), "small")
        self.copy = push_button(
            "Copy report", lambda: self.report_wanted.emit(self._sentence, self._hint), "small"
        )
        self._left = set[str]()  # choices that the user did not want
        self.dismiss = push_button("Dismiss", self.leave, "small")
        self.setLayout(in_row((self._words, 1), self.action, self.copy, self.dismiss, gap=10, edges=_EDGES))
        theme.changed.connect(self._write)
        self.hide()

    @property
    def text(self) -> str:
        return f"{self._sentence} {self._hint}".strip()

    def say(self, sentence: str, hint: str, action: tuple[str, Callable[[], object]] | None = None) -> None:
        """Say what failed; or with an ``action``, offer it, unless the user has left this choice before."""
        if action is not None and sentence in self._left:
            return
        self._offered = "" if action is None else sentence
        self.setProperty("mild", action is not None)  # a choice, not a failure
        for styled in (self, self._words):
            self.style().unpolish(styled)
            self.style().polish(styled)
        self.action.setVisible(action is not None)
        self.copy.setVisible(action is None)
        if action is not None:
            name, self._act = action
            self.action.setText(name)
        self._sentence, self._hint = as_sentence(sentence), as_sentence(hint)
        self._write()
        self.setAccessibleName(self.text)
        self.show()

    def _write(self) -> None:
        # Escaped: they name files and code.
        color, hint = self._theme.color("text").name(), html.escape(self._hint)
        after = f'&nbsp; <span style="font-weight:400; color:{color}">{hint}</span>' if hint else ""
        self._words.setText(strong(self._sentence) + after)

    def leave(self) -> None:
        self._left.add(self._offered)
        self.hide()

    def hide_failure(self) -> None:
        """Hide a failure, because the user has gone on; a choice stays."""
        if self.action.isHidden():
            self.hide()


_ENOUGH = 2  # items counted: only then can the remaining time be estimated


class MeasuringBar(QWidget):
    """Shows how far the measurement is, and a button that ends it. It is visible while the costs on screen
    are estimates that measured ones will replace."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session, self._exploration = session, session.exploration
        self._last = (0.0, 0.0)  # how much was done, and when
        self.setObjectName("measuring")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._words = label("", wrap=True)
        self._bar = called(QProgressBar(textVisible=False), "Measured so far")
        self._bar.setFixedWidth(160)
        tip = "Stop measuring, and go on with estimated costs"
        self.keep = push_button("Use estimates", self._on_keep, "small", tip=tip)
        self.setLayout(in_row((self._words, 1), self._bar, self.keep, gap=10, edges=_EDGES))
        self.hide()
        session.progressed.connect(self._on_progress)
        session.exploration.passing_changed.connect(self._on_passing)

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
