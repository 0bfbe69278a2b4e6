"""Buttons in as many rows as they need."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout


class ButtonRows(QVBoxLayout):
    """Puts visible buttons side by side, and those that do not fit below.

    Each button has a parent already, and is to be seen unless ``setVisible(False)`` was called.
    """

    def __init__(self, buttons: Sequence[QPushButton]) -> None:
        super().__init__()
        self._buttons = tuple(buttons)
        self._rows: list[QHBoxLayout] = []
        self._places: list[list[QPushButton]] = []

    def place(self, width: int) -> None:
        """Fill rows of this width; each has at least one button."""
        places = self._in_rows(width)
        if places == self._places:
            return
        self._places = places
        for row in self._rows:
            while row.count():
                row.takeAt(0)
        while len(self._rows) < len(places):
            row = QHBoxLayout()
            self._rows.append(row)
            self.addLayout(row)
        for row, buttons in zip(self._rows, places, strict=False):
            for button in buttons:
                row.addWidget(button)
            row.addStretch(1)

    def _in_rows(self, width: int) -> list[list[QPushButton]]:
        rows: list[list[QPushButton]] = [[]]
        left = width
        for button in self._buttons:
            if button.isHidden():
                continue
            needed = button.sizeHint().width() + self.spacing()
            if rows[-1] and needed > left:
                rows.append([])
                left = width
            rows[-1].append(button)
            left -= needed
        return rows
