"""Which function runs for each action of the window."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from app.state.constraint_targets import ConstraintKind
from app.state.solve import LONGER_SECONDS

if TYPE_CHECKING:
    from app.views.window.main_window import MainWindow

Handler = Callable[[], object]


def handlers(window: MainWindow) -> Mapping[str, Handler]:
    """Return the function of each action, by the action's id.

    ``window.explorer`` is read only when an action runs, because its views are built after the first paint.
    """
    session, playhead, what_ifs = window.session, window.playhead, window.what_ifs
    return {
        "file.open": window.ask_open,
        "file.save": window.ask_save,
        "file.save_schedule": window.ask_save_schedule,
        "file.export": window.ask_export,
        "file.picture": window.ask_picture,
        "file.report": window.ask_report,
        "file.restore": window.restore,
        "file.quit": window.close,
        "edit.undo": what_ifs.stack.undo,
        "edit.redo": what_ifs.stack.redo,
        "edit.keep": lambda: what_ifs.switch(ConstraintKind.KEEP),
        "edit.forbid": lambda: what_ifs.switch(ConstraintKind.ONCE),
        "edit.clear": what_ifs.clear,
        "solve.budget": lambda: session.solve(),
        "solve.stop": session.stop_solve,
        "solve.longer": lambda: session.solve(LONGER_SECONDS),
        "solve.least_at_cost": lambda: window.explorer.budget.aims.ask_within(),
        "solve.least": lambda: window.explorer.budget.aim_at_least(),
        "solve.gradients": what_ifs.toggle_gradients,
        "playback.play": playhead.toggle,
        "playback.next": playhead.next_step,
        "playback.previous": playhead.previous_step,
        "playback.peak": lambda: window.explorer.transport.go_to_peak(),
        "playback.first": playhead.first_step,
        "playback.last": playhead.last_step,
        "playback.save": lambda: window.explorer.film.ask(),
        "view.search": window.open_palette,
        "view.fit": lambda: window.explorer.graph_view.fit(),
        "view.filter": lambda: window.explorer.layers.focus_filter(),
        "view.compare": lambda: window.explorer.comparison.toggle(),
        "view.compare_shown": lambda: window.explorer.comparison.pin_shown(),
        "view.focus_graph": lambda: window.explorer.graph_view.setFocus(),
        "view.focus_budget": lambda: window.explorer.budget.setFocus(),
        "view.zoom_in": lambda: window.explorer.graph_view.zoom_in(),
        "view.zoom_out": lambda: window.explorer.graph_view.zoom_out(),
        "view.zoom_reset": lambda: window.explorer.graph_view.zoom_reset(),
        "help.doctor": window.show_doctor,
        "help.desktop": window.install_desktop_entry,
    }
