"""What it costs to compute values again that wait through a range.

A thread replays the schedule for each.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from app.state.knowledge import ListedSchedule
from checkmate.memory.hotspot import moment
from checkmate.memory.suggestions import Suggestion, recomputed

MOST_VALUES = 40  # each takes one or two replays
_POLL_MS = 50
_PAUSE_S = 0.2  # a range grows while it is dragged


class RangePrices(QObject):
    """The prices of values, found one after the other.

    Attributes:
        found: value → what computing it again saves and costs. A value that is not there does not help, or
            was not tried yet.
        busy: whether more may be found.

    Signals:
        changed: ``found`` or ``busy`` is another.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.found: dict[int, Suggestion] = {}
        self._worker: _Pricing | None = None
        self._poll = QTimer(self)
        self._poll.setInterval(_POLL_MS)
        self._poll.timeout.connect(self._collect)

    @property
    def busy(self) -> bool:
        """Return whether more may be found."""
        return self._worker is not None

    def ask(self, shown: ListedSchedule, highest: int, values: Sequence[int]) -> None:
        """Begin anew for ``values``, in this order.

        ``highest``: the step at which memory is to be saved. ``found`` is empty at first.
        """
        self.stop()
        self.found = {}
        if values:
            self._worker = _Pricing(shown, highest, tuple(values[:MOST_VALUES]))
            self._worker.start()
            self._poll.start()

    def stop(self) -> None:
        """End the work."""
        self._poll.stop()
        if self._worker is not None:
            self._worker.stopped.set()
            self._worker = None

    def _collect(self) -> None:
        worker = self._worker
        if worker is None:
            return
        over, before = not worker.is_alive(), len(self.found)
        while worker.found:
            value, price = worker.found.popleft()
            self.found[value] = price
        if over:
            self._worker = None
            self._poll.stop()
        if over or len(self.found) != before:
            self.changed.emit()


class _Pricing(threading.Thread):
    """A thread that replays schedules. The window takes what it has found from ``found``."""

    def __init__(self, shown: ListedSchedule, highest: int, values: tuple[int, ...]) -> None:
        super().__init__(daemon=True, name="range prices")
        self._shown, self._highest, self._values = shown, highest, values
        self.stopped = threading.Event()
        self.found: deque[tuple[int, Suggestion]] = deque()

    def run(self) -> None:
        if self.stopped.wait(_PAUSE_S):
            return  # another range was selected already
        shown = self._shown
        graph, schedule, timeline = shown.graph, shown.schedule, shown.timeline
        at = moment(graph, schedule, timeline, self._highest)
        live = {buffer.value: buffer for buffer in at.live if buffer.next_read is not None}
        for value in self._values:
            if self.stopped.is_set():
                return
            if value in live:
                price = recomputed(graph, schedule, timeline, at, live[value], shown.constrained.once)
                if price is not None:
                    self.found.append((value, price))
