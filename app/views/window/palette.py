"""The command palette: one field to find everything.

It finds every command, layer, op and schedule.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QListWidget, QListWidgetItem, QVBoxLayout, QWidget

from app.presenters.palette import PaletteEntry, matching
from app.theme import Theme
from app.views.lists.rows import FIGURE, BarDelegate

_WIDTH, _HEIGHT, _TOP = 560, 400, 70


class Palette(QFrame):
    """A search field and a list over the top of ``parent``.

    Up and Down choose, Enter runs, Esc or a click elsewhere closes it.
    """

    def __init__(self, entries: list[PaletteEntry], theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("palette")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAccessibleName("Search layers, schedules, commands")
        self._entries, self.found = entries, list[PaletteEntry]()
        column = QVBoxLayout(self)
        column.setContentsMargins(10, 10, 10, 8)
        column.setSpacing(6)
        self.field = QLineEdit()
        self.field.setPlaceholderText("Search layers, schedules, commands; > for commands alone")
        self.field.setAccessibleName("Search")
        self.field.textChanged.connect(self._on_text)
        self.field.installEventFilter(self)
        self.list = QListWidget()
        self.list.setAccessibleName("Found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._delegate = BarDelegate(theme, "accent")
        self.list.setItemDelegate(self._delegate)
        self.list.itemClicked.connect(lambda item: self._run(self.list.row(item)))
        column.addWidget(self.field)
        column.addWidget(self.list, 1)
        width = min(_WIDTH, parent.width() - 40)
        self.resize(width, min(_HEIGHT, parent.height() - 2 * _TOP))
        self.move((parent.width() - width) // 2, _TOP)
        self._on_text("")

    def open(self) -> None:
        """Show the palette, ready to type."""
        self.show()
        self.raise_()
        self.field.setFocus()

    def _on_text(self, text: str) -> None:
        self.found = matching(text, self._entries)
        self.list.clear()
        for entry in self.found:
            item = QListWidgetItem(entry.title)
            item.setData(FIGURE, f"{entry.hint}   {entry.kind}" if entry.hint else entry.kind)
            self.list.addItem(item)
        self.list.setCurrentRow(0)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.FocusOut:
            self.close()
        if event.type() in (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress):
            assert isinstance(event, QKeyEvent)
            if event.key() == Qt.Key.Key_Escape:
                event.accept()
                self.close()
                return True
        if event.type() == QEvent.Type.KeyPress:
            assert isinstance(event, QKeyEvent)
            moves = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
            key = Qt.Key(event.key())
            if key in moves and self.found:
                row = max(0, min(len(self.found) - 1, self.list.currentRow() + moves[key]))
                self.list.setCurrentRow(row)
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._run(self.list.currentRow())
                return True
        return super().eventFilter(watched, event)

    def _run(self, row: int) -> None:
        if 0 <= row < len(self.found):
            run = self.found[row].run
            self.close()
            run()
