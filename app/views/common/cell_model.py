"""A table of cells that can be sorted by any column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView

from app.presenters.range_rows import Cell

_SORT = Qt.ItemDataRole.UserRole
_Index = QModelIndex | QPersistentModelIndex


class CellModel(QAbstractTableModel):
    """Rows of cells under ``columns``; those in ``words`` are text, the others figures."""

    def __init__(self, columns: Sequence[str], words: Collection[int]) -> None:
        super().__init__()
        self._columns, self._words = tuple(columns), frozenset(words)
        self._cells: list[tuple[Cell, ...]] = []

    def fill(self, cells: list[tuple[Cell, ...]]) -> None:
        """Show other rows."""
        self.beginResetModel()
        self._cells = cells
        self.endResetModel()

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
        cell = self._cells[index.row()][index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell.text
        if role == _SORT:
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
    """Return a view of the model whose heads sort; one column takes the space that is left."""
    rows = QSortFilterProxyModel(model)
    rows.setSourceModel(model)
    rows.setSortRole(_SORT)
    table = QTableView()
    table.setObjectName("cards")  # as other tables of figures look
    table.setAccessibleName(name)
    table.setModel(rows)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    header = table.horizontalHeader()
    header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    header.setSectionResizeMode(stretched, QHeaderView.ResizeMode.Stretch)
    table.setSortingEnabled(True)
    return table
