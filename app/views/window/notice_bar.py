"""A line that says what went wrong and what to do next.

It is under the command bar until it is dismissed.
"""

from __future__ import annotations

import html
from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QHBoxLayout, QPushButton, QWidget

from app.presenters.wording import as_sentence, strong
from app.theme import CurrentTheme
from app.views.common.panel import label


class NoticeBar(QWidget):
    """A line that is hidden until ``say``.

    ``report(sentence, hint)`` returns what "Copy report" puts on the clipboard.
    """

    def __init__(
        self, report: Callable[[str, str], str], theme: CurrentTheme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._report, self._theme = report, theme
        self.setObjectName("notice")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 6, 12, 6)
        row.setSpacing(10)
        self._sentence = self._hint = ""
        self._words = label("", name="problem", wrap=True)
        self._words.setTextFormat(Qt.TextFormat.RichText)
        row.addWidget(self._words, 1)
        self.copy, self.dismiss = QPushButton("Copy report"), QPushButton("Dismiss")
        self.action = QPushButton("What to do")
        self.action.setObjectName("small")
        self.action.clicked.connect(lambda: self._act())
        self._act: Callable[[], object] = self.hide
        row.addWidget(self.action)
        for button, act in ((self.copy, self._on_copy), (self.dismiss, self.hide)):
            button.setObjectName("small")
            button.clicked.connect(act)
            row.addWidget(button)
        theme.changed.connect(self._write)
        self.hide()

    @property
    def text(self) -> str:
        return f"{self._sentence} {self._hint}".strip()

    def say(self, sentence: str, hint: str, action: tuple[str, Callable[[], object]] | None = None) -> None:
        """Show a sentence and what to do, in words and perhaps with a button.

        It replaces what was shown before.
        """
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
        """Write the words, the hint in the colour of all text."""
        # Escaped: they name files and code.
        color, hint = self._theme.now.text, html.escape(self._hint)
        after = f'&nbsp; <span style="font-weight:400; color:{color}">{hint}</span>' if hint else ""
        self._words.setText(strong(self._sentence) + after)

    def hide_failure(self) -> None:
        """Hide a failure, because the user has gone on; a choice stays."""
        if self.action.isHidden():
            self.hide()

    def _on_copy(self) -> None:
        QApplication.clipboard().setText(self._report(self._sentence, self._hint))
