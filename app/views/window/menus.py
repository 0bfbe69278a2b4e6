"""The window's commands as Qt actions, and the menus that list them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu
from shiboken6 import isValid

from app.actions import ACTIONS, PANELS, Action, EnabledIf, Menu
from app.models.recovery import RecentRecords
from app.state.constraint_targets import ConstraintKind
from app.views.window.base_window import BaseWindow

Handler = Callable[[], object]
_SWITCHES = {"edit.keep": ConstraintKind.KEEP, "edit.forbid": ConstraintKind.ONCE}


def add_commands(
    window: BaseWindow, run: Mapping[str, Handler], records: RecentRecords
) -> Mapping[str, QAction]:
    """Add every action to the window and to its menu. Return the Qt actions by id. ``run`` has a function for
    each action; ``records``: the logs and profiles that were read lately."""
    recent = _recent_menu(window, records)
    made = {entry.id: _qt_action(window, entry, run[entry.id]) for entry in ACTIONS}
    for menu in Menu:
        _fill_menu(window.menuBar().addMenu(menu.value), menu, made, recent)
    window.addActions([made[entry.id] for entry in ACTIONS if entry.menu is None])

    def refresh() -> None:
        # The session outlives the window, and its last signals may come when Qt has deleted the actions.
        if isValid(window):
            _refresh(window, made)

    window.what_ifs.changed.connect(refresh)
    window.panels_changed.connect(refresh)
    window.session.exploration.listing.filling_changed.connect(refresh)
    window.theme.chosen.connect(refresh)
    refresh()
    return made


def _fill_menu(listed: QMenu, menu: Menu, made: Mapping[str, QAction], recent: QMenu) -> None:
    choices: dict[str, tuple[QMenu, QActionGroup]] = {}
    for entry in ACTIONS:
        if entry.menu is not menu:
            continue
        if entry.line_above:
            listed.addSeparator()
        if entry.choice:
            inner = choices.get(entry.choice) or (listed.addMenu(entry.choice), QActionGroup(listed))
            choices[entry.choice] = inner
            inner[0].addAction(inner[1].addAction(made[entry.id]))
        else:
            listed.addAction(made[entry.id])
        if entry.id == "file.open":
            listed.addMenu(recent)


def _recent_menu(window: BaseWindow, records: RecentRecords) -> QMenu:
    menu = QMenu("Open recent", window)

    def fill() -> None:
        menu.clear()
        for explored in window.recent_entries():
            menu.addAction(explored.name, partial(window.open, str(explored.path)))
        read = records.paths()
        if read and not menu.isEmpty():
            menu.addSeparator()
        for path in read:
            menu.addAction(path.name, partial(window.open, str(path))).setToolTip(str(path))
        if menu.isEmpty():
            menu.addAction("Nothing was explored yet").setEnabled(False)

    menu.aboutToShow.connect(fill)
    return menu


def _qt_action(window: BaseWindow, entry: Action, run: Handler) -> QAction:
    """Return the Qt action of an entry. Qt's undo stack enables its own two, and adds to their words what
    they undo."""
    stack = window.what_ifs.stack
    if entry.when is EnabledIf.CAN_UNDO:
        made = stack.createUndoAction(window, entry.words)
    elif entry.when is EnabledIf.CAN_REDO:
        made = stack.createRedoAction(window, entry.words)
    else:
        made = QAction(entry.words, window)
        made.triggered.connect(lambda _=False: run())
    made.setShortcuts([QKeySequence(key) for key in entry.keys])
    made.setCheckable(entry.checkable)
    if entry.tip:
        made.setToolTip(entry.tip_with_key)
    return made


def _refresh(window: BaseWindow, made: Mapping[str, QAction]) -> None:
    what_ifs, constraints = window.what_ifs, window.session.exploration.constraints
    allowed = {
        EnabledIf.CAN_KEEP: what_ifs.can_switch(ConstraintKind.KEEP),
        EnabledIf.CAN_FORBID: what_ifs.can_switch(ConstraintKind.ONCE),
        EnabledIf.CONSTRAINED: not constraints.is_empty,
    }
    for entry in ACTIONS:
        if entry.when in allowed:
            made[entry.id].setEnabled(allowed[entry.when])
    for name, kind in _SWITCHES.items():
        made[name].setChecked(what_ifs.is_set(kind, what_ifs.target))
    made["solve.gradients"].setChecked(constraints.recompute_gradients)
    area = window.panel_area
    for name in map(str.lower, PANELS):
        made[f"view.panel_{name}"].setChecked(area is None or area.is_open(name))
    made[f"view.theme_{window.theme.choice.value}"].setChecked(True)
    made["solve.fill"].setChecked(window.session.exploration.listing.fill_wanted)
