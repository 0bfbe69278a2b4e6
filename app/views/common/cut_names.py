"""Names in a table, cut so that they can be told apart."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QModelIndex, QPersistentModelIndex
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QApplication, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from app.presenters.words.name_cut import NameCut

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
