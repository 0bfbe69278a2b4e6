from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from app.presenters.range_rows import Cell
from app.presenters.wording import NameCut
from app.views.common.widgets import called

_MEASURED = 40  # rows, from which the widths of columns are taken
_MARGIN = 6  # pixels: Qt leaves half of them free on each side of a text
_Index = QModelIndex | QPersistentModelIndex


class CellModel(QAbstractTableModel):
    """Rows of cells under ``columns``. Those in ``words`` are text, the others figures. It sorts its rows
    itself: through a proxy, each comparison would ask for two cells."""

    def __init__(self, columns: Sequence[str], words: Collection[int]) -> None:
        super().__init__()
        self._columns, self._words = tuple(columns), frozenset(words)
        self.cells: list[tuple[Cell, ...]] = []
        self._order: list[int] = []  # by row on screen: which of the cells it has
        self._sorted_by = -1, Qt.SortOrder.AscendingOrder

    def fill(self, cells: list[tuple[Cell, ...]], columns: Sequence[str] = ()) -> None:
        self.beginResetModel()
        self.cells, self._columns = cells, tuple(columns) or self._columns
        self._order = self._sorted()
        self.endResetModel()

    def fill_again(self, cells: list[tuple[Cell, ...]]) -> None:
        """Show what is new of the same rows; what is selected stays selected."""
        if len(cells) != len(self.cells):
            self.fill(cells)
        elif cells:
            self.cells = cells
            self.dataChanged.emit(self.index(0, 0), self.index(len(cells) - 1, len(self._columns) - 1))
            if self._sorted() != self._order:
                self.sort(*self._sorted_by)

    def source(self, row: int) -> int:
        """Return which of the rows that were filled in is on screen in ``row``."""
        return self._order[row]

    def row_of(self, source: int) -> int:
        return self._order.index(source)

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
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
        rows = list(range(len(self.cells)))
        if 0 <= column < len(self._columns):
            falling = order is Qt.SortOrder.DescendingOrder
            rows.sort(key=lambda row: self._rank(row, column), reverse=falling)
        return rows

    def _rank(self, row: int, column: int) -> tuple[bool, Any]:
        rank = self.cells[row][column].rank
        return isinstance(rank, str), rank

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (Qt's signature)
        return 0 if parent.isValid() else len(self.cells)

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
        cell = self.cells[self._order[index.row()]][index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell.text
        if role == Qt.ItemDataRole.UserRole:
            return cell.rank
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._side(index.column())
        return cell.tip or None if role == Qt.ItemDataRole.ToolTipRole else None

    def _side(self, column: int) -> Qt.AlignmentFlag:
        side = Qt.AlignmentFlag.AlignLeft if column in self._words else Qt.AlignmentFlag.AlignRight
        return side | Qt.AlignmentFlag.AlignVCenter


def cell_table(model: CellModel, name: str) -> QTableView:
    table = called(QTableView(showGrid=False, wordWrap=False), name)
    table.setModel(model)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.verticalHeader().hide()
    table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
    return table


def sorted_table(model: CellModel, name: str, stretched: int | None = None) -> QTableView:
    """Return a view of the model whose heads sort. The column ``stretched`` takes the space that is left."""
    table = cell_table(model, name)
    table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
    table.setTabKeyNavigation(False)
    table.horizontalHeader().setResizeContentsPrecision(_MEASURED)
    if stretched is not None:
        table.horizontalHeader().setSectionResizeMode(stretched, QHeaderView.ResizeMode.Stretch)
    table.setSortingEnabled(True)
    return table


class CutNames(QStyledItemDelegate):
    """Paints a column of names; ``know`` tells it all of them."""

    def __init__(self) -> None:
        super().__init__()
        self._names = NameCut()

    def know(self, names: Iterable[str]) -> None:
        self._names = NameCut(tuple(names))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        cell = QStyleOptionViewItem(option)
        self.initStyleOption(cell, index)
        widget = cell.widget
        style = QApplication.style() if widget is None else widget.style()
        place = style.subElementRect(QStyle.SubElement.SE_ItemViewItemText, cell, widget)
        room = place.width() - _MARGIN
        cell.text = self._names.cut(cell.text, cell.fontMetrics.horizontalAdvance, room)
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, cell, painter, widget)
