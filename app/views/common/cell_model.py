"""A table of cells that can be sorted by any column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from app.presenters.range_rows import Cell

_MEASURED = 40  # rows, from which the widths of columns are taken
_Index = QModelIndex | QPersistentModelIndex


class CellModel(QAbstractTableModel):
    """Rows of cells under ``columns``.

    Those in ``words`` are text, the others figures. It sorts its rows itself: through a proxy, each
    comparison would ask for two cells.
    """

    def __init__(self, columns: Sequence[str], words: Collection[int]) -> None:
        super().__init__()
        self._columns, self._words = tuple(columns), frozenset(words)
        self._cells: list[tuple[Cell, ...]] = []
        self._order: list[int] = []  # by row on screen: which of the cells it has
        self._sorted_by = -1, Qt.SortOrder.AscendingOrder

    def fill(self, cells: list[tuple[Cell, ...]]) -> None:
        """Show other rows, sorted as before."""
        self.beginResetModel()
        self._cells = cells
        self._order = self._sorted()
        self.endResetModel()

    def source(self, row: int) -> int:
        """Return which of the rows that were filled in is on screen in ``row``."""
        return self._order[row]

    def row_of(self, source: int) -> int:
        """Return where a row that was filled in is on screen."""
        return self._order.index(source)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; what is selected stays selected."""
        self.layoutAboutToBeChanged.emit()
        before, kept = self._order, self.persistentIndexList()
        self._sorted_by = column, order
        self._order = self._sorted()
        place = {source: row for row, source in enumerate(self._order)}
        moved = [self.index(place[before[index.row()]], index.column()) for index in kept]
        self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()

    def _sorted(self) -> list[int]:
        column, order = self._sorted_by
        rows = list(range(len(self._cells)))
        if 0 <= column < len(self._columns):
            falling = order is Qt.SortOrder.DescendingOrder
            rows.sort(key=lambda row: self._rank(row, column), reverse=falling)
        return rows

    def _rank(self, row: int, column: int) -> Any:
        return self._cells[row][column].rank

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (Qt's signature)
        return 0 if parent.isValid() else len(self._cells)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (Qt's signature)
        return 0 if parent.isValid() else len(self._columns)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._columns[section]
        return self._side(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        cell = self._cells[self._order[index.row()]][index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell.text
        if role == Qt.ItemDataRole.UserRole:
            return cell.rank
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._side(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            return cell.tip or None
        return None

    def _side(self, column: int) -> Qt.AlignmentFlag:
        side = Qt.AlignmentFlag.AlignLeft if column in self._words else Qt.AlignmentFlag.AlignRight
        return side | Qt.AlignmentFlag.AlignVCenter


def sorted_table(model: CellModel, name: str, stretched: int) -> QTableView:
    """Return a view of the model whose heads sort. One column takes the space that is left."""
    table = QTableView()
    table.setObjectName("cards")  # as other tables of figures look
    table.setAccessibleName(name)
    table.setModel(model)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    header = table.horizontalHeader()
    header.setResizeContentsPrecision(_MEASURED)
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(stretched, QHeaderView.ResizeMode.Stretch)
    table.setSortingEnabled(True)
    return table
