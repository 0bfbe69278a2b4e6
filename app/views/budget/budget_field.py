"""The field for an exact budget."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QLineEdit

from app.actions import ACTIONS, EnabledIf

# The window's keys, which work while typing too; but a line of text has its own undo.
_COMMANDS = tuple(
    QKeySequence(key)
    for entry in ACTIONS
    if entry.when not in (EnabledIf.CAN_UNDO, EnabledIf.CAN_REDO)
    for key in entry.keys
    if "Ctrl+" in key
)


class BudgetField(QLineEdit):
    """Takes a budget such as ``6.5GiB``; Escape empties and leaves it.

    Signal ``left``: Escape was pressed.
    """

    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText("6.5GiB, 60% or min")
        self.setAccessibleName("Exact budget")

    @property
    def being_typed(self) -> bool:
        """Return whether the text is neither entered nor left yet."""
        return self.hasFocus() and self.isModified()

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape:
                event.accept()  # or it would stop the solve
                return True
            if QKeySequence(event.keyCombination()) in _COMMANDS:
                event.ignore()  # some of them would move the cursor or cut the text
                return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.left.emit()
        else:
            super().keyPressEvent(event)
