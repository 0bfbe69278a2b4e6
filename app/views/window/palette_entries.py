"""Everything that the command palette can find in a window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from PySide6.QtGui import QAction

from app.actions import action
from app.models.cursors import Selection
from app.models.exploration import Exploration
from app.presenters.palette import COMMAND, PaletteEntry
from app.presenters.wording import short_name
from app.views.common.view_saver import ViewSaver
from checkmate.units import format_bytes

_MOST_OPS = 20000  # names; more would slow down every letter typed


def commands(actions: Mapping[str, QAction]) -> Iterator[PaletteEntry]:
    """Yield every enabled action of the window, with its shortcut or its menu."""
    for name, qt_action in actions.items():
        if qt_action.isEnabled():
            entry = action(name)
            menu = "" if entry.menu is None else entry.menu.title
            yield PaletteEntry(COMMAND, qt_action.text(), entry.key or menu, qt_action.trigger)


def copy_commands(saver: ViewSaver) -> Iterator[PaletteEntry]:
    """Yield the copy commands of every view, for its picture and its data."""
    for view in saver.views:
        yield PaletteEntry(COMMAND, f"Copy picture of {view.name}", "", partial(saver.copy_picture, view))
        yield PaletteEntry(COMMAND, f"Copy data of {view.name}", "", partial(saver.copy_data, view))


def content(exploration: Exploration, selection: Selection) -> Iterator[PaletteEntry]:
    """Yield the schedules to show, and the layers and ops to select."""
    graph = exploration.graph
    if graph is None:
        return
    for found in exploration.known:
        title = f"{found.solver}, {format_bytes(found.peak_bytes)}"
        yield PaletteEntry(
            "schedule", title, f"+{100 * found.overhead:.1f} %", partial(exploration.show, found)
        )
    largest: dict[str, tuple[int, int]] = {}
    for index, op in enumerate(graph.ops):
        written = sum(graph.values[value].bytes for value in op.outputs)
        if op.group:
            largest[op.group] = max(largest.get(op.group, (-1, 0)), (written, -index))
    for name, (_, index) in largest.items():
        yield PaletteEntry("layer", name, "", partial(selection.select, -index))
    for index, op in enumerate(graph.ops[:_MOST_OPS]):
        yield PaletteEntry("op", short_name(op.name, 70), "", partial(selection.select, index))
