"""The rows of the memory page, as Qt asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt

from app.presenters.hotspot_rows import HotspotRow
from app.views.lists.rows import DETAIL, FIGURE, SHARE

_Index = QModelIndex | QPersistentModelIndex


class HotspotModel(QAbstractListModel):
    """Rows that change with each step of the playback.

    A list is laid out anew only where it gets longer or shorter, or a row another height.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[HotspotRow] = []

    def fill(self, rows: Sequence[HotspotRow]) -> None:
        """Show other rows."""
        before, now = len(self.rows), len(rows)
        kept = min(before, now)
        if any(bool(self.rows[row].detail) != bool(rows[row].detail) for row in range(kept)):
            self.beginResetModel()
            self.rows = list(rows)
            self.endResetModel()
            return
        if now > before:
            self.beginInsertRows(QModelIndex(), before, now - 1)
        elif now < before:
            self.beginRemoveRows(QModelIndex(), now, before - 1)
        self.rows = list(rows)
        if now > before:
            self.endInsertRows()
        elif now < before:
            self.endRemoveRows()
        if kept:
            self.dataChanged.emit(self.index(0), self.index(kept - 1))

    def rowCount(self, parent: _Index = QModelIndex()) -> int:  # noqa: B008 (Qt's signature)
        return 0 if parent.isValid() else len(self.rows)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.name
        if role == Qt.ItemDataRole.ToolTipRole:
            return "\n".join(text for text in (f"{row.name}  {row.figure}", row.detail) if text)
        return {SHARE: row.share, FIGURE: row.figure, DETAIL: row.detail}.get(role)
