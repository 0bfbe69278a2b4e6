from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QKeySequence
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QHeaderView,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QWidget,
)

from app.actions import ACTIONS, VIEW_KEYS, action
from app.theme import ThemeChoice
from app.views.common.widgets import (
    ChoiceBox,
    Dialog,
    NumberBox,
    called,
    closing,
    command_button,
    filter_field,
    in_column,
    in_row,
    label,
    push_button,
)
from app.views.window.preferences import LEAST_SECONDS, MOST_SECONDS, Preferences
from app.workers.background import on

_THEME_WORDS = {choice: action(f"view.theme_{choice.value}").words for choice in ThemeChoice}


class SettingsDialog(Dialog):
    """Shows the preferences, and where files are. ``folders``: what is kept in which folder."""

    def __init__(
        self,
        preferences: Preferences,
        folders: dict[str, Path],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, "Settings", once=True)
        self._preferences = preferences
        self.theme = called(ChoiceBox(), "Theme")
        for choice, words in _THEME_WORDS.items():
            self.theme.addItem(words, choice)
        self.theme.activated.connect(lambda _: preferences.theme.choose(self.theme.currentData()))
        self.fill = QCheckBox("Solve in the background")
        self.fill.setToolTip(
            "Look for schedules at other budgets while you ask for nothing: fill in the frontier"
        )
        self.fill.clicked.connect(preferences.listing.fill)
        self.seconds = called(
            NumberBox(minimum=LEAST_SECONDS, maximum=MOST_SECONDS, suffix=" s"),
            "Time for a solve, in seconds",
        )
        self.seconds.valueChanged.connect(lambda seconds: setattr(preferences, "seconds", seconds))
        self.reset = command_button("view.panels_reset")
        close = in_row(None, push_button("Close", self.reject))
        self.setLayout(in_column(self._form(folders), close, gap=14))
        on(self._refresh, preferences.theme.chosen, preferences.listing.filling_changed)
        self._refresh()
        self.setMinimumWidth(460)

    def _form(self, folders: dict[str, Path]) -> QFormLayout:
        form = QFormLayout()
        form.setHorizontalSpacing(14)
        form.setVerticalSpacing(8)
        form.addRow("Theme", self.theme)
        form.addRow("Time for a solve", self.seconds)
        form.addRow("Other budgets", self.fill)
        form.addRow("Panels", self.reset)
        for what, folder in folders.items():
            form.addRow(what, _folder_link(folder))
        return form

    def _refresh(self) -> None:
        self.theme.setCurrentIndex(self.theme.findData(self._preferences.theme.choice))
        self.fill.setChecked(self._preferences.listing.fill_wanted)
        self.seconds.setValue(self._preferences.seconds)


def _folder_link(folder: Path) -> QPushButton:
    tip = "Open this folder" if folder.is_dir() else "It is made when something is kept in it"
    url = QUrl.fromLocalFile(str(folder))
    link = push_button(str(folder).replace("&", "&&"), lambda: QDesktopServices.openUrl(url), "link", tip=tip)
    link.setEnabled(folder.is_dir())
    return link


class KeysDialog(Dialog):
    """Lists what the window can do, by menu and by view, with a filter above."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, "Commands and keys", (620, 640), once=True)
        self._filter = filter_field("Filter", "Filter: a command, a key or a view")
        self._filter.textChanged.connect(self._on_filter)
        self._list = called(QTreeWidget(), "Commands and keys")
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
        self.setLayout(in_column(self._filter, self._list, self._none, closing(self)))

    def _on_filter(self, text: str) -> None:
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
