"""The window's commands as Qt actions, and the menus that list them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence

from app.actions import ACTIONS, Action, Menu, When
from app.state.constraint_targets import ConstraintKind
from app.views.window.handlers import Handler, handlers

if TYPE_CHECKING:
    from app.views.window.main_window import MainWindow

_SWITCHES = {"edit.keep": ConstraintKind.KEEP, "edit.forbid": ConstraintKind.ONCE}


def add_commands(window: MainWindow) -> Mapping[str, QAction]:
    """Add every action to the window and to its menu.

    Return the Qt actions by id.
    """
    run = handlers(window)
    made = {entry.id: _qt_action(window, entry, run[entry.id]) for entry in ACTIONS}
    for menu in Menu:
        listed = window.menuBar().addMenu(menu.value)
        for entry in ACTIONS:
            if entry.menu is menu:
                if entry.line_above:
                    listed.addSeparator()
                listed.addAction(made[entry.id])
    window.addActions([made[entry.id] for entry in ACTIONS if entry.menu is None])

    def refresh() -> None:
        _refresh(window, made)

    window.what_ifs.changed.connect(refresh)
    refresh()
    return made


def _qt_action(window: MainWindow, entry: Action, run: Handler) -> QAction:
    """Return the Qt action of an entry.

    Qt's undo stack enables its own two, and adds to their words what they undo.
    """
    stack = window.what_ifs.stack
    if entry.when is When.CAN_UNDO:
        made = stack.createUndoAction(window, entry.words)
    elif entry.when is When.CAN_REDO:
        made = stack.createRedoAction(window, entry.words)
    else:
        made = QAction(entry.words, window)
        made.triggered.connect(lambda _=False: run())
    made.setShortcuts([QKeySequence(key) for key in entry.keys])
    made.setCheckable(entry.checkable)
    if entry.tip:
        made.setToolTip(entry.tip_with_key)
    return made


def _refresh(window: MainWindow, made: Mapping[str, QAction]) -> None:
    """Enable and check what depends on the selection and on the constraints."""
    what_ifs, constraints = window.what_ifs, window.session.exploration.constraints
    allowed = {
        When.CAN_KEEP: what_ifs.can_switch(ConstraintKind.KEEP),
        When.CAN_FORBID: what_ifs.can_switch(ConstraintKind.ONCE),
        When.CONSTRAINED: not constraints.is_empty,
    }
    for entry in ACTIONS:
        if entry.when in allowed:
            made[entry.id].setEnabled(allowed[entry.when])
    for name, kind in _SWITCHES.items():
        made[name].setChecked(what_ifs.is_set(kind, what_ifs.target))
    made["solve.gradients"].setChecked(constraints.recompute_gradients)
