"""The dialog that lists every command with its keys."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.actions import ACTIONS, VIEW_KEYS
from app.views.common.panel import label

_SIZE = (620, 640)  # pixels


class KeysDialog(QDialog):
    """Lists what the window can do, by menu and by view, with a filter above."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Commands and keys")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(*_SIZE)
        self._filter = QLineEdit()
        self._filter.setPlaceholderText("Filter: a command, a key or a view")
        self._filter.setAccessibleName("Filter")
        self._filter.setClearButtonEnabled(True)
        self._filter.textChanged.connect(self._on_filter)
        self._list = QTreeWidget()
        self._list.setAccessibleName("Commands and keys")
        self._list.setHeaderLabels(["Command", "Keys"])
        self._list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self._list.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self._list.header().setStretchLastSection(False)
        self._groups: list[tuple[QTreeWidgetItem, list[QTreeWidgetItem]]] = []
        for name, rows in _groups():
            group = QTreeWidgetItem([name, ""])
            group.setFlags(Qt.ItemFlag.ItemIsEnabled)
            made = [QTreeWidgetItem(row) for row in rows]
            group.addChildren(made)
            self._list.addTopLevelItem(group)
            self._groups.append((group, made))
        self._list.expandAll()
        self._none = label("Nothing has this name or key.", muted=True)
        self._none.hide()
        column = QVBoxLayout(self)
        for part in (self._filter, self._list, self._none):
            column.addWidget(part)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column.addWidget(buttons)

    def _on_filter(self, text: str) -> None:
        """Show rows that contain ``text``, and all of a menu of that name."""
        wanted, any_found = text.strip().lower(), False
        for group, rows in self._groups:
            whole, found = wanted in group.text(0).lower(), False
            for row in rows:
                fits = whole or any(wanted in row.text(column).lower() for column in (0, 1))
                row.setHidden(not fits)
                found |= fits
            group.setHidden(not found)
            any_found |= found
        self._none.setVisible(not any_found)


def _groups() -> list[tuple[str, list[list[str]]]]:
    groups: dict[str, list[list[str]]] = {}
    for entry in ACTIONS:
        where = "Elsewhere in the window" if entry.menu is None else entry.menu.title
        groups.setdefault(where, []).append([entry.full_words, _keys(entry.keys)])
    for own in VIEW_KEYS:
        groups.setdefault(f"In the view: {own.view}", []).append([own.words, ", ".join(own.keys)])
    return list(groups.items())


def _keys(keys: tuple[str, ...]) -> str:
    native = QKeySequence.SequenceFormat.NativeText
    return ", ".join(QKeySequence(key).toString(native) for key in keys)
