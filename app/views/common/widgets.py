"""Buttons for commands of the window, the keys that press them, and boxes with a ring for the focus."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QRectF, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QAbstractButton, QComboBox, QDoubleSpinBox, QPushButton, QSpinBox, QWidget

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


_WIDTH, _ROUND = 2.0, 3.0  # pixels


class ChoiceBox(QComboBox):
    """Offers a few choices."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _ring(self)


class NumberBox(QSpinBox):
    """Asks for a whole number."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _ring(self)


class DecimalBox(QDoubleSpinBox):
    """Asks for a number."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        _ring(self)


def _ring(box: QWidget) -> None:
    """Draw the ring; the style's own mark is too faint to be seen."""
    if not box.hasFocus():
        return
    painter = QPainter(box)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(box.palette().color(QPalette.ColorRole.Highlight), _WIDTH))
    inset = _WIDTH / 2
    painter.drawRoundedRect(QRectF(box.rect()).adjusted(inset, inset, -inset, -inset), _ROUND, _ROUND)
    painter.end()
