"""A queue for large schedules on their way to the screen.

A thread first computes what is drawn of each schedule.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.state.knowledge import ListedSchedule
from app.workers.background import Background

_AT_ONCE = 3000  # steps; for a longer schedule, computing what is drawn takes longer than a frame
_POLL_MS = 5


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
        """Return whether a schedule is being prepared to be shown."""
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
        """Show now what is still being prepared."""
        if self._waits:
            self._waits = False
            self._show(self._best())

    def forget(self) -> None:
        """Drop what is being prepared, because something else is shown."""
        self._waits = False

    def drop(self) -> None:
        """Forget all schedules; what is prepared in the thread ends by itself."""
        self._waits, self._tried = False, None

    def _on_done(self) -> None:
        if self._waits and self._best() is self._tried:
            self.finish()
        elif self._waits:
            self.start()
