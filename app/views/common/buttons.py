"""Buttons that run a command of the window, and the keys that press them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractButton, QPushButton, QWidget

from app.actions import action


def command_button(name: str, run: Callable[[], object], text: str = "") -> QPushButton:
    """Return a button for the action ``name``.

    ``text`` is a shorter label or a symbol in place of the action's words.
    """
    entry = action(name)
    button = QPushButton(text or entry.words)
    if text:
        button.setAccessibleName(entry.words)
    button.setToolTip(entry.tip_with_key)
    button.setCheckable(entry.checkable)
    button.clicked.connect(lambda _=False: run())
    return button


class ButtonKeys(QObject):
    """An event filter with which the space bar and Enter press buttons.

    They press the button in ``window`` that has the focus. The space bar does so in place of playing the
    step: Qt asks a widget, and then those around it, whether a key is for it or for a command. Enter comes
    here if the button leaves it, as all but those of dialogs do; a key that is held presses once.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        button = self._window.focusWidget() if isinstance(event, QKeyEvent) else None
        if isinstance(event, QKeyEvent) and isinstance(button, QAbstractButton):
            if event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Space:
                event.accept()
                return True
            enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
            plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier and not event.isAutoRepeat()
            if event.type() == QEvent.Type.KeyPress and enter and plain and button.hasFocus():
                button.click()
                return True
        return super().eventFilter(watched, event)
