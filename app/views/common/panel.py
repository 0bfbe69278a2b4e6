"""A titled panel, the frame that every view sits in."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.views.common.steady_label import SteadyLabel

_SIDE, _TOP, _GAP, _BOTTOM = 12, 9, 6, 10  # pixels around and between


class Panel(QFrame):
    """A rounded frame with a title on the left and a muted note on the right."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("panel")
        self.setAccessibleName(title)
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(_SIDE, _TOP, _SIDE, _BOTTOM)
        self.body.setSpacing(_GAP)
        self.title = title
        self.note = SteadyLabel("muted")
        self.head_bar = _Head(self.note)
        self.head = QHBoxLayout(self.head_bar)
        self.head.setContentsMargins(0, 0, 0, 0)
        self.head.setSpacing(7)
        heading = QLabel(title)
        heading.setObjectName("title")
        self.head.addWidget(heading)
        self.head.addStretch(1)
        self.head.addWidget(self.note)
        self.body.addWidget(self.head_bar)

    def want_note(self, wanted: bool) -> None:
        """Show the note where there is room for it, or never."""
        self.head_bar.wanted = wanted
        self.head_bar.fit_note()

    def give_head(self) -> QFrame:
        """Return the head as a bar of its own, for a dock that is dragged by it.

        Head and panel look like one frame when the head lies on top of the panel.
        """
        self.head_bar.setObjectName("panelhead")
        self.head.setContentsMargins(_SIDE, _TOP, _SIDE, _GAP)
        self.setProperty("headless", True)
        self.body.setContentsMargins(_SIDE, 0, _SIDE, _BOTTOM)
        return self.head_bar


class _Head(QFrame):
    """A panel's head, which leaves out its note where there is no room for it."""

    def __init__(self, note: QWidget) -> None:
        super().__init__()
        self._note, self.wanted = note, True

    def fit_note(self) -> None:
        """Show the note if it is wanted and there is room."""
        self._note.setVisible(self.wanted)
        self._note.setVisible(self.wanted and self.sizeHint().width() <= self.width())

    def minimumSizeHint(self) -> QSize:
        return QSize(1, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.fit_note()
        super().resizeEvent(event)


def label(text: str, *, muted: bool = False, name: str | None = None, wrap: bool = False) -> QLabel:
    """Return a text label for a role."""
    made = QLabel(text)
    if muted or name:
        made.setObjectName(name or "muted")
    made.setWordWrap(wrap)
    return made
