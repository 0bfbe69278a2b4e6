from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QSizePolicy, QWidget

from app.presenters.op_page import NeedRow, OpLink
from app.presenters.wording import short_name, signed_bytes
from app.views.common.texts import ElidedLabel, ElidedLink, Link
from app.views.common.widgets import called, label
from checkmate.units import format_bytes

_LONGEST = 200  # characters; a name is cut to its place, not before
_MOST = 40  # rows; further ones are counted


@dataclass(frozen=True)
class _LinkLine:
    """The widgets of one row. Either ``role`` or ``step`` is visible."""

    role: QLabel
    step: Link
    name: ElidedLink
    figure: QLabel
    detail: QLabel

    def show(self, link: OpLink | None, selected: int) -> None:
        """Show a link, highlighted if it leads to the value ``selected``. None hides the row."""
        if link is None:
            for part in (self.role, self.step, self.name, self.figure, self.detail):
                part.hide()
            return
        leads, marked = link.op >= 0, 0 <= selected == link.value
        self.role.setVisible(link.step < 0)
        self.step.setVisible(link.step >= 0)
        self.name.show()
        self.figure.show()
        self.detail.setVisible(bool(link.detail))
        self.role.setText(link.role)
        self.step.setText(link.role)
        called(self.step, f"Go to {link.role}", f"Go to {link.role}")
        self.name.set_whole(short_name(link.name, _LONGEST) if leads else link.name, link.name)
        self.name.setEnabled(leads)
        self.name.setCheckable(marked)
        self.name.setChecked(marked)
        self.figure.setText(link.figure)
        self.detail.setText(link.detail)


class LinkTable(QWidget):
    """Lists links below a title; it is hidden while there are none. Its gap to the rest of the page is above
    it, or below it where it is ``on_top``. Signals: ``wanted(op, value)``: a link was clicked;
    ``sought(step)``: a step was."""

    wanted = Signal(int, int)
    sought = Signal(int)

    def __init__(self, title: str, *, on_top: bool = False) -> None:
        super().__init__()
        self.links: tuple[OpLink, ...] = ()
        self._shown: tuple[tuple[OpLink, ...], int] = (), -1
        self.hide()
        self.setAccessibleName(title)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0 if on_top else 8, 8, 8 if on_top else 0)
        self._grid.setVerticalSpacing(0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(label(title, muted=True), 0, 0, 1, 3)
        self.lines: list[_LinkLine] = []
        self._add_line()  # Tab reaches further ones after it

    def show_links(self, links: Sequence[OpLink], selected: int = -1) -> None:
        if (tuple(links), selected) == self._shown:
            return
        self._shown = tuple(links), selected
        self.setVisible(bool(links))
        self.links = tuple(links[:_MOST])
        if len(links) > _MOST:
            self.links += (OpLink("", f"and {len(links) - _MOST} more", ""),)
        while len(self.lines) < len(self.links):
            self._add_line()
        for number, line in enumerate(self.lines):
            line.show(self.links[number] if number < len(self.links) else None, selected)

    def _add_line(self) -> None:
        number = len(self.lines)
        detail = label("", muted=True, wrap=True)
        line = _LinkLine(label("", muted=True), Link(), ElidedLink(), label(""), detail)
        line.step.clicked.connect(lambda: self.sought.emit(self.links[number].step))
        line.name.clicked.connect(lambda: self._on_clicked(number))
        line.figure.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        line.detail.setTextFormat(Qt.TextFormat.PlainText)
        for column, part in ((0, line.role), (0, line.step), (1, line.name), (2, line.figure)):
            self._grid.addWidget(part, 2 * number + 1, column)
        self._grid.addWidget(line.detail, 2 * number + 2, 1, 1, 2)
        stops = *(one.name for one in self.lines[-1:]), line.step, line.name
        for before, after in pairwise(stops):
            QWidget.setTabOrder(before, after)
        self.lines.append(line)

    def _on_clicked(self, number: int) -> None:
        link, button = self.links[number], self.lines[number].name
        button.setChecked(button.isCheckable())  # a click on the marked one leaves its mark
        self.wanted.emit(link.op, link.value)


class NeedTable(QWidget):
    """Lists the parts of ``rows``, with their sum above them."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[NeedRow, ...] = ()
        self.title = label("", wrap=True)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 8, 8, 0)
        self._grid.setVerticalSpacing(3)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(self.title, 0, 0, 1, 3)
        self.lines: list[tuple[QLabel, ElidedLabel, QLabel]] = []

    def show_rows(self, rows: Sequence[NeedRow]) -> None:
        if tuple(rows) == self.rows:
            return
        self.rows = tuple(rows)
        self.title.setText(f"To run, it needs {format_bytes(sum(row.bytes for row in rows))} in memory:")
        seen = list(rows[:_MOST])
        rest = rows[_MOST:]
        if rest:
            seen.append(NeedRow("", f"and {len(rest)} more", sum(row.bytes for row in rest)))
        while len(self.lines) < len(seen):
            self._add_line()
        for number, line in enumerate(self.lines):
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
            self._grid.addWidget(part, len(self.lines) + 1, column)
        self.lines.append(line)
