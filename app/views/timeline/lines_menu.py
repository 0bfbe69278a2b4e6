"""The menu that chooses the lines across the memory curve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QPoint
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QWidget

from app.models.clients.memory_lines import MemoryLines
from app.presenters.lines_across import DEVICE, NO_CARD, LineKind

_WORDS = {
    LineKind.REQUESTED: "&Requested peak, predicted",
    LineKind.ALLOCATED: "&Allocated peak, estimated or measured",
    LineKind.BOUND: "&Least possible, proved",
    LineKind.CAPACITY: "&Card's capacity",
}


class LinesMenu(QMenu):
    """Switches each kind of line, and chooses the card. It is filled when it opens."""

    def __init__(self, lines: MemoryLines, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines = lines
        self.setTitle("Lines")
        self.setAccessibleName("Lines across the memory curve")
        self._group = QActionGroup(self)
        self.aboutToShow.connect(self.fill)

    def offer(self, button: QWidget) -> None:
        """Open the menu by itself, below a button."""
        self.popup(button.mapToGlobal(QPoint(0, button.height())))

    def fill(self) -> None:
        """List what can be chosen now."""
        self.clear()
        choice = self._lines.choice
        for kind, words in _WORDS.items():
            self._add(words, kind in choice.wanted, partial(choice.switch, kind))
        self.addSection("Card")
        self._group = QActionGroup(self)
        entries = self._lines.cards
        chosen = choice.card if choice.card in {one.key for one in entries} else NO_CARD
        for entry in entries:
            self._add(entry.words, entry.key == chosen, partial(self._take, entry.key), card=True)

    def _add(self, words: str, checked: bool, run: Callable[[], None], *, card: bool = False) -> None:
        entry = self.addAction(words)
        entry.setCheckable(True)
        if card:
            self._group.addAction(entry)
        entry.setChecked(checked)
        entry.triggered.connect(lambda _=False: run())

    def _take(self, card: str) -> None:
        """Choose a card; a card that is chosen is also drawn."""
        choice = self._lines.choice
        choice.choose_card(card)
        if card not in (NO_CARD, DEVICE):
            choice.want(choice.wanted | {LineKind.CAPACITY})
