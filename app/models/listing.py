from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.state.knowledge import ListedSchedule
from app.state.saved import OwnSchedule, OwnSchedules
from app.state.solve import SliderTarget
from app.workers.background import Background
from checkmate.progress import FillState

_AT_ONCE = 3000  # steps; for a longer schedule, computing what is drawn takes longer than a frame
_POLL_MS = 5


class Listing(QObject):
    """The user's own schedules, and the work on other budgets.

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
        self.own = OwnSchedules()
        self.fill_wanted = True
        self.filling: FillState | None = None

    def put(self, key: bytes, entry: OwnSchedule | None) -> None:
        self.own.put(key, entry)
        self.changed.emit()

    def answer(self, asked: SliderTarget, found: ListedSchedule) -> None:
        self.own.answer(asked, found)
        self.changed.emit()

    def restart(self) -> None:
        self.own.clear()
        self.filling = None
        self.changed.emit()
        self.filling_changed.emit()

    def set_filling(self, state: FillState | None) -> None:
        if state is not self.filling:
            self.filling = state
            self.filling_changed.emit()

    def fill(self, on: bool) -> None:
        """Solve other budgets in the background, or do not. Switched on, it goes on for as long again."""
        self.fill_wanted = on
        self.fill_switched.emit(on)
        self.filling_changed.emit()


class DisplayQueue(QObject):
    """Show the best schedule; prepare a large one in a thread first.

    ``best`` returns the schedule to show. ``show`` is called with it: at once if it is small or already
    prepared.
    """

    def __init__(
        self,
        best: Callable[[], ListedSchedule | None],
        show: Callable[[ListedSchedule | None], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._best, self._show = best, show
        self._waits = False
        self._tried: ListedSchedule | None = None
        self._thread = Background(self, poll_ms=_POLL_MS)
        self._thread.done.connect(self._on_done)

    @property
    def waits(self) -> bool:
        return self._waits

    def start(self) -> None:
        """Look whether there is a better schedule to show."""
        best = self._best()
        if best is None or len(best.schedule.steps) <= _AT_ONCE or best.prepared:
            self._waits = False
            self._show(best)
            return
        self._waits = True
        if self._thread.start(best.prepare):
            self._tried = best

    def finish(self) -> None:
        if self._waits:
            self._waits = False
            self._show(self._best())

    def forget(self) -> None:
        self._waits = False

    def drop(self) -> None:
        """Forget all schedules; what is prepared in the thread ends by itself."""
        self._waits, self._tried = False, None

    def _on_done(self) -> None:
        if self._waits and self._best() is self._tried:
            self.finish()
        elif self._waits:
            self.start()
