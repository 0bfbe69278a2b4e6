"""What fills memory at the playhead, and what would help there.

A thread computes it.
"""

from __future__ import annotations

import threading
from collections import deque

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.cursors import Playhead
from app.models.exploration import Exploration
from app.state.knowledge import ListedSchedule
from checkmate.memory.hotspot import Moment, Uses, moment
from checkmate.memory.suggestions import Suggestion, find_suggestions, rank_suggestions

_PAUSE_MS, _POLL_MS = 150, 40


class Hotspot(QObject):
    """What is live at the playhead, and what would lower it.

    Signals: ``moved``: another step or schedule; ``helped``: more is known of what would help.
    """

    moved = Signal()
    helped = Signal()

    def __init__(self, exploration: Exploration, playhead: Playhead, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration, self._playhead = exploration, playhead
        self._uses: tuple[ListedSchedule | None, Uses | None] = (None, None)
        self._now: tuple[ListedSchedule | None, int, Moment | None] = (None, -1, None)
        self._found: list[Suggestion] = []
        self._worker: _Suggesting | None = None
        self._asked = self._wanted = False
        self._pause, self._poll = QTimer(self), QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_PAUSE_MS)
        self._pause.timeout.connect(self._start)
        self._poll.setInterval(_POLL_MS)
        self._poll.timeout.connect(self._collect)
        exploration.shown_changed.connect(self._on_moved)
        playhead.told.connect(self._on_moved)

    @property
    def now(self) -> Moment | None:
        """Return what is live at the playhead."""
        shown = self._exploration.shown
        if shown is None:
            return None
        step = min(self._playhead.step, len(shown.schedule.steps) - 1)
        if self._now[0] is not shown or self._now[1] != step:
            if self._uses[0] is not shown:
                self._uses = (shown, Uses.of(shown.graph, shown.schedule))
            self._now = (
                shown,
                step,
                moment(shown.graph, shown.schedule, shown.timeline, step, self._uses[1]),
            )
        return self._now[2]

    @property
    def remedies(self) -> list[Suggestion]:
        """Return what is known to help at the playhead, best first. The list grows while ``busy``."""
        return rank_suggestions(self._found)

    @property
    def busy(self) -> bool:
        """Return whether more may be found."""
        return self._wanted and (self._worker is not None or self._pause.isActive())

    def want(self, on: bool) -> None:
        """Start to compute what would help wherever the playhead rests, or stop."""
        self._wanted = on
        if on and not self._asked:
            self._asked = True
            self._pause.start()
        elif not on:
            self.close()

    def close(self) -> None:
        """Stop the work."""
        self._pause.stop()
        self._poll.stop()
        self._asked = False
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _on_moved(self, *_: object) -> None:
        self.close()
        self._found = []
        if self._wanted:
            self._asked = True
            self._pause.start()
        self.moved.emit()

    def _start(self) -> None:
        shown, now = self._exploration.shown, self.now
        if shown is not None and now is not None:
            self._found = []
            self._worker = _Suggesting(shown, now)
            self._worker.start()
            self._poll.start()

    def _collect(self) -> None:
        worker = self._worker
        if worker is None:
            return
        over, before = not worker.is_alive(), len(self._found)
        while worker.found:
            self._found.append(worker.found.popleft())
        if over:
            self._worker = None
            self._poll.stop()
        if over or len(self._found) != before:
            self.helped.emit()


class _Suggesting(threading.Thread):
    """A thread that replays schedules.

    It holds the interpreter for milliseconds at a time. The window takes what it has found from ``found``.
    """

    def __init__(self, shown: ListedSchedule, now: Moment) -> None:
        super().__init__(daemon=True, name="remedies")
        self._shown, self._now, self._stopped = shown, now, threading.Event()
        self.found: deque[Suggestion] = deque()

    def stop(self) -> None:
        """End the thread soon."""
        self._stopped.set()

    def run(self) -> None:
        shown = self._shown
        for remedy in find_suggestions(
            shown.graph, shown.schedule, shown.timeline, self._now, shown.constrained.once
        ):
            if self._stopped.is_set():
                return
            self.found.append(remedy)
