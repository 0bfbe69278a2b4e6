"""Work in a thread, watched from the window without waiting for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from checkmate.errors import CheckmateError

_POLL_MS = 50


class Background(QObject):
    """Does one piece of work at a time in a thread.

    Signal ``done(problem)``: the work has ended; ``problem`` is empty, or one sentence that says what went
    wrong.
    """

    done = Signal(str)

    def __init__(self, parent: QObject | None = None, poll_ms: int = _POLL_MS) -> None:
        super().__init__(parent)
        self._thread: threading.Thread | None = None
        self._problem = ""
        self._poll = QTimer(self)
        self._poll.setInterval(poll_ms)
        self._poll.timeout.connect(self._on_poll)

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def start(self, work: Callable[[], None]) -> bool:
        """Begin; return False where something is being done already.

        ``work`` may raise a ``CheckmateError``, and must not touch Qt.
        """
        if self.busy:
            return False

        def run() -> None:
            try:
                work()
            except CheckmateError as error:
                self._problem = str(error)

        self._problem = ""
        self._thread = threading.Thread(target=run, daemon=True, name="background")
        self._thread.start()
        self._poll.start()
        return True

    def close(self, patience_s: float) -> None:
        """Wait for the work to end, at most ``patience_s`` seconds. ``done`` is not emitted any more."""
        self._poll.stop()
        if self._thread is not None:
            self._thread.join(patience_s)
            self._thread = None

    def _on_poll(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._poll.stop()
            self.done.emit(self._problem)
