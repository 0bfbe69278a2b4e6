"""How long the window's event loop was held up, by the clock and by its own work; and what Qt complained of."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QObject, Qt, QTimer, QtMsgType, qInstallMessageHandler

BEAT_MS = 8


class StallProbe(QObject):
    """A timer that should beat every 8 ms. A beat's stall is what it comes too late.

    ``walls``: seconds by the clock, in which a busy machine counts too; ``works``: seconds that the window's thread itself was
    running between two beats, which is what the window can do something about.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.walls: list[float] = []
        self.works: list[float] = []
        self._wall = self._work = 0.0
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(BEAT_MS)
        self._timer.timeout.connect(self._beat)

    @property
    def last_beat(self) -> float:
        """When it beat last, by ``time.perf_counter``."""
        return self._wall

    def start(self) -> None:
        """Begin, or begin again: what was before does not count."""
        self.walls, self.works = [], []
        self._wall, self._work = time.perf_counter(), time.thread_time()
        self._timer.start()

    def stop(self) -> dict[str, Any]:
        """End; the stalls in milliseconds: median, 99 in 100, worst."""
        self._timer.stop()
        late = [max(0.0, wall - BEAT_MS / 1000) for wall in self.walls]
        return {"beats": len(late), "stall_ms": _spread(late), "own_work_ms": _spread(self.works)}

    def _beat(self) -> None:
        wall, work = time.perf_counter(), time.thread_time()
        self.walls.append(wall - self._wall)
        self.works.append(work - self._work)
        self._wall, self._work = wall, work


def _spread(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    values = 1000 * np.asarray(seconds)
    p50, p99 = np.quantile(values, (0.5, 0.99)).tolist()
    return {"p50": round(p50, 2), "p99": round(p99, 2), "worst": round(float(values.max()), 2)}


@dataclass
class QtLog:
    """What Qt said of warning or worse while this was in use."""

    warnings: list[str] = field(default_factory=list)

    def __enter__(self) -> QtLog:
        self._before = qInstallMessageHandler(self._take)
        return self

    def __exit__(self, *_: object) -> None:
        qInstallMessageHandler(self._before)

    def _take(self, kind: QtMsgType, context: object, message: str) -> None:
        if kind not in (QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg):
            self.warnings.append(message)


class Blame:
    """Looks at what the window's thread is doing whenever a beat is overdue; ``on``: else it costs nothing."""

    def __init__(self, probe: StallProbe, *, on: bool, overdue_s: float = 0.02) -> None:
        self._probe, self._on, self._overdue_s = probe, on, overdue_s
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._window, self._ended = threading.get_ident(), threading.Event()
        self._seen: Counter[str] = Counter()

    def __enter__(self) -> Blame:
        if self._on:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._on:
            self._thread.join()

    def worst(self, most: int = 8) -> list[str]:
        """Stacks (innermost last) with the share of the looks that found them, the most frequent first."""
        return [f"{count} x {stack}" for stack, count in self._seen.most_common(most)]

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            if time.perf_counter() - self._probe.last_beat < self._overdue_s:
                continue
            frame = sys._current_frames().get(self._window)
            lines = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_stack(frame)]
            kept = [line for line in lines if not line.startswith(("stalls.py", "long_use.py", "<frozen", "runpy"))]
            self._seen[" > ".join(kept[-7:])] += 1
