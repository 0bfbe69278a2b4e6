"""A titled panel, the frame that every view sits in."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget


class Panel(QFrame):
    """A rounded frame with a title on the left and a muted note on the right."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("panel")
        self.setAccessibleName(title)
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(12, 9, 12, 10)
        self.body.setSpacing(6)
        self.head = QHBoxLayout()
        self.head.setSpacing(8)
        heading = QLabel(title)
        heading.setObjectName("title")
        self.note = label("", muted=True)
        self.head.addWidget(heading)
        self.head.addStretch(1)
        self.head.addWidget(self.note)
        self.body.addLayout(self.head)


def label(text: str, *, muted: bool = False, name: str | None = None, wrap: bool = False) -> QLabel:
    """Return a text label for a role."""
    made = QLabel(text)
    if muted or name:
        made.setObjectName(name or "muted")
    made.setWordWrap(wrap)
    return made
