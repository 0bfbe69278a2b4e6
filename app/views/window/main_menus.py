"""The window's menus: every command there is, with its keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence, QShortcut

from app.state.constraint_targets import Kind
from app.state.solve import Aim

if TYPE_CHECKING:
    from app.views.window.main_window import MainWindow

_Entry = tuple[str, str, Callable[[], object]] | QAction | None  # None: a line between groups


def fill_menus(window: MainWindow) -> None:
    """Fill the window's menu bar, and add the keys that stand in no menu."""
    menus: dict[str, tuple[_Entry, ...]] = {
        "&File": _file(window),
        "&Edit": _edit(window),
        "&Solve": _solve(window),
        "&Playback": _playback(window),
        "&View": _view(window),
        "&Help": _help(window),
    }
    for title, entries in menus.items():
        menu = window.menuBar().addMenu(title)
        for entry in entries:
            if entry is None:
                menu.addSeparator()
            else:
                menu.addAction(entry if isinstance(entry, QAction) else _action(window, *entry))
    QShortcut(QKeySequence("Ctrl+1"), window, lambda: window.explorer.graph_view.setFocus())
    QShortcut(QKeySequence("Ctrl+2"), window, lambda: window.explorer.budget.setFocus())


def _file(window: MainWindow) -> tuple[_Entry, ...]:
    return (
        ("Open…", "Ctrl+O", window.ask_open),
        ("Save exploration…", "Ctrl+S", window.ask_save),
        ("Save this schedule…", "Ctrl+Shift+S", window.ask_save_schedule),
        ("Export training graph…", "Ctrl+E", window.ask_export),
        ("Save a picture of the window…", "Ctrl+Shift+P", window.ask_picture),
        ("Save a report…", "Ctrl+Shift+E", window.ask_report),
        ("Restore what was not closed", "", window.restore),
        None,
        ("Quit", "Ctrl+Q", window.close),
    )


def _solve(window: MainWindow) -> tuple[_Entry, ...]:
    session = window.session
    return (
        ("Solve for this budget", "Ctrl+R", lambda: session.solve()),
        ("Stop here", "Esc", session.stop_solve),
        ("Solve for a minute", "Ctrl+Shift+R", lambda: session.solve(60.0)),
        None,
        ("Least memory at this extra cost", "M", lambda: window.explorer.budget.aims.ask_within()),
        ("Least possible memory", "Shift+M", lambda: window.explorer.budget.aim(Aim(math.inf))),
        None,
        _gradients(window),
    )


def _playback(window: MainWindow) -> tuple[_Entry, ...]:
    playhead = window.playhead
    return (
        ("Play or pause", "Space", lambda: playhead.play(not playhead.playing)),
        ("Next step", ".", lambda: playhead.seek(playhead.step + 1)),
        ("Previous step", ",", lambda: playhead.seek(playhead.step - 1)),
        ("Go to the peak", "P", lambda: window.explorer.transport.go_to_peak()),
        None,
        ("Save as an animated picture…", "Ctrl+Shift+G", lambda: window.explorer.film.ask()),
    )


def _view(window: MainWindow) -> tuple[_Entry, ...]:
    return (
        ("Search everything", "Ctrl+K", window.open_palette),
        ("Fit the graph", "F", lambda: window.explorer.graph_view.fit()),
        ("Filter layers", "/", lambda: window.explorer.layers.focus_filter()),
        None,
        ("Compare A | B", "D", lambda: window.explorer.comparison.toggle()),
        ("Compare what comes with what is shown now", "B", lambda: window.explorer.comparison.pin_shown()),
    )


def _help(window: MainWindow) -> tuple[_Entry, ...]:
    return (
        ("What this machine can do…", "", window.show_doctor),
        ("Put in the applications menu", "", window.put_in_menu),
    )


def _edit(window: MainWindow) -> tuple[_Entry, ...]:
    """Undo and redo, and the what-ifs of what is selected."""
    what_ifs = window.what_ifs
    undo, redo = (
        what_ifs.stack.createUndoAction(window, "Undo"),
        what_ifs.stack.createRedoAction(window, "Redo"),
    )
    undo.setShortcut(QKeySequence("Ctrl+Z"))
    redo.setShortcut(QKeySequence("Ctrl+Shift+Z"))
    keep = _action(window, "Keep always", "K", lambda: what_ifs.switch(Kind.KEEP))
    once = _action(window, "Never recompute", "R", lambda: what_ifs.switch(Kind.ONCE))
    clear = _action(window, "Clear the constraints", "", what_ifs.clear)

    def refresh() -> None:
        target = what_ifs.target
        for action, kind in ((keep, Kind.KEEP), (once, Kind.ONCE)):
            action.setCheckable(True)
            action.setEnabled(target is not None and bool(target.names(kind)))
            action.setChecked(what_ifs.is_set(kind, target))
        clear.setEnabled(not window.session.exploration.constraints.is_empty)

    what_ifs.changed.connect(refresh)
    refresh()
    return undo, redo, None, keep, once, clear


def _gradients(window: MainWindow) -> QAction:
    action = QAction("Recompute gradients", window)
    action.setCheckable(True)
    action.setChecked(True)
    action.setToolTip("Whether ops of the backward pass may run more than once")
    action.triggered.connect(window.what_ifs.recompute_gradients)
    exploration = window.session.exploration
    window.what_ifs.changed.connect(lambda: action.setChecked(exploration.constraints.recompute_gradients))
    return action


def _action(window: MainWindow, text: str, keys: str, run: Callable[[], object]) -> QAction:
    action = QAction(text, window)
    action.setShortcut(QKeySequence(keys))
    action.triggered.connect(lambda _=False: run())
    return action
