from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.models.exploration import Exploration
from app.presenters.range_rows import Cell
from app.views.common.cell_model import CellModel, cell_table
from app.views.common.widgets import Dialog, closing, in_column, label, push_button
from app.workers.background import later, on
from checkmate.catalog.cards import common_cards
from checkmate.frontiers.cards import CardFit, CardRow, card_rows, cells, notes
from checkmate.solvers.constraints import list_assumptions

_SIZE = (1040, 440)  # pixels
_SOON_MS = 200  # schedules come in many at a time
_COLUMNS = ("Memory", "For the step", "The step", "Peak", "Cards")
_WORDS = (2, 4)  # columns of words; the others are figures


class CardsDialog(Dialog):
    """A row for each size of card; it follows what is found. Signals: ``budget_wanted(bytes)``: the budget
    that a card leaves for the step."""

    budget_wanted = Signal(object)

    def __init__(self, exploration: Exploration, parent: QWidget | None = None) -> None:
        super().__init__(parent, "Which card do I need?", _SIZE)
        self._exploration, self._cards = exploration, common_cards()
        self.rows: tuple[CardRow, ...] = ()
        self._model = CellModel(_COLUMNS, _WORDS)
        self.table = cell_table(self._model, "Cards, and whether the step fits them")
        self.table.horizontalHeader().setStretchLastSection(True)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._allow())
        self.table.activated.connect(lambda _: self._use())
        self.notes = label("", muted=True, wrap=True)
        self.use = push_button(
            "Use as the budget", self._use, tip="Solve for what the chosen card leaves for the step"
        )
        self.setLayout(in_column((self.table, 1), self.notes, closing(self, self.use)))
        self._soon = later(self, _SOON_MS, self._refresh)
        exploration.graph_changed.connect(self._refresh)
        on(self._soon.start, exploration.known_changed, exploration.constraints_changed)
        exploration.solve_changed.connect(self._soon.start)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def _refresh(self) -> None:
        if not self.isVisible():
            return
        exploration = self._exploration
        graph, frontier, plain = exploration.graph, exploration.frontier, exploration.plain
        words = [("",) * len(_COLUMNS)] * len(self._cards.sizes)
        if graph is None or frontier is None or plain is None:
            self.rows, said = (), ["No graph is open."]
        else:
            self.rows = card_rows(frontier, self._cards, plain.peak_bytes)
            words = [cells(row, plain.peak_bytes, graph.base_cost) for row in self.rows]
            said = list(notes(graph, self._cards))
            if under := exploration.constraints.assumptions:
                said.append(f"All of this is under your constraints: {list_assumptions(under)}.")
        self.notes.setText("\n".join(said))
        self._model.fill_again([tuple(_cell(text, at) for at, text in enumerate(row)) for row in words])
        self._allow()

    @property
    def _chosen(self) -> CardRow | None:
        chosen = self.table.selectionModel().selectedRows()
        return self.rows[chosen[0].row()] if chosen and self.rows else None

    def _allow(self) -> None:
        self.use.setEnabled(self._chosen is not None)

    def _use(self) -> None:
        row, plain = self._chosen, self._exploration.plain
        if row is not None and plain is not None:
            self.budget_wanted.emit(plain.peak_bytes if row.fit is CardFit.KEEPS else row.budget_bytes)


def _cell(text: str, place: int) -> Cell:
    return Cell(text, text, text if place in _WORDS else "")
