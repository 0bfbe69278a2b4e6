"""Buttons like links; one is cut to its place, and whole in its tooltip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy

_LEAST = 24  # pixels


class Link(QPushButton):
    """A button like a link; Return follows it, as Space does."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("link")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keys where they were

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)


class ElidedLink(Link):
    """Takes as little room as there is; ``whole`` is its text.

    It is cut in the middle, because names begin and end alike.
    """

    def __init__(self) -> None:
        super().__init__()
        self.whole = ""
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def set_whole(self, text: str, tip: str = "") -> None:
        """Show ``text``, cut where it does not fit; ``tip`` says more than it."""
        self.whole = text
        self.setAccessibleName(text)
        self.setToolTip(tip or text)
        self._cut()

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._cut()

    def _cut(self) -> None:
        text = self.fontMetrics().elidedText(
            self.whole, Qt.TextElideMode.ElideMiddle, max(1, self.width() - 6)
        )
        self.setText(text.replace("&", "&&"))
