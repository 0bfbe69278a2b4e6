"""Timers, and work in threads that is watched from the window without waiting for it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance

from checkmate.errors import CheckmateError

_POLL_MS = 50


def later(parent: QObject, milliseconds: int, run: Callable[[], object]) -> QTimer:
    """Return a timer that runs something once, so long after it was last started."""
    timer = QTimer(parent, singleShot=True, interval=milliseconds)
    timer.timeout.connect(run)
    return timer


def every(parent: QObject, milliseconds: int, run: Callable[[], object]) -> QTimer:
    timer = QTimer(parent, interval=milliseconds)
    timer.timeout.connect(run)
    return timer


def on(run: Callable[..., object], *signals: SignalInstance) -> None:
    for signal in signals:
        signal.connect(run)


class Background(QObject):
    """Does one piece of work at a time in a thread; ``done(result)`` or ``failed(sentence, hint)``."""

    done = Signal(object)
    failed = Signal(str, str)
    FAULT = "it could not be done because of an error in the program; the log says more"

    def __init__(self, parent: QObject | None = None, poll_ms: int = _POLL_MS) -> None:
        super().__init__(parent)
        self._thread: threading.Thread | None = None
        self._found: list[Any] = []
        self._failures: list[tuple[str, str]] = []
        self._poll = every(self, poll_ms, self._on_poll)

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def start(self, work: Callable[[], Any]) -> bool:
        """Begin, unless busy. ``work`` may raise a ``CheckmateError``, and must not touch Qt."""
        if self.busy:
            return False
        found, failures = list[Any](), list[tuple[str, str]]()

        def run() -> None:
            try:
                found.append(work())
            except CheckmateError as error:  # which itself would keep alive all that was read
                failures.append((str(error), error.hint))

        self._found, self._failures = found, failures
        self._thread = threading.Thread(target=run, daemon=True, name="background")
        self._thread.start()
        self._poll.start()
        return True

    def close(self, patience_s: float = 0.0) -> None:
        """Wait for the work to end, at most ``patience_s`` seconds; then nothing is told of it."""
        self._poll.stop()
        if self._thread is not None:
            self._thread.join(patience_s)
            self._thread = None

    def _on_poll(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            self.close()
            self._deliver()

    def _deliver(self) -> None:
        if self._found:
            self.done.emit(self._found.pop())
        else:
            self.failed.emit(*(self._failures or [(self.FAULT, "")])[0])


class Reading(Background):
    """Reads in a thread; only the last request counts."""

    FAULT = "it could not be opened because of an error in the program; the log says more"

    def start(self, work: Callable[[], Any]) -> bool:
        self.close()
        return super().start(work)


class Finding(Background):
    """Finds one thing after the other, after a pause in which a newer request may replace this one."""

    changed = Signal()

    def __init__(self, pause_ms: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.found: list[Any] = []
        self._search: Callable[[], Iterable[Any]] = tuple
        self._stopped = threading.Event()
        self._arrived: deque[Any] = deque()
        self._pause = later(self, pause_ms, self._begin)

    @property
    def busy(self) -> bool:
        return self._pause.isActive() or super().busy

    def find(self, search: Callable[[], Iterable[Any]]) -> None:
        """After the pause, call ``search`` and go through its results in a thread."""
        self.clear()
        self._search = search
        self._pause.start()

    def clear(self) -> None:
        self.stop()
        self.found = []

    def stop(self) -> None:
        """End the work; what was found stays."""
        self._pause.stop()
        self._stopped.set()
        self.close()

    def _begin(self) -> None:
        found, arrived, stopped = iter(self._search()), deque[Any](), threading.Event()
        self._arrived, self._stopped = arrived, stopped
        self.start(lambda: _gather(found, arrived, stopped))

    def _on_poll(self) -> None:
        over, before = self._thread is not None and not self._thread.is_alive(), len(self.found)
        while self._arrived:
            self.found.append(self._arrived.popleft())
        if over:
            self.close()
        if over or len(self.found) != before:
            self.changed.emit()


def _gather(found: Iterator[Any], arrived: deque[Any], stopped: threading.Event) -> None:
    for one in found:
        if stopped.is_set():
            return
        arrived.append(one)
