"""A line of text that is cut to its place, and whole in its tooltip."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy

_LEAST = 24  # pixels


class ElidedLabel(QLabel):
    """Takes as little room as there is; ``whole`` is its text."""

    def __init__(self, name: str = "", mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight) -> None:
        super().__init__()
        self.whole, self._mode = "", mode
        self.setObjectName(name)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def set_whole(self, text: str, tip: str = "") -> None:
        """Show ``text``, cut where it does not fit; ``tip`` says more than it."""
        if text != self.whole:
            self.whole = text
            self.setAccessibleName(text)
            self.updateGeometry()
        self.setToolTip(tip or text)
        self._cut()

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        around = hint.width() - self.fontMetrics().horizontalAdvance(self.text())
        return QSize(self.fontMetrics().horizontalAdvance(self.whole) + max(0, around) + 2, hint.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._cut()

    def _cut(self) -> None:
        room = self.contentsRect().width() - 2 * self.margin()
        self.setText(self.fontMetrics().elidedText(self.whole, self._mode, room))
