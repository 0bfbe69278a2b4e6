from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtCore import (
    QElapsedTimer,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFont, QFontMetrics, QKeyEvent, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QLineEdit,
    QStyleOptionViewItem,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from app.presenters.schedule_rows import RowGroup, ScheduleRow
from app.state.knowledge import ListedSchedule
from app.theme import CurrentTheme
from app.views.panels.bar_rows import DETAIL, FIGURE, MARK, PIN, BarDelegate

_Index = QModelIndex | QPersistentModelIndex
_EMPTY = {RowGroup.MINE: "What you solve for, pin or name is listed here."}
_ROOMY = 264  # pixels; a narrower list, such as one beside a scroll bar, has more lines
_HEAD_HEIGHT, _FIELD_HEIGHT = 26, 24
_AIM_MS = 600  # from the pointer's last move to a click on what it points at
_KEY = Qt.ItemDataRole.UserRole + 20


class ScheduleTree(QTreeWidget):
    """Shows the groups; a click on a group's head folds or opens it. Signals: ``chosen(found)``: a click or
    Enter; ``compared(found)``: Ctrl+click; ``renamed(found, name)``; ``removed(found)``: the Delete key;
    ``asked(found, position)``: its menu."""

    chosen = Signal(object)
    compared = Signal(object)
    renamed = Signal(object, str)
    removed = Signal(object)
    asked = Signal(object, object)

    def __init__(self, theme: CurrentTheme) -> None:
        super().__init__()
        self._shown: bytes | None = None
        self._narrow = False
        self._aimed = QElapsedTimer()
        self.setMouseTracking(True)
        self.setAccessibleName("Schedules")
        self.setHeaderHidden(True)
        self.setRootIsDecorated(False)
        self.setIndentation(0)
        self.setExpandsOnDoubleClick(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self._delegate = _ScheduleDelegate(theme)
        self.setItemDelegate(self._delegate)
        self.heads = {group: QTreeWidgetItem(self, [group.value]) for group in RowGroup}
        self._items: dict[bytes, QTreeWidgetItem] = {}
        self._rows: dict[bytes, ScheduleRow] = {}
        for group, head in self.heads.items():
            head.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
            head.setExpanded(group is not RowGroup.FRONTIER)
        self.itemClicked.connect(self._on_clicked)
        self.itemActivated.connect(lambda item, _: self._choose(item))
        self.itemChanged.connect(self._on_edited)
        self.itemExpanded.connect(lambda _: self._tell_folded())
        self.itemCollapsed.connect(lambda _: self._tell_folded())
        self.customContextMenuRequested.connect(self._on_menu)

    @property
    def editing(self) -> bool:
        return self.state() == QAbstractItemView.State.EditingState

    @property
    def aimed_at(self) -> bool:
        """Whether the pointer just moved here. A row that moves between press and release is not clicked."""
        return self._aimed.isValid() and not self._aimed.hasExpired(_AIM_MS)

    @property
    def rows(self) -> list[ScheduleRow]:
        return list(self._rows.values())

    def item(self, found: ListedSchedule) -> QTreeWidgetItem | None:
        return self._items.get(found.key)

    def current(self) -> ListedSchedule | None:
        item = self.currentItem()
        row = self._row(item)
        return None if row is None else row.found

    def _row(self, item: QTreeWidgetItem | None) -> ScheduleRow | None:
        return None if item is None or item.parent() is None else self._rows.get(bytes(item.data(0, _KEY)))

    def fill(self, groups: Mapping[RowGroup, tuple[ScheduleRow, ...]]) -> None:
        rows = {row.found.key: row for group in groups.values() for row in group}
        with QSignalBlocker(self):
            before, self._rows = self._rows, rows  # a scroll bar that comes meanwhile resizes the new rows
            if [(key, row.group) for key, row in rows.items()] != [(k, r.group) for k, r in before.items()]:
                self._rebuild(groups)
            for key, row in rows.items():
                self._set(self._items[key], row)
            for group, head in self.heads.items():
                head.setData(0, FIGURE, str(len(groups[group]) or ""))
        self._tell_folded()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.viewport().width() < _ROOMY
        if narrow != self._narrow:
            self._narrow = narrow
            with QSignalBlocker(self):
                for key, item in self._items.items():
                    self._set(item, self._rows[key])
            self.scheduleDelayedItemsLayout()

    def _rebuild(self, groups: Mapping[RowGroup, tuple[ScheduleRow, ...]]) -> None:
        at, current = self.verticalScrollBar().value(), self.current()
        self._items = {}
        for group, head in self.heads.items():
            while (child := head.child(0)) is not None:  # PySide never frees what takeChildren() returns
                head.removeChild(child)
            items = [QTreeWidgetItem() for _ in groups[group]]
            head.addChildren(items)
            self._items |= {row.found.key: item for row, item in zip(groups[group], items, strict=True)}
        if current is not None and current.key in self._items:
            self.setCurrentItem(self._items[current.key])
        self.verticalScrollBar().setValue(at)

    def _set(self, item: QTreeWidgetItem, row: ScheduleRow) -> None:
        item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable)
        name, detail = row.lines(narrow=self._narrow)
        item.setText(0, name)
        item.setToolTip(0, row.tip)
        for role, value in ((FIGURE, row.figure), (DETAIL, detail), (PIN, row.pinned), (_KEY, row.found.key)):
            item.setData(0, role, value)

    def show_schedule(
        self, shown: ListedSchedule | None, mark: Callable[[ListedSchedule], str | None]
    ) -> None:
        with QSignalBlocker(self):
            key = None if shown is None else shown.key
            if key != self._shown or self.current() is None:
                self._shown = key
                item = None if key is None else self._items.get(key)
                head = None if item is None else item.parent()
                if item is None or head is None:
                    self.setCurrentIndex(QModelIndex())
                else:
                    seen = item if head.isExpanded() else head
                    self.setCurrentItem(seen)
                    self.scrollToItem(seen)
            for found_key, item in self._items.items():
                item.setData(0, MARK, mark(self._rows[found_key].found))
        self._tell_folded()

    def _tell_folded(self) -> None:
        shown = None if self._shown is None else self._rows.get(self._shown)
        with QSignalBlocker(self):
            for group, head in self.heads.items():
                opened, filled = head.isExpanded(), head.childCount() > 0
                head.setText(0, f"{'▾' if opened else '▸'} {group.value}")
                head.setData(0, Qt.ItemDataRole.AccessibleTextRole, group.value)
                detail = "" if filled else _EMPTY.get(group, "")
                if shown is not None and shown.group is group and not opened:
                    detail = f"on screen: {shown.name}"
                head.setData(0, DETAIL, detail)
                head.setToolTip(0, "Click to open or fold" if filled else "")
        self.viewport().update()

    def _on_clicked(self, item: QTreeWidgetItem) -> None:
        row = self._row(item)
        if row is None:
            item.setExpanded(not item.isExpanded())
        elif QApplication.keyboardModifiers() & Qt.KeyboardModifier.ControlModifier:
            self.compared.emit(row.found)
        else:
            self.chosen.emit(row.found)

    def _choose(self, item: QTreeWidgetItem) -> None:
        row = self._row(item)
        if row is not None:
            self.chosen.emit(row.found)

    def _on_edited(self, item: QTreeWidgetItem) -> None:
        row = self._row(item)
        if row is not None and item.text(0) != row.lines(narrow=self._narrow)[0]:
            self.renamed.emit(row.found, item.text(0))

    def _on_menu(self, position: QPoint) -> None:
        row = self._row(self.itemAt(position))
        if row is not None:
            self.asked.emit(row.found, self.viewport().mapToGlobal(position))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._aimed.restart()
        super().mouseMoveEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._aimed.restart()
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        self._aimed.invalidate()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self._aimed.invalidate()
        current = self.current()
        if event.key() == Qt.Key.Key_Delete and current is not None:
            self.removed.emit(current)
            return
        item = self.currentItem()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and item is not None:
            self._on_clicked(item)
            return
        super().keyPressEvent(event)


class _ScheduleDelegate(BarDelegate):
    def __init__(self, theme: CurrentTheme) -> None:
        super().__init__(theme, "accent")

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:
        size = super().sizeHint(option, index)
        return size if index.parent().isValid() else QSize(size.width(), max(_HEAD_HEIGHT, size.height()))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        if index.parent().isValid():
            super().paint(painter, option, index)
            return
        painter.save()
        font = QFont(option.font)
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        option.font = font
        option.fontMetrics = QFontMetrics(font)
        super().paint(painter, option, index)
        painter.restore()

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: _Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setObjectName("inline")
        editor.setAccessibleName("Name of the schedule")
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: _Index) -> None:
        editor.setGeometry(QRect(option.rect.topLeft(), QSize(option.rect.width(), _FIELD_HEIGHT)))
