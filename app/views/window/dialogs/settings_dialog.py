"""The dialog for what the user prefers; each change applies at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QFormLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.actions import action
from app.theme import ThemeChoice
from app.views.common.buttons import command_button
from app.views.common.ringed import ChoiceBox, NumberBox
from app.views.window.preferences import LEAST_SECONDS, MOST_SECONDS, Preferences

_THEME_WORDS = {choice: action(f"view.theme_{choice.value}").words for choice in ThemeChoice}


class SettingsDialog(QDialog):
    """Shows the preferences, and where files are.

    ``folders``: what is kept in which folder. ``put_back`` puts the panels back.
    """

    def __init__(
        self,
        preferences: Preferences,
        folders: dict[str, Path],
        put_back: Callable[[], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._preferences = preferences
        self.theme = ChoiceBox()
        self.theme.setAccessibleName("Theme")
        for choice, words in _THEME_WORDS.items():
            self.theme.addItem(words, choice)
        self.theme.activated.connect(lambda _: preferences.theme.choose(self.theme.currentData()))
        self.fill = QCheckBox("Solve in the background")
        self.fill.setToolTip(
            "Look for schedules at other budgets while you ask for nothing: fill in the frontier"
        )
        self.fill.clicked.connect(preferences.listing.fill)
        self.seconds = NumberBox()
        self.seconds.setAccessibleName("Time for a solve, in seconds")
        self.seconds.setRange(LEAST_SECONDS, MOST_SECONDS)
        self.seconds.setSuffix(" s")
        self.seconds.valueChanged.connect(self._on_seconds)
        self.reset = command_button("view.panels_reset", put_back)
        column = QVBoxLayout(self)
        column.setSpacing(14)
        column.addLayout(self._form(folders))
        close = QPushButton("Close")
        close.clicked.connect(self.reject)
        column.addWidget(close, 0, Qt.AlignmentFlag.AlignRight)
        preferences.theme.chosen.connect(self._refresh)
        preferences.listing.filling_changed.connect(self._refresh)
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

    def _on_seconds(self, seconds: int) -> None:
        self._preferences.seconds = seconds

    def _refresh(self) -> None:
        self.theme.setCurrentIndex(self.theme.findData(self._preferences.theme.choice))
        self.fill.setChecked(self._preferences.listing.fill_wanted)
        self.seconds.setValue(self._preferences.seconds)


def _folder_link(folder: Path) -> QPushButton:
    """Return a button with the folder's path that opens it, once there is one."""
    link = QPushButton(str(folder).replace("&", "&&"))
    link.setObjectName("link")
    link.setEnabled(folder.is_dir())
    link.setToolTip("Open this folder" if folder.is_dir() else "It is made when something is kept in it")
    link.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))))
    return link
