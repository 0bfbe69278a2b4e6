"""What is listed beside the frontier, and how that is filled."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from PySide6.QtCore import QObject, Signal

from app.state.knowledge import ListedSchedule
from app.state.saved import OwnSchedule
from app.state.solve import SliderTarget
from checkmate.progress import FillState

_NONE: Mapping[bytes, OwnSchedule] = MappingProxyType({})


class Listing(QObject):
    """The user's own schedules, one for each sequence of steps, and the work on other budgets.

    Attributes:
        fill_wanted: whether other budgets are solved while nothing is asked.
        filling: how that work stands; None before the solver has said anything.

    Signals: ``changed``: the list is another; ``fill_switched(on)``, also when it is only to go on.
    """

    changed = Signal()
    fill_switched = Signal(bool)
    filling_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._entries: dict[bytes, OwnSchedule] = {}
        self.fill_wanted = True
        self.filling: FillState | None = None

    @property
    def own(self) -> list[OwnSchedule]:
        def rank(entry: OwnSchedule) -> tuple[bool, int, float]:
            return not entry.pinned, -entry.found.peak_bytes, entry.found.cost

        return sorted(self._entries.values(), key=rank)

    def of(self, found: ListedSchedule) -> OwnSchedule | None:
        return self._entries.get(found.key)

    def put(self, key: bytes, entry: OwnSchedule | None) -> None:
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry
        self.changed.emit()

    def answer(self, asked: SliderTarget, found: ListedSchedule) -> None:
        """Add a solve's schedule in place of the last for the same question, unless the user changed that."""
        for key, entry in list(self._entries.items()):
            if key != found.key and not entry.touched and entry.answers(asked, found.constrained.constraints):
                del self._entries[key]
        known = self._entries.get(found.key)
        if known is None or (known.asked is None and not known.touched):
            self._entries[found.key] = OwnSchedule(found, asked)
        self.changed.emit()

    def restart(self, entries: Mapping[bytes, OwnSchedule] = _NONE) -> None:
        self._entries = dict(entries)
        self.filling = None
        self.changed.emit()
        self.filling_changed.emit()

    def set_filling(self, state: FillState | None) -> None:
        if state is not self.filling:
            self.filling = state
            self.filling_changed.emit()

    def fill(self, on: bool) -> None:
        """Solve other budgets in the background, or stop. Switched on, it runs for its full time again."""
        self.fill_wanted = on
        self.fill_switched.emit(on)
        self.filling_changed.emit()
