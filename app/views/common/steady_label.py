"""A text that changes often and seldom needs another size."""

from __future__ import annotations

import re

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

_DIGIT = r"\d(?![^<]*>)"  # outside the marks of rich text


class SteadyLabel(QWidget):
    """Shows a text, and is laid out anew only where that needs another size.

    A plain label asks for a new layout of the window with each text. A text that wraps takes the width that
    there is; another has room for any digits in the place of its own, and at least ``least`` pixels.
    """

    def __init__(self, name: str = "", *, wrap: bool = False, least: int = 0) -> None:
        super().__init__()
        self._label, self._least, self._measured = QLabel(self), least, ""
        self._label.setObjectName(name)
        self._label.setWordWrap(wrap)
        if wrap:
            self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def text(self) -> str:
        return self._label.text()

    def setText(self, text: str) -> None:
        """Say something else."""
        if text == self._label.text():
            return
        self._label.setText(text)
        if self._label.wordWrap():
            self._fit_height()
        elif (widest := self._with_widest_digits(text)) != self._measured:
            self._measured = widest
            self._label.setText(widest)
            self.setFixedSize(self._label.sizeHint().expandedTo(QSize(self._least, 0)))
            self._label.setText(text)

    def _with_widest_digits(self, text: str) -> str:
        width = self._label.fontMetrics().horizontalAdvance
        return re.sub(_DIGIT, max("0123456789", key=width), text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._label.resize(self.size())
        self._fit_height()

    def _fit_height(self) -> None:
        """Take as many lines as the width needs."""
        if self._label.wordWrap():
            high = max(0, self._label.heightForWidth(max(1, self.width())))
            if high != self.minimumHeight():
                self.setFixedHeight(high)
