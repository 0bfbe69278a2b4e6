"""The switch for the work on other budgets, and its sign."""

from __future__ import annotations

from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QPushButton, QWidget

from app.models.exploration import Exploration
from app.presenters.wording import fill_text
from app.views.common.elided_label import ElidedLabel
from checkmate.progress import FillState

_TIP = (
    "While you ask for nothing, the solver looks for schedules at other budgets.\n"
    "It stops by itself when nothing is left to do, or after some minutes."
)


class FillRow(QWidget):
    """Says whether the frontier is being filled, and switches that."""

    def __init__(self, exploration: Exploration) -> None:
        super().__init__()
        self._exploration, self._listing = exploration, exploration.listing
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self.switch = QCheckBox("Fill the frontier")
        self.switch.setAccessibleName("Solve other budgets in the background")
        self.switch.setToolTip(_TIP)
        self.switch.setChecked(self._listing.fill_wanted)
        self.switch.clicked.connect(self._listing.fill)
        self.sign = ElidedLabel("muted")
        self.more = QPushButton("Go on")
        self.more.setObjectName("link")
        self.more.setToolTip("Look for schedules at other budgets for as long again")
        self.more.clicked.connect(lambda: self._listing.fill(True))
        row.addWidget(self.switch)
        row.addWidget(self.sign, 1)
        row.addWidget(self.more)
        self._listing.filling_changed.connect(self._refresh)
        for signal in (exploration.solve_changed, exploration.known_changed, exploration.passing_changed):
            signal.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        solve, listing = self._exploration.solve, self._listing
        solving = solve is not None and solve.running
        text = fill_text(
            listing.fill_wanted, listing.filling, solving=solving, found=len(self._exploration.known)
        )
        self.sign.set_whole(text)
        self.switch.setChecked(listing.fill_wanted)
        self.more.setVisible(listing.fill_wanted and listing.filling is FillState.RESTING)
