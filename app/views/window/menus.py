"""The window's commands as Qt actions: which function runs for each, and the menus that list them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QMenu
from shiboken6 import isValid

from app.actions import ACTIONS, PANELS, Action, EnabledIf, Menu
from app.models.opening.recovery import sessions_folder
from app.presenters.commands import as_commands, as_python
from app.state.constraint_targets import ConstraintKind
from app.state.solve import LONGER_SECONDS
from app.theme import ThemeChoice
from app.views.dialogs.settings_dialog import KeysDialog, SettingsDialog
from app.views.window.savers import ask_picture, ask_report, ask_save, ask_save_schedule, copy_text
from checkmate.machine.cost_store import default_path

if TYPE_CHECKING:
    from app.views.window.main_window import MainWindow

Handler = Callable[[], object]


def handlers(window: MainWindow) -> Mapping[str, Handler]:
    """Return the function of each action, by the action's id.

    ``window.explorer`` is read only when an action runs, because its views are built after the first paint.
    """
    session, playhead, what_ifs = window.session, window.playhead, window.what_ifs
    listing = session.exploration.listing
    return {
        "file.open": window.ask_open,
        "file.profile": window.ask_profile,
        "file.explain": window.records.ask,
        "file.compare": window.comparing.ask,
        "file.start": window.show_start,
        "file.save": partial(ask_save, window),
        "file.save_schedule": partial(ask_save_schedule, window),
        "file.certify": window.certifying.ask,
        "file.export": window.ask_export,
        "file.picture": partial(ask_picture, window),
        "file.figure": lambda: window.explorer.open_figure(),
        "file.report": partial(ask_report, window),
        "file.copy_command": partial(copy_text, window, as_commands),
        "file.copy_python": partial(copy_text, window, as_python),
        "file.restore": window.restore,
        "file.settings": partial(_show_settings, window),
        "file.quit": window.close,
        "edit.undo": what_ifs.stack.undo,
        "edit.redo": what_ifs.stack.redo,
        "edit.keep": lambda: what_ifs.switch(ConstraintKind.KEEP),
        "edit.forbid": lambda: what_ifs.switch(ConstraintKind.ONCE),
        "edit.clear": what_ifs.clear,
        "edit.none": partial(_select_nothing, window),
        "schedule.pin": lambda: window.explorer.schedules.pin(),
        "schedule.rename": lambda: window.explorer.schedules.rename(),
        "schedule.note": lambda: window.explorer.schedules.write_note(),
        "schedule.remove": lambda: window.explorer.schedules.remove(),
        "solve.budget": lambda: session.solve(),
        "solve.stop": session.stop_solve,
        "solve.longer": lambda: session.solve(LONGER_SECONDS),
        "solve.least_at_cost": lambda: window.explorer.budget.aims.ask_within(),
        "solve.least": lambda: window.explorer.budget.aim_at_least(),
        "solve.cards": lambda: window.explorer.open_cards(),
        "solve.batch": window.batches.open,
        "solve.gradients": what_ifs.toggle_gradients,
        "solve.fill": lambda: listing.fill(not listing.fill_wanted),
        "playback.play": playhead.toggle,
        "playback.next": playhead.next_step,
        "playback.previous": playhead.previous_step,
        "playback.peak": lambda: window.explorer.transport.go_to_peak(),
        "playback.first": playhead.first_step,
        "playback.last": playhead.last_step,
        "playback.save": lambda: window.explorer.film.ask(),
        "view.search": window.open_palette,
        "view.fit": lambda: window.explorer.graph_view.fit(),
        "view.blocks": lambda: window.explorer.graph_view.toggle_blocks(),
        "view.filter": lambda: _focus_filter(window),
        "view.whole_step": lambda: window.explorer.span.show_whole(),
        "view.zoom_range": lambda: window.explorer.span.show_chosen(),
        "view.range_table": lambda: window.explorer.open_range(),
        "view.clear_range": lambda: window.explorer.span.choose(None),
        "view.step_axis": lambda: window.explorer.span.toggle_axis(),
        "view.bands": lambda: window.explorer.span.next_grouping(),
        "view.allocator": lambda: window.explorer.span.toggle_addresses(),
        "view.lines": lambda: window.explorer.offer_lines(),
        "view.compare": lambda: window.explorer.shown_edits.toggle(),
        "view.compare_shown": lambda: window.explorer.shown_edits.compare_shown(),
        **{f"view.panel_{name}": partial(_toggle_panel, window, name) for name in map(str.lower, PANELS)},
        "view.panels_reset": lambda: window.explorer.area.reset(),
        **{f"view.theme_{choice.value}": partial(window.theme.choose, choice) for choice in ThemeChoice},
        "view.focus_graph": lambda: window.explorer.graph_view.setFocus(),
        "view.focus_budget": lambda: _focus_budget(window),
        "view.zoom_in": lambda: window.explorer.graph_view.zoom_in(),
        "view.zoom_out": lambda: window.explorer.graph_view.zoom_out(),
        "view.zoom_reset": lambda: window.explorer.graph_view.zoom_reset(),
        "help.tour": window.tour.start,
        "help.keys": lambda: KeysDialog(window).show(),
        "help.doctor": window.show_doctor,
        "help.desktop": window.install_desktop_entry,
    }


def _select_nothing(window: MainWindow) -> None:
    """Leave the tour, else a selection, else stop the solve.

    The selected steps go first. If there were none, the op goes; if there was none, the solve stops.
    """
    if window.tour.leave():
        return
    if window.session.exploration.graph is None:
        window.session.stop_solve()
        return
    span = window.explorer.span
    if span.chosen is not None:
        span.choose(None)
    elif window.selection.op >= 0:
        window.selection.select(-1)
    else:
        window.session.stop_solve()


def _show_settings(window: MainWindow) -> None:
    kept = sessions_folder().parent
    folders = {"Explorations, settings, log": kept, "Caches": default_path().parents[1]}
    SettingsDialog(window.preferences, folders, lambda: window.explorer.area.reset(), window).open()


def _toggle_panel(window: MainWindow, name: str) -> None:
    window.explorer.area.toggle(name)


def _focus_budget(window: MainWindow) -> None:
    window.explorer.area.show_panel("budget")
    window.explorer.budget.setFocus()


def _focus_filter(window: MainWindow) -> None:
    window.explorer.area.show_panel("layers")
    window.explorer.layers.focus_filter()


_SWITCHES = {"edit.keep": ConstraintKind.KEEP, "edit.forbid": ConstraintKind.ONCE}


def add_commands(window: MainWindow) -> Mapping[str, QAction]:
    """Add every action to the window and to its menu. Return the Qt actions by id."""
    run = handlers(window)
    made = {entry.id: _qt_action(window, entry, run[entry.id]) for entry in ACTIONS}
    for menu in Menu:
        _fill_menu(window, window.menuBar().addMenu(menu.value), menu, made)
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


def _fill_menu(window: MainWindow, listed: QMenu, menu: Menu, made: Mapping[str, QAction]) -> None:
    """Add the actions of a menu, and a menu in it for each choice."""
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
            listed.addMenu(_recent_menu(window))


def _recent_menu(window: MainWindow) -> QMenu:
    """Return the menu of what was explored lately; it is filled when it opens."""
    menu = QMenu("Open recent", window)

    def fill() -> None:
        menu.clear()
        for explored in window.recent_entries():
            menu.addAction(explored.name, partial(window.open, str(explored.path)))
        read = window.records.recent.paths()
        if read and not menu.isEmpty():
            menu.addSeparator()
        for path in read:
            menu.addAction(path.name, partial(window.open, str(path))).setToolTip(str(path))
        if menu.isEmpty():
            menu.addAction("Nothing was explored yet").setEnabled(False)

    menu.aboutToShow.connect(fill)
    return menu


def _qt_action(window: MainWindow, entry: Action, run: Handler) -> QAction:
    """Return the Qt action of an entry.

    Qt's undo stack enables its own two, and adds to their words what they undo.
    """
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


def _refresh(window: MainWindow, made: Mapping[str, QAction]) -> None:
    """Enable and check what depends on the selection and on the constraints."""
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
