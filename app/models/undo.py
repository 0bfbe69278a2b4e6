"""Changes that can be undone.

A change sets another budget, aim or set of constraints. Each change solves again.
"""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from app.models.cursors import Selection
from app.models.session import Session
from app.presenters.wording import short_name
from app.state.constraint_targets import (
    ConstraintKind,
    Target,
    is_set,
    layer_target,
    op_target,
    sentence,
    switched,
)
from app.state.solve import Asked
from checkmate.solvers.constraints import Constraints


class _Change(QUndoCommand):
    """A change from one set of constraints to another."""

    def __init__(self, session: Session, text: str, after: Constraints) -> None:
        super().__init__(text)
        self._session, self._before, self._after = session, session.exploration.constraints, after

    def redo(self) -> None:
        self._session.constrain(self._after)

    def undo(self) -> None:
        self._session.constrain(self._before)


class _Move(QUndoCommand):
    """A move of the slider."""

    def __init__(self, session: Session, before: Asked, after: Asked) -> None:
        super().__init__(after.words)
        self._session, self._before, self._after = session, before, after

    def redo(self) -> None:
        self._session.ask(self._after)

    def undo(self) -> None:
        self._session.ask(self._before)


class WhatIfs(QObject):
    """Asks for budgets and aims, and switches constraints.

    The constraints are on the selected op or its layer.

    Signal ``changed``: the target, the scope or the constraints are others.
    """

    changed = Signal()

    def __init__(self, session: Session, selection: Selection, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._exploration, self._selection = session, session.exploration, selection
        self.stack = QUndoStack(self)
        self._by_layer = True
        self._asked: Asked | None = None  # where the slider stood when last asked
        self._exploration.graph_changed.connect(self._on_graph)
        for signal in (
            self._exploration.graph_changed,
            self._exploration.constraints_changed,
            selection.changed,
        ):
            signal.connect(lambda *_: self.changed.emit())
        self._exploration.solve_changed.connect(self._on_solve)

    def _on_graph(self) -> None:
        self.stack.clear()
        self._asked = None

    def ask(self) -> None:
        """Solve for where the slider stands.

        Undo moves the slider back to where it stood when last asked.
        """
        before, after = self._asked or self._exploration.opened_at, self._exploration.asked
        if self._exploration.graph is None or after == before:
            self._session.solve()
        else:
            self.stack.push(_Move(self._session, before, after))

    def _on_solve(self) -> None:
        solve = self._exploration.solve
        if solve is not None and solve.running:
            self._asked = self._exploration.asked

    @property
    def by_layer(self) -> bool:
        """Return whether the constraints are switched for a whole layer.

        It is the layer of the selected op. Otherwise they are switched for the op alone.
        """
        return self._by_layer

    @by_layer.setter
    def by_layer(self, on: bool) -> None:
        self._by_layer = on
        self.changed.emit()

    @property
    def has_layer(self) -> bool:
        """Return whether the selected op has a layer."""
        graph, op = self._exploration.graph, self._selection.op
        return graph is not None and 0 <= op < graph.n and bool(graph.ops[op].group)

    @property
    def target(self) -> Target | None:
        """Return the selected op or its layer.

        None if nothing is selected, or if what is selected runs only once in any case.
        """
        graph, op = self._exploration.graph, self._selection.op
        if graph is None or not 0 <= op < graph.n:
            return None
        if self._by_layer and self.has_layer:
            return layer_target(graph, [op])
        return op_target(graph, op, short_name(graph.ops[op].name)) if graph.ops[op].recomputable else None

    def is_set(self, kind: ConstraintKind, target: Target | None) -> bool:
        """Return whether the constraint applies."""
        return target is not None and is_set(self._exploration.constraints, kind, target)

    def switch(self, kind: ConstraintKind, target: Target | None = None) -> None:
        """Switch a constraint of ``target``, or of what is selected."""
        target = target or self.target
        if target is not None and target.names(kind):
            before = self._exploration.constraints
            self._change(sentence(before, kind, target), switched(before, kind, target))

    def can_switch(self, kind: ConstraintKind) -> bool:
        """Return whether what is selected can have this constraint."""
        return self.target is not None and bool(self.target.names(kind))

    def clear(self) -> None:
        """Drop all constraints."""
        self._change("Clear the constraints", Constraints())

    def recompute_gradients(self, on: bool) -> None:
        """Set whether backward ops may run more than once."""
        text = "Recompute gradients" if on else "Do not recompute gradients"
        self._change(text, replace(self._exploration.constraints, recompute_gradients=on))

    def toggle_gradients(self) -> None:
        """Allow that backward ops run more than once, or forbid it."""
        self.recompute_gradients(not self._exploration.constraints.recompute_gradients)

    def _change(self, text: str, after: Constraints) -> None:
        if self._exploration.graph is not None and after != self._exploration.constraints:
            self.stack.push(_Change(self._session, text, after))
        self.changed.emit()  # a button that was pressed may have to come up again
