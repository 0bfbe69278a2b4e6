"""Keys and the wheel that choose which part of the step is on screen.

They are the same in the memory curve, in R and in S.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QWheelEvent

from app.models.span import Scale, StepSpan

CLOSER = 1 / 1.3  # of the steps on screen, for one turn of the wheel or one key
_NOTCH = 120.0  # of the wheel, in eighths of a degree
_MOVE = 0.2  # of what is on screen
_NONE, _SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
_OWN = (Qt.Key.Key_W, Qt.Key.Key_S, Qt.Key.Key_A, Qt.Key.Key_D, Qt.Key.Key_Home)


def is_own_key(event: QEvent, span: StepSpan) -> bool:
    """Return whether a view that has the focus wants this key for itself.

    Commands of the window have some of the same keys.
    """
    if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
        return False
    if event.modifiers() != _NONE:
        return False
    return event.key() in _OWN or (event.key() == Qt.Key.Key_Escape and span.chosen is not None)


def press(event: QKeyEvent, span: StepSpan) -> bool:
    """Do what a key says; return whether it says anything."""
    if event.modifiers() != _NONE:
        return False
    key = event.key()
    if key in (Qt.Key.Key_W, Qt.Key.Key_S):
        span.zoom(CLOSER if key == Qt.Key.Key_W else 1 / CLOSER)
    elif key in (Qt.Key.Key_A, Qt.Key.Key_D):
        span.move(_MOVE if key == Qt.Key.Key_D else -_MOVE)
    elif key == Qt.Key.Key_Home:
        span.show_whole()
    elif key == Qt.Key.Key_Escape:
        span.choose(None)
    else:
        return False
    return True


def press_for_bytes(event: QKeyEvent, span: StepSpan, scale: Scale) -> bool:
    """Do what a key says to a scale of bytes; return whether it says anything."""
    key, modifiers = event.key(), event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    if modifiers == _SHIFT and key in (Qt.Key.Key_W, Qt.Key.Key_S):
        span.zoom_heights(scale, CLOSER if key == Qt.Key.Key_W else 1 / CLOSER)
    elif modifiers == _NONE and key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
        span.move_heights(scale, _MOVE if key == Qt.Key.Key_Up else -_MOVE)
    else:
        return False
    return True


def turned(event: QWheelEvent) -> tuple[float, float]:
    """Return what the wheel asks for: how far sideways, and a zoom factor.

    The first is a share of what is on screen. With Shift, the wheel moves sideways.
    """
    x, y = event.angleDelta().x() / _NOTCH, event.angleDelta().y() / _NOTCH
    if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
        x, y = x or y, 0.0
    return -_MOVE * x, CLOSER**y


def around(at: float, begin: float, end: float, factor: float) -> tuple[float, float]:
    """Return a stretch ``factor`` times as long, with ``at`` where it was."""
    return at - factor * (at - begin), at + factor * (end - at)
