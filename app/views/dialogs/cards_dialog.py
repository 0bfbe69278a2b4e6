"""The dialog that says which common cards the step fits."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.models.exploration import Exploration
from app.views.common.panel import label
from checkmate.catalog.cards import common_cards
from checkmate.frontiers.cards import CardFit, CardRow, card_rows, cells, notes
from checkmate.solvers.constraints import list_assumptions

_SIZE = (1040, 440)  # pixels
_SOON_MS = 200  # schedules come in many at a time
_COLUMNS = ("Memory", "For the step", "The step", "Peak", "Cards")
_WORDS = (2, 4)  # columns of words; the others are figures


class CardsDialog(QDialog):
    """A row for each size of card; it follows what is found.

    Signals: ``budget_wanted(bytes)``: the budget that a card leaves for the step.
    """

    budget_wanted = Signal(object)

    def __init__(self, exploration: Exploration, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Which card do I need?")
        self.resize(*_SIZE)
        self._exploration, self._cards = exploration, common_cards()
        self.rows: tuple[CardRow, ...] = ()
        self.table = self._make_table()
        self.notes = label("", muted=True, wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.use = QPushButton("Use as the budget")
        self.use.setToolTip("Solve for what the chosen card leaves for the step")
        self.use.clicked.connect(self._use)
        buttons.addButton(self.use, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.close)
        column = QVBoxLayout(self)
        column.addWidget(self.table, 1)
        column.addWidget(self.notes)
        column.addWidget(buttons)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MS)
        self._soon.timeout.connect(self._refresh)
        for signal in (
            exploration.graph_changed,
            exploration.known_changed,
            exploration.constraints_changed,
            exploration.solve_changed,
        ):
            signal.connect(self._soon.start)

    def _make_table(self) -> QTableWidget:
        table = QTableWidget(len(self._cards.sizes), len(_COLUMNS))
        table.setAccessibleName("Cards, and whether the step fits them")
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.verticalHeader().hide()
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(True)
        for place, title in enumerate(_COLUMNS):
            table.setHorizontalHeaderItem(place, _cell(title, place))
        table.itemSelectionChanged.connect(self._allow)
        table.itemActivated.connect(lambda _: self._use())
        return table

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def _refresh(self) -> None:
        """Show what is known now."""
        if not self.isVisible():
            return
        exploration = self._exploration
        graph, frontier, plain = exploration.graph, exploration.frontier, exploration.plain
        if graph is None or frontier is None or plain is None:
            self.rows = ()
            self.notes.setText("No graph is open.")
        else:
            self.rows = card_rows(frontier, self._cards, plain.peak_bytes)
            said = [*notes(graph, self._cards), *_constrained(exploration)]
            self.notes.setText("\n".join(said))
        for number in range(self.table.rowCount()):
            words = ("",) * len(_COLUMNS)
            if self.rows and graph is not None and plain is not None:
                words = cells(self.rows[number], plain.peak_bytes, graph.base_cost)
            for place, text in enumerate(words):
                self.table.setItem(number, place, _cell(text, place))
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


def _constrained(exploration: Exploration) -> list[str]:
    """Return a sentence on the constraints that the rows hold under. It is empty if there are none."""
    said = exploration.constraints.assumptions
    return [f"All of this is under your constraints: {list_assumptions(said)}."] if said else []


def _cell(text: str, column: int) -> QTableWidgetItem:
    """Return a cell: words on the left, figures on the right. Words are shown whole where the mouse rests."""
    cell = QTableWidgetItem(text)
    side = Qt.AlignmentFlag.AlignLeft if column in _WORDS else Qt.AlignmentFlag.AlignRight
    cell.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
    if column in _WORDS:
        cell.setToolTip(text)
    return cell
