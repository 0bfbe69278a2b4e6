"""A text over several lines that always has the height it needs."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy


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
