"""Everything that the command palette can find in a window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from PySide6.QtGui import QAction

from app.actions import action
from app.models.cursors import Selection
from app.models.exploration import Exploration, ListedSchedule
from app.presenters.schedule_rows import grouped
from app.presenters.search import COMMAND, PaletteEntry
from app.presenters.wording import name_in_model, scope_of_all
from app.views.common.view_saver import ViewSaver
from checkmate.units import format_bytes, plural

_MOST_OPS = 20000  # names; more would slow down every letter typed


def commands(actions: Mapping[str, QAction]) -> Iterator[PaletteEntry]:
    """Yield every enabled action of the window, with its shortcut or its menu."""
    for name, qt_action in actions.items():
        if qt_action.isEnabled():
            entry = action(name)
            menu = "" if entry.menu is None else entry.menu.title
            words = entry.full_words if entry.choice else qt_action.text()
            yield PaletteEntry(COMMAND, words, entry.key or menu, qt_action.trigger)


def copy_commands(saver: ViewSaver) -> Iterator[PaletteEntry]:
    """Yield the copy commands of every view, for its picture and its data."""
    for view in saver.views:
        yield PaletteEntry(COMMAND, f"Copy picture of {view.name}", "", partial(saver.copy_picture, view))
        yield PaletteEntry(COMMAND, f"Copy data of {view.name}", "", partial(saver.copy_data, view))


def content(
    exploration: Exploration,
    selection: Selection,
    show: Callable[[ListedSchedule], object],
    zoom: Callable[[int], object],
) -> Iterator[PaletteEntry]:
    """Yield the schedules to ``show``, and layers and ops to ``zoom`` to."""
    graph, what_if, shown = exploration.graph, exploration.what_if, exploration.shown
    if graph is None or what_if is None:
        return
    for rows in grouped(what_if, exploration.listing.own).values():
        for row in rows:
            detail = f"schedule · {row.group.value.lower()}"
            yield PaletteEntry("schedule", row.name, row.figure, partial(show, row.found), detail)

    def go(op: int) -> None:
        selection.select(op)
        zoom(op)

    again = frozenset[int]() if shown is None else shown.recomputed_ops
    for layer in what_if.layers:
        phase = None if layer.has(None) else next(iter(layer.bytes_of))
        phases = ", ".join(layer.bytes_of)
        yield PaletteEntry(
            "layer",
            layer.name,
            format_bytes(layer.bytes(phase)),
            partial(go, layer.op(phase)),
            f"layer · {phases} · {plural(len(layer.ops), 'op')}",
            layer.bytes(phase),
            frozenset(layer.bytes_of),
            not again.isdisjoint(layer.ops),
        )
    model = scope_of_all(graph)
    for index, op in enumerate(graph.ops[:_MOST_OPS]):
        size = sum(graph.values[value].bytes for value in op.outputs)
        more = "recomputed" if index in again else ""
        said = " · ".join(filter(None, ("op", op.group, op.phase.value, more)))
        title = name_in_model(op.name, model)
        yield PaletteEntry(
            "op", title, format_bytes(size), partial(go, index), said, size, frozenset({op.phase}), bool(more)
        )
