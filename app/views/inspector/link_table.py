"""Values and ops that lead on from an op, as links."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.presenters.op_page import OpLink
from app.presenters.words.wording import short_name
from app.views.common.elided_link import ElidedLink
from app.views.common.panel import label

_LONGEST = 200  # characters; a name is cut to its place, not before
_MOST = 40  # rows; further ones are counted


class LinkTable(QWidget):
    """Lists links below a title; it is hidden while there are none.

    Signal ``wanted(op, value)``: a link was clicked.
    """

    wanted = Signal(int, int)

    def __init__(self, title: str) -> None:
        super().__init__()
        self.links: tuple[OpLink, ...] = ()
        self._shown: tuple[tuple[OpLink, ...], int] = (), -1
        self.hide()
        self.setAccessibleName(title)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 8, 8, 0)
        self._grid.setVerticalSpacing(0)
        self._grid.setHorizontalSpacing(8)
        self._grid.setColumnStretch(1, 1)
        self._grid.addWidget(label(title, muted=True), 0, 0, 1, 3)
        self._lines: list[tuple[QLabel, ElidedLink, QLabel, QLabel]] = []

    @property
    def buttons(self) -> list[ElidedLink]:
        """Return the links on screen, from the first."""
        return [line[1] for line in self._lines[: len(self.links)]]

    @property
    def texts(self) -> list[tuple[str, str, str, str]]:
        """Return what each row says: role, name, figure, detail."""
        rows = self._lines[: len(self.links)]
        return [(role.text(), name.whole, figure.text(), more.text()) for role, name, figure, more in rows]

    def show_links(self, links: Sequence[OpLink], selected: int = -1) -> None:
        """Show some links; the one to the value ``selected`` is marked."""
        if (tuple(links), selected) == self._shown:
            return
        self._shown = tuple(links), selected
        self.setVisible(bool(links))
        self.links = tuple(links[:_MOST])
        if len(links) > _MOST:
            self.links += (OpLink("", f"and {len(links) - _MOST} more", ""),)
        while len(self._lines) < len(self.links):
            self._add_line()
        for number, line in enumerate(self._lines):
            link = self.links[number] if number < len(self.links) else None
            for part in line:
                part.setVisible(link is not None)
            if link is not None:
                self._fill(line, link, marked=0 <= selected == link.value)

    def _fill(self, line: tuple[QLabel, ElidedLink, QLabel, QLabel], link: OpLink, *, marked: bool) -> None:
        role, name, figure, more = line
        leads = link.op >= 0
        role.setText(link.role)
        name.set_whole(short_name(link.name, _LONGEST) if leads else link.name, link.name)
        name.setEnabled(leads)
        name.setCheckable(marked)
        name.setChecked(marked)
        figure.setText(link.figure)
        more.setText(link.detail)
        more.setVisible(bool(link.detail))

    def _add_line(self) -> None:
        number = len(self._lines)
        line = (label("", muted=True), ElidedLink(), label(""), label("", muted=True, wrap=True))
        line[1].clicked.connect(lambda _=False, at=number: self._on_clicked(at))
        line[2].setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for column, part in enumerate(line[:3]):
            self._grid.addWidget(part, 2 * number + 1, column)
        self._grid.addWidget(line[3], 2 * number + 2, 1, 1, 2)
        self._lines.append(line)

    def _on_clicked(self, number: int) -> None:
        link, button = self.links[number], self._lines[number][1]
        button.setChecked(button.isCheckable())  # a click on the marked one leaves its mark
        self.wanted.emit(link.op, link.value)
