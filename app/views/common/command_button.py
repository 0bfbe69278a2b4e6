"""Buttons that run a command of the window."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QPushButton

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
