"""What an op needs in memory to run, value by value."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from app.presenters.op_page import NeedRow
from app.presenters.wording import short_name, signed_bytes
from app.views.common.elided_label import ElidedLabel
from app.views.common.panel import label
from checkmate.units import format_bytes

_LONGEST = 200  # characters; a name is cut to its place, not before
_MOST = 40  # rows; further values share one


class NeedTable(QWidget):
    """Lists the parts of ``rows``, with their sum above them."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[NeedRow, ...] = ()
        self._title = label("", wrap=True)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 8, 8, 0)
        self._grid.setVerticalSpacing(3)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(self._title, 0, 0, 1, 3)
        self._lines: list[tuple[QLabel, ElidedLabel, QLabel]] = []

    @property
    def title(self) -> str:
        """Return the line above the rows."""
        return self._title.text()

    @property
    def texts(self) -> list[tuple[str, str, str]]:
        """Return what each visible row says: role, name, bytes."""
        return [
            (role.text(), name.whole, figure.text())
            for role, name, figure in self._lines
            if not figure.isHidden()
        ]

    def show_rows(self, rows: Sequence[NeedRow]) -> None:
        if tuple(rows) == self.rows:
            return
        self.rows = tuple(rows)
        self._title.setText(f"To run, it needs {format_bytes(sum(row.bytes for row in rows))} in memory:")
        seen = list(rows[:_MOST])
        rest = rows[_MOST:]
        if rest:
            seen.append(NeedRow("", f"and {len(rest)} more", sum(row.bytes for row in rest)))
        while len(self._lines) < len(seen):
            self._add_line()
        for number, line in enumerate(self._lines):
            for part in line:
                part.setVisible(number < len(seen))
            if number < len(seen):
                row = seen[number]
                line[0].setText(row.role)
                line[1].set_whole(short_name(row.name, _LONGEST) if row.op >= 0 else row.name, row.name)
                line[2].setText(signed_bytes(row.bytes))

    def _add_line(self) -> None:
        line = (label("", muted=True), ElidedLabel(mode=Qt.TextElideMode.ElideMiddle), label(""))
        line[1].setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        line[2].setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for column, part in enumerate(line):
            self._grid.addWidget(part, len(self._lines) + 1, column)
        self._lines.append(line)
