"""Changes that can be undone: of the slider, the constraints, the user's list, and what is on screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from app.models.cursors import Comparison, Selection
from app.models.exploration import Exploration
from app.models.session import Session
from app.presenters.wording import short_name
from app.state.constraint_targets import (
    ConstraintKind,
    ConstraintTarget,
    is_set,
    layer_target,
    op_target,
    sentence,
    switched,
)
from app.state.knowledge import ListedSchedule
from app.state.saved import OwnSchedule
from app.state.solve import SliderTarget
from checkmate.solvers.constraints import Constraints

_MOST = 200  # changes; each may hold a schedule in memory


class _Change(QUndoCommand):
    def __init__(self, put: Callable[[Any], None], text: str, before: Any, after: Any) -> None:
        super().__init__(text)
        self._put, self._before, self._after = put, before, after

    def redo(self) -> None:
        self._put(self._after)

    def undo(self) -> None:
        self._put(self._before)


@dataclass(frozen=True)
class _OnScreen:
    """The displayed schedule (A), the compared one (B) and the slider's request.

    ``by_hand``: the user chose A; otherwise A follows the best known schedule for the slider's request.
    """

    asked: SliderTarget
    shown: ListedSchedule | None
    other: ListedSchedule | None
    by_hand: bool


class ShownEdits:
    def __init__(self, exploration: Exploration, comparison: Comparison, stack: QUndoStack) -> None:
        self._exploration, self._comparison, self._stack = exploration, comparison, stack

    @property
    def _now(self) -> _OnScreen:
        exploration = self._exploration
        return _OnScreen(exploration.asked, exploration.shown, self._comparison.other, exploration.by_hand)

    def show(self, found: ListedSchedule) -> None:
        if found is not self._exploration.shown:
            self._push("Show another schedule", replace(self._now, shown=found, by_hand=True))

    def show_best(self) -> None:
        """Show the best schedule known for the budget in place of one that was chosen by hand."""
        self._push("Show the best that fits", replace(self._now, by_hand=False))

    def show_with_budget(self, found: ListedSchedule) -> None:
        asked = SliderTarget(found.peak_bytes)
        self._push("Show another schedule", replace(self._now, shown=found, asked=asked, by_hand=True))

    def compare(self, other: ListedSchedule | None) -> None:
        text = "Compare schedules" if other is not None else "Stop comparing"
        self._push(text, replace(self._now, other=other))

    def compare_shown(self) -> None:
        self.compare(self._exploration.shown)

    def toggle(self) -> None:
        self.compare(None if self._comparison.other is not None else self._exploration.plain)

    def swap(self) -> None:
        now = self._now
        if now.other is not None:
            self._push("Swap A and B", replace(now, shown=now.other, other=now.shown, by_hand=True))

    def _push(self, text: str, after: _OnScreen) -> None:
        now = self._now
        if now != after:
            self._stack.push(_Change(self.put, text, now, after))

    def put(self, value: _OnScreen) -> None:
        exploration = self._exploration
        if value.asked != exploration.asked or (exploration.by_hand and not value.by_hand):
            exploration.move(value.asked)
            exploration.show_now()
        self._comparison.pin(value.other)
        if value.by_hand and value.shown is not None and value.shown is not exploration.shown:
            exploration.show(value.shown)


class ListEdits:
    """Pins, renames, notes and removes schedules; the first three put one of another group into the list."""

    def __init__(self, exploration: Exploration, stack: QUndoStack) -> None:
        self._listing, self._stack = exploration.listing, stack

    def pin(self, found: ListedSchedule) -> None:
        own = self._entry(found)
        self._push(
            "Unpin a schedule" if own.pinned else "Pin a schedule", replace(own, pinned=not own.pinned)
        )

    def rename(self, found: ListedSchedule, name: str) -> None:
        self._push("Rename a schedule", replace(self._entry(found), name=name.strip()))

    def note(self, found: ListedSchedule, text: str) -> None:
        self._push("Note on a schedule", replace(self._entry(found), note=text.strip()))

    def remove(self, found: ListedSchedule) -> None:
        if self._listing.of(found) is not None:
            self._change("Remove a schedule", found, None)

    def _entry(self, found: ListedSchedule) -> OwnSchedule:
        return self._listing.of(found) or OwnSchedule(found)

    def _push(self, text: str, after: OwnSchedule) -> None:
        if after != self._entry(after.found):
            wanted = after if after.touched or after.asked is not None else None
            self._change(text, after.found, wanted)

    def _change(self, text: str, found: ListedSchedule, after: OwnSchedule | None) -> None:
        before = self._listing.of(found)
        self._stack.push(_Change(self.put, text, (found.key, before), (found.key, after)))

    def put(self, value: tuple[bytes, OwnSchedule | None]) -> None:
        self._listing.put(*value)


class UndoCommands(QObject):
    """Asks for budgets and aims, and switches constraints on the selected op or its layer."""

    changed = Signal()

    def __init__(self, session: Session, selection: Selection, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._exploration, self._selection = session, session.exploration, selection
        self.stack = QUndoStack(self)
        self.stack.setUndoLimit(_MOST)
        self.by_layer = True  # else constraints are switched for the selected op alone
        self._asked: SliderTarget | None = None  # where the slider stood when last asked
        self._exploration.graph_changed.connect(self._on_graph)
        for signal in (self._exploration.graph_changed, self._exploration.constraints_changed):
            signal.connect(self.changed)
        selection.changed.connect(lambda _: self.changed.emit())
        self._exploration.solve_changed.connect(self._on_solve)

    def _on_graph(self) -> None:
        self.stack.clear()
        self._asked = None

    def ask(self) -> None:
        """Solve for where the slider stands. Undo moves it back to where it stood at the previous request."""
        before, after = self._asked or self._exploration.opened_at, self._exploration.asked
        if self._exploration.graph is None or after == before:
            self._session.solve()
        else:
            self.stack.push(_Change(self.put, after.words, before, after))

    def put(self, value: SliderTarget | Constraints) -> None:
        if isinstance(value, Constraints):
            self._session.constrain(value)
        else:
            self._session.ask(value)

    def _on_solve(self) -> None:
        if self._exploration.running_solve:
            self._asked = self._exploration.asked

    def set_by_layer(self, on: bool) -> None:
        self.by_layer = on
        self.changed.emit()

    @property
    def has_layer(self) -> bool:
        graph, op = self._exploration.graph, self._selection.op
        return graph is not None and 0 <= op < graph.n and bool(graph.ops[op].group)

    @property
    def target(self) -> ConstraintTarget | None:
        """The selected op or its layer; None if what is selected runs only once anyway."""
        graph, op = self._exploration.graph, self._selection.op
        if graph is None or not 0 <= op < graph.n:
            return None
        if self.by_layer and self.has_layer:
            return layer_target(graph, [op])
        return op_target(graph, op, short_name(graph.ops[op].name)) if graph.ops[op].recomputable else None

    def is_set(self, kind: ConstraintKind, target: ConstraintTarget | None) -> bool:
        return target is not None and is_set(self._exploration.constraints, kind, target)

    def switch(self, kind: ConstraintKind, target: ConstraintTarget | None = None) -> None:
        target = target or self.target
        if target is not None and target.names(kind):
            before = self._exploration.constraints
            self._change(sentence(before, kind, target), switched(before, kind, target))

    def can_switch(self, kind: ConstraintKind) -> bool:
        return self.target is not None and bool(self.target.names(kind))

    def clear(self) -> None:
        self._change("Clear the constraints", Constraints())

    def recompute_gradients(self, on: bool) -> None:
        text = "Recompute gradients" if on else "Do not recompute gradients"
        self._change(text, replace(self._exploration.constraints, recompute_gradients=on))

    def toggle_gradients(self) -> None:
        self.recompute_gradients(not self._exploration.constraints.recompute_gradients)

    def _change(self, text: str, after: Constraints) -> None:
        if self._exploration.graph is not None and after != self._exploration.constraints:
            self.stack.push(_Change(self.put, text, self._exploration.constraints, after))
        self.changed.emit()  # a button that was pressed may have to come up again
