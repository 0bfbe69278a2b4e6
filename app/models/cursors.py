"""The cursors that every view shares: playhead (a step), selection (an op), and the compared schedule (B)."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.models.exploration import Exploration
from app.presenters.matrix_image import Difference, difference
from app.state.knowledge import ListedSchedule
from app.workers.background import every, later


class Playhead(QObject):
    """A position in the schedule on screen, and its playback at ``speed`` times the base rate.

    Signals: ``moved(step)``, for pictures; ``told(step)``, for texts. During playback ``told`` comes a turn
    of the event loop after ``moved``, so that pictures are painted first; otherwise both come at once.
    """

    moved = Signal(int)
    told = Signal(int)
    playing_changed = Signal(bool)
    LONGEST_SECONDS = 60.0
    STEPS_PER_SECOND = 12.0
    TICK_MS = 40

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.step = 0
        self.count = 1
        self.speed = 1.0
        self._exact = 0.0
        self._timer = every(self, self.TICK_MS, self._tick)
        self._telling = later(self, 0, self._tell)

    @property
    def playing(self) -> bool:
        return self._timer.isActive()

    def set_count(self, count: int) -> None:
        share = self.step / max(1, self.count - 1)
        self.count = max(1, count)
        self.seek(round(share * (self.count - 1)), force=True)

    def seek(self, step: int, *, force: bool = False) -> None:
        step = max(0, min(self.count - 1, step))
        if step != self.step or force:
            self.step = step
            self._exact = float(step)
            self.moved.emit(step)
            if self.playing:
                self._telling.start()
            else:
                self._tell()

    def play(self, on: bool) -> None:
        if on == self.playing:
            return
        if on:
            if self.step >= self.count - 1:
                self.seek(0)
            self._timer.start()
        else:
            self._timer.stop()
            if self._telling.isActive():
                self._tell()
        self.playing_changed.emit(on)

    def toggle(self) -> None:
        self.play(not self.playing)

    def next_step(self) -> None:
        self.seek(self.step + 1)

    def previous_step(self) -> None:
        self.seek(self.step - 1)

    def first_step(self) -> None:
        self.seek(0)

    def last_step(self) -> None:
        self.seek(self.count - 1)

    def _tell(self) -> None:
        self._telling.stop()
        self.told.emit(self.step)

    def _tick(self) -> None:
        rate = max(self.STEPS_PER_SECOND, self.count / self.LONGEST_SECONDS) * self.speed
        self._exact += rate * self.TICK_MS / 1000
        exact = self._exact
        self.seek(int(exact))
        self._exact = exact
        if self.step >= self.count - 1:
            self.play(False)


class Selection(QObject):
    """The selected op, or one ``value`` that it makes; -1 for none, or for all that it makes."""

    changed = Signal(int)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.op = self.value = -1

    def select(self, op: int, value: int = -1) -> None:
        if (op, value) != (self.op, self.value):
            self.op, self.value = op, value
            self.changed.emit(op)


class Comparison(QObject):
    """The schedule (B) that the one on screen (A) is compared with. Signal ``pinned``: another one is B."""

    pinned = Signal()
    changed = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration = exploration
        self.other: ListedSchedule | None = None
        self._difference: tuple[ListedSchedule, ListedSchedule, Difference] | None = None
        exploration.graph_changed.connect(lambda: self.pin(None))
        exploration.shown_changed.connect(self._on_shown)

    @property
    def active(self) -> bool:
        return self.other is not None and self._exploration.shown is not None

    @property
    def difference(self) -> Difference | None:
        shown, other = self._exploration.shown, self.other
        if shown is None or other is None:
            return None
        known = self._difference
        if known is None or known[0] is not shown or known[1] is not other:
            found = difference(shown.graph, shown.schedule, shown.timeline, other.schedule, other.timeline)
            known = self._difference = shown, other, found
        return known[2]

    def pin(self, found: ListedSchedule | None) -> None:
        if found is not self.other:
            self.other = found
            self.pinned.emit()
            self.changed.emit()

    def _on_shown(self) -> None:
        if self.other is not None:
            self.changed.emit()
