from __future__ import annotations

import re

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QWidget

from app.views.common.widgets import WidgetMixin

_LEAST = 24  # pixels


class _Elided(WidgetMixin):
    """Elides its text if there is too little room; ``whole`` is the full text."""

    whole = ""

    def set_whole(self, text: str, tip: str = "") -> None:
        if text != self.whole:
            self.whole = text
            self.setAccessibleName(text)
            self.updateGeometry()
        self.setToolTip(tip or text)
        self._cut()

    def _cut(self) -> None:
        raise NotImplementedError

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._cut()


class ElidedLabel(_Elided, QLabel):
    def __init__(self, name: str = "", mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight) -> None:
        super().__init__()
        self._mode = mode
        self.setObjectName(name)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        hint, width = super().sizeHint(), self.fontMetrics().horizontalAdvance
        return QSize(width(self.whole) + max(0, hint.width() - width(self.text())) + 2, hint.height())

    def _cut(self) -> None:
        room = self.contentsRect().width() - 2 * self.margin()
        self.setText(self.fontMetrics().elidedText(self.whole, self._mode, room))


class Link(QPushButton):
    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("link")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click does not move the keyboard focus

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (
            Qt.Key.Key_Return,
            Qt.Key.Key_Enter,
        ):  # a plain button hears it on some desktops
            self.click()
        else:
            super().keyPressEvent(event)


class ElidedLink(_Elided, Link):
    """A link elided in the middle, because many names begin and end alike."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def _cut(self) -> None:
        room = max(1, self.width() - 6)
        text = self.fontMetrics().elidedText(self.whole, Qt.TextElideMode.ElideMiddle, room)
        self.setText(text.replace("&", "&&"))


_DIGIT = r"\d(?![^<]*>)"  # outside the marks of rich text


class SteadyLabel(QWidget):
    """A label that changes its size only if a new text needs it; a QLabel lays out the window for each text.
    A wrapping text takes the available width. Any other is as wide as with the widest digits in place of its
    own, so that counting does not change the width, and at least ``least`` pixels."""

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
        if self._label.wordWrap():
            high = max(0, self._label.heightForWidth(max(1, self.width())))
            if high != self.minimumHeight():
                self.setFixedHeight(high)


class WrappedLabel(QLabel):
    """Asks for as many lines as its width needs. Inside other layouts, Qt gives the mean of all widths."""

    def __init__(self, text: str, name: str = "muted") -> None:
        super().__init__(text)
        self.setObjectName(name)
        self.setWordWrap(True)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Minimum)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self.heightForWidth(self.width()))
