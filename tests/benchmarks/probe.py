"""Measure how long the window's event loop was held up.

It is measured by the clock and by the loop's own work. Qt's complaints are kept too.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, Qt, QTimer, QtMsgType, qInstallMessageHandler

BEAT_MS = 8
_LEAST_S, _WIDTH, _CLASSES = 1e-6, 0.02, 1000  # up to about 480 s


class StallProbe(QObject):
    """A timer that should beat every 8 ms; a late beat is a stall.

    ``late`` is measured by the clock, so a busy machine counts too. ``works`` is how long the window's thread
    itself was running between two beats, which the window can do something about. It takes no more memory the
    longer it beats.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.late, self.works = Spread(), Spread()
        self._wall = self._work = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(BEAT_MS)
        self._timer.timeout.connect(self._beat)

    def start(self) -> None:
        """Begin, or begin again: earlier beats do not count."""
        self.late, self.works = Spread(), Spread()
        self._wall, self._work = time.perf_counter(), time.thread_time()
        self._timer.start()

    def stop(self) -> dict[str, Any]:
        """End; return the stalls in milliseconds: median, 99 in 100, worst."""
        self._timer.stop()
        return {"beats": self.late.count, "stall_ms": self.late.facts(), "own_work_ms": self.works.facts()}

    def _beat(self) -> None:
        wall, work = time.perf_counter(), time.thread_time()
        self.late.add(max(0.0, wall - self._wall - BEAT_MS / 1000))
        self.works.add(work - self._work)
        self._wall, self._work = wall, work


class Spread:
    """Counts of times in classes 2 % wide, and the largest time. The classes begin at a microsecond."""

    def __init__(self) -> None:
        self._counts = np.zeros(_CLASSES, np.int64)
        self._worst = 0.0

    @property
    def count(self) -> int:
        return int(self._counts.sum())

    def add(self, seconds: float) -> None:
        place = int(math.log(max(seconds, _LEAST_S) / _LEAST_S) / _WIDTH)
        self._counts[min(place, _CLASSES - 1)] += 1
        self._worst = max(self._worst, seconds)

    def facts(self) -> dict[str, float]:
        """Return median, 99 in 100 (both to 2 %) and worst, in milliseconds."""
        if not self.count:
            return {}
        return {
            "p50": self._quantile(0.5),
            "p99": self._quantile(0.99),
            "worst": round(1000 * self._worst, 2),
        }

    def _quantile(self, share: float) -> float:
        place = int(np.searchsorted(np.cumsum(self._counts), share * self.count))
        # Nothing in a class is longer than its upper end, or than the worst.
        upper = 0.0 if place == 0 else _LEAST_S * math.exp(_WIDTH * (place + 1))
        return round(1000 * min(upper, self._worst), 2)


@dataclass
class QtLog:
    """Qt's messages of warning or worse while this was in use."""

    warnings: list[str] = field(default_factory=list)

    def __enter__(self) -> QtLog:
        self._before = qInstallMessageHandler(self._take)
        return self

    def __exit__(self, *_: object) -> None:
        qInstallMessageHandler(self._before)

    def _take(self, kind: QtMsgType, context: object, message: str) -> None:
        if kind not in (QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg):
            self.warnings.append(message)
