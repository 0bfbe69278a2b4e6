"""A table of what is in memory in the selected steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    QTimer,
)
from PySide6.QtGui import QGuiApplication, QHideEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.models.clients.range_prices import RangePrices
from app.models.cursors import Selection
from app.models.exploration import Exploration
from app.models.span import StepSpan
from app.presenters.range_rows import (
    COLUMNS,
    COST,
    LAYER,
    NAME,
    NO_STEPS,
    PRICE,
    WORDS,
    Cell,
    RangeRow,
    price_cells,
    range_cells,
    range_rows,
    range_table,
    summary,
)
from app.presenters.wording import NameCut
from app.views.common.panel import label

_SIZE = (1240, 480)  # pixels
_LEAST_NAME, _WIDEST_LAYER = 200, 240
_MEASURED = 40  # rows, from which the widths of columns are taken
_SOON_MS = 80
_SORT = Qt.ItemDataRole.UserRole
_Index = QModelIndex | QPersistentModelIndex


class RangeDialog(QDialog):
    """A table of the values in memory in the selected steps.

    It follows what is selected. A click on a row selects the value everywhere.
    """

    def __init__(
        self, exploration: Exploration, span: StepSpan, selection: Selection, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Memory in the selected steps")
        self.resize(*_SIZE)
        self._exploration, self._span, self._selection = exploration, span, selection
        self.prices = RangePrices(self)
        self.prices.changed.connect(self._on_prices)
        self.words = label("", wrap=True)
        self.rows = RangeModel()
        self._sorted = QSortFilterProxyModel(self)
        self._sorted.setSourceModel(self.rows)
        self._sorted.setSortRole(_SORT)
        self._cut_names, self._cut_layers, self._fitted = CutNames(), CutNames(), False
        self.table = self._make_table()
        column = QVBoxLayout(self)
        column.addWidget(self.words)
        column.addWidget(self.table, 1)
        column.addWidget(label("Click a row to select the value in every view.", muted=True))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.copy = QPushButton("Copy the table")
        self.copy.setToolTip("Copy all rows as CSV")
        self.copy.clicked.connect(self._copy)
        buttons.addButton(self.copy, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.rejected.connect(self.close)
        column.addWidget(buttons)
        self._fit_soon = QTimer(self)
        self._fit_soon.setSingleShot(True)
        self._fit_soon.timeout.connect(self._fit_columns)
        self.table.horizontalHeader().sectionResized.connect(self._on_section)
        self._soon = QTimer(self)  # a drag selects other steps with each move
        self._soon.setSingleShot(True)
        self._soon.setInterval(_SOON_MS)
        self._soon.timeout.connect(self._refresh)
        span.chosen_changed.connect(self._soon.start)
        exploration.shown_changed.connect(self._soon.start)

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setAccessibleName("Values in memory in the selected steps")
        table.setModel(self._sorted)
        table.setSortingEnabled(True)
        table.sortByColumn(COST, Qt.SortOrder.DescendingOrder)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.verticalHeader().hide()
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setResizeContentsPrecision(_MEASURED)
        for place in WORDS:
            header.setSectionResizeMode(place, QHeaderView.ResizeMode.Interactive)
        table.setItemDelegateForColumn(NAME, self._cut_names)
        table.setItemDelegateForColumn(LAYER, self._cut_layers)
        # Selected, not current: the first row becomes current when the table gets the focus.
        table.selectionModel().selectionChanged.connect(lambda *_: self._on_row())
        table.clicked.connect(lambda _: self._on_row())  # a row that is selected here, but not elsewhere
        return table

    def open_table(self) -> None:
        """Show the table, or bring it to the front."""
        self.show()
        self.raise_()
        self.activateWindow()
        self._refresh()

    def _refresh(self) -> None:
        """Show the rows of the selected steps."""
        if not self.isVisible():
            return
        shown, axis, chosen = self._exploration.shown, self._span.axis, self._span.chosen
        if shown is None or axis is None or chosen is None:
            self.prices.stop()
            self.rows.fill((), [])
            self.words.setText(NO_STEPS)
            self.copy.setEnabled(False)
            return
        rows = range_rows(shown, axis, chosen)
        cells = range_cells(shown, rows, {}, busy=True)
        self._cut_names.know(row[NAME].text for row in cells)
        self._cut_layers.know(row[LAYER].text for row in cells)
        self.rows.fill(rows, cells)
        self._fit_columns()
        self.words.setText(summary(shown, chosen, rows))
        self.copy.setEnabled(True)
        first, last = chosen
        highest = first + int(np.argmax(shown.timeline.live_bytes[first : last + 1]))
        self.prices.ask(shown, highest, [row.value for row in rows if row.waits])

    def _on_section(self, column: int, _before: int, _now: int) -> None:
        if column != NAME:
            self._fit_soon.start()  # not at once: the header sets the other columns after this one

    def _fit_columns(self) -> None:
        """Give the layers their width once, and the names what is left.

        They keep enough to be told apart: then the table scrolls sideways.
        """
        if not self._fitted and self.rows.all:
            self._fitted = True
            self.table.resizeColumnToContents(LAYER)
            self.table.setColumnWidth(LAYER, min(self.table.columnWidth(LAYER), _WIDEST_LAYER))
        others = sum(self.table.columnWidth(column) for column in range(len(COLUMNS)) if column != NAME)
        self.table.setColumnWidth(NAME, max(_LEAST_NAME, self.table.viewport().width() - others))

    def _on_prices(self) -> None:
        shown = self._exploration.shown
        if shown is not None and self.rows.all:
            found, busy = self.prices.found, self.prices.busy
            self.rows.fill_prices(price_cells(shown, self.rows.all, found, busy=busy))

    def _on_row(self) -> None:
        for index in self.table.selectionModel().selectedRows()[:1]:
            row = self.rows.row(self._sorted.mapToSource(index).row())
            self._selection.select(row.op, row.value)

    def _copy(self) -> None:
        shown = self._exploration.shown
        if shown is not None:
            count = len(shown.schedule.steps)
            found = range_table(shown.graph, self.rows.all, self.prices.found, count)
            QGuiApplication.clipboard().setText(found.csv())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_columns()

    def hideEvent(self, event: QHideEvent) -> None:
        self._soon.stop()
        self.prices.stop()
        super().hideEvent(event)


class RangeModel(QAbstractTableModel):
    """The rows of a range, with the prices that are known so far."""

    def __init__(self) -> None:
        super().__init__()
        self.all: tuple[RangeRow, ...] = ()
        self._cells: list[tuple[Cell, ...]] = []

    def row(self, number: int) -> RangeRow:
        return self.all[number]

    def fill(self, rows: tuple[RangeRow, ...], cells: list[tuple[Cell, ...]]) -> None:
        """Show other rows."""
        self.beginResetModel()
        self.all, self._cells = rows, cells
        self.endResetModel()

    def fill_prices(self, cells: list[Cell]) -> None:
        """Show the same rows with what is known of the prices now."""
        self._cells = [(*row[:PRICE], cell) for row, cell in zip(self._cells, cells, strict=True)]
        if cells:
            self.dataChanged.emit(self.index(0, PRICE), self.index(len(cells) - 1, PRICE))

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (Qt's signature)
        return 0 if parent.isValid() else len(self.all)

    def columnCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (Qt's signature)
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        cell = self._cells[index.row()][index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return cell.text
        if role == _SORT:
            return cell.rank
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(index.column())
        if role == Qt.ItemDataRole.ToolTipRole and index.column() in WORDS:
            return cell.tip or cell.text
        return None


def _alignment(column: int) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignLeft if column in WORDS else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter


_MARGIN = 6  # pixels: Qt leaves half of them free on each side of a text


class CutNames(QStyledItemDelegate):
    """Paints a column of names; ``know`` tells it all of them."""

    def __init__(self) -> None:
        super().__init__()
        self._names = NameCut()

    def know(self, names: Iterable[str]) -> None:
        """Tell names of this column apart from now on."""
        self._names = NameCut(tuple(names))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        cell = QStyleOptionViewItem(option)
        self.initStyleOption(cell, index)
        widget = cell.widget
        style = QApplication.style() if widget is None else widget.style()
        place = style.subElementRect(QStyle.SubElement.SE_ItemViewItemText, cell, widget)
        room = place.width() - _MARGIN
        cell.text = self._names.cut(cell.text, cell.fontMetrics.horizontalAdvance, room)
        style.drawControl(QStyle.ControlElement.CE_ItemViewItem, cell, painter, widget)
