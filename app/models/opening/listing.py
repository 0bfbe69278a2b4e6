"""What is listed beside the frontier, and how that is filled."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.state.knowledge import ListedSchedule
from app.state.saved import OwnSchedule, OwnSchedules
from app.state.solve import SliderTarget
from checkmate.progress import FillState


class Listing(QObject):
    """The user's own schedules, and the work on other budgets.

    Attributes:
        own: the user's own list.
        fill_wanted: whether other budgets are solved while nothing is asked.
        filling: how that work stands; None before the solver has said anything.

    Signals:
        changed: the user's own list is another.
        fill_switched: ``fill_wanted`` was set; also when it is only to go on.
        filling_changed: ``filling`` or ``fill_wanted`` is another.
    """

    changed = Signal()
    fill_switched = Signal(bool)
    filling_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.own = OwnSchedules()
        self.fill_wanted = True
        self.filling: FillState | None = None

    def put(self, key: bytes, entry: OwnSchedule | None) -> None:
        """Set the entry of a sequence of steps; None removes it."""
        self.own.put(key, entry)
        self.changed.emit()

    def answer(self, asked: SliderTarget, found: ListedSchedule) -> None:
        """Add what a solve has led to."""
        self.own.answer(asked, found)
        self.changed.emit()

    def restart(self) -> None:
        """Empty the list, because another graph is open."""
        self.own.clear()
        self.filling = None
        self.changed.emit()
        self.filling_changed.emit()

    def set_filling(self, state: FillState | None) -> None:
        """Set how the work on other budgets stands."""
        if state is not self.filling:
            self.filling = state
            self.filling_changed.emit()

    def fill(self, on: bool) -> None:
        """Solve other budgets in the background, or do not.

        Switched on again, the work goes on for as long again.
        """
        self.fill_wanted = on
        self.fill_switched.emit(on)
        self.filling_changed.emit()
