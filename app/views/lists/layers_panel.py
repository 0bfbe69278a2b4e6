"""The list of layers, by the bytes they write."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt
from PySide6.QtWidgets import QLineEdit, QListView

from app.layout.layer_rows import LayerRow
from app.models.cursors import Selection
from app.models.exploration import Exploration
from app.theme import Theme
from app.views.common.panel import Panel
from app.views.lists.rows import FIGURE, OP, SHARE, BarDelegate
from checkmate.units import format_bytes


class LayersPanel(Panel):
    """Lists layers by the bytes that their forward ops write.

    A click selects the layer's largest op.
    """

    def __init__(self, exploration: Exploration, selection: Selection, theme: Theme) -> None:
        super().__init__("Layers")
        self.note.setText("by activation size")
        self._exploration, self._selection = exploration, selection
        self._rows = _Rows()
        self._filtered = QSortFilterProxyModel(self)
        self._filtered.setSourceModel(self._rows)
        self._filtered.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self._filter = QLineEdit()
        self._filter.setPlaceholderText("Filter layers")
        self._filter.setAccessibleName("Filter layers")
        self._filter.textChanged.connect(self._filtered.setFilterFixedString)
        self._list = QListView()
        self._list.setAccessibleName("Layers")
        self._delegate = BarDelegate(theme, "forward")
        self._list.setItemDelegate(self._delegate)
        self._list.setUniformItemSizes(True)
        self._list.setModel(self._filtered)
        self._list.selectionModel().currentChanged.connect(self._on_current)
        self.body.addWidget(self._filter)
        self.body.addWidget(self._list, 1)
        exploration.graph_changed.connect(self._on_graph)

    def focus_filter(self) -> None:
        """Put the cursor into the filter."""
        self._filter.setFocus()
        self._filter.selectAll()

    def _on_graph(self) -> None:
        drawn = self._exploration.unconstrained
        self._rows.show(() if drawn is None else drawn.layer_rows)

    def _on_current(self, index: QModelIndex) -> None:
        if index.isValid():
            self._selection.select(int(index.data(OP)))


class _Rows(QAbstractListModel):
    """The rows of the list, given to Qt one by one as it asks.

    So ten thousand rows are shown as quickly as ten.
    """

    def __init__(self) -> None:
        super().__init__()
        self._rows: tuple[LayerRow, ...] = ()

    def show(self, rows: tuple[LayerRow, ...]) -> None:
        self.beginResetModel()
        self._rows = rows
        self.endResetModel()

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self._rows)

    def data(
        self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        row = self._rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.name
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{row.name}: {format_bytes(row.bytes)} of activations"
        if role == FIGURE:
            return format_bytes(row.bytes)
        return {SHARE: row.share, OP: row.op}.get(role)
