"""Measure how long the window takes to answer the hand.

``python -m tests.benchmarks.hand [-o FILE.json]``

Measured are the times from starting the program to its first window; from a move of the slider to views that
show a schedule for the new budget; from Stop to an idle solver; from a drag, an opened group or a step of the
playhead to the picture; and the memory that the window takes.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.views.window.main_window import MainWindow
from checkmate.formats import write_graph
from checkmate.graphs.generate import training_dag
from tests.benchmarks.long_use import turn, wait
from tests.benchmarks.windows import begun, open_file, print_found, shown_window

_FIRST = """
import sys, time
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from app import bootstrap
from app.views.window import main_window

class Timed(main_window.MainWindow):
    def event(self, event):
        done = super().event(event)
        if event.type() == event.Type.Paint and not hasattr(self, "painted"):
            self.painted = True
            print(time.time() - float(sys.argv[1]), flush=True)
            QTimer.singleShot(0, QApplication.quit)
        return done

main_window.MainWindow = Timed
bootstrap.explore(None)
"""


def first_window(times: int) -> list[float]:
    """Return the seconds from each start to the first painted window. Each start is a process of its own."""
    found = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as home:
            ended = subprocess.run(
                [sys.executable, "-c", _FIRST, str(time.time())],
                capture_output=True,
                text=True,
                env={**os.environ, "XDG_DATA_HOME": home, "XDG_STATE_HOME": home},
            )
        found.append(float(ended.stdout.split()[0]))
    return found


def measure(times: int, folder: Path) -> dict[str, Any]:
    """Return seconds, and the MB of the window's process.

    Each list of seconds is given as its middle and its worst.
    """
    found: dict[str, Any] = {"first window": spread(first_window(times))}
    window = shown_window()
    open_graph(window, folder, 1000)
    found["slider, 1,000 ops"] = spread(slider_moves(window, times=40))
    found["stop to idle, 1,000 ops"] = spread(stops(window, times))
    open_graph(window, folder, 2000)
    found["2,000 ops: R and S alone"] = spread(matrix_frames(window))
    found["2,000 ops: a step, the whole window"] = spread(steps(window))
    open_graph(window, folder, 10_000)
    found["slider, 10,000 ops"] = spread(slider_moves(window, times=20))
    found["stop to idle, 10,000 ops"] = spread(stops(window, times))
    found["10,000 ops: a pull"] = spread(pulls(window))
    found["10,000 ops: a group opened or closed"] = spread(groups(window, 10 * times))
    found["10,000 ops: memory of the window's process"] = {"bytes": psutil.Process().memory_info().rss}
    window.close()
    return found


def open_graph(window: MainWindow, folder: Path, count: int) -> None:
    """Open a generated training step of ``count`` ops.

    It is then on screen, and the solver works on it in idle time.
    """
    path = folder / f"{count}.json"
    write_graph(path, training_dag(3, count // 2))
    open_file(window, path)
    wait(lambda: len(window.session.exploration.known) >= 8, 90.0)


def slider_moves(window: MainWindow, *, times: int) -> list[float]:
    """Time the slider until its schedule is shown and every view painted."""
    exploration, found = window.session.exploration, []
    highest = exploration.plain.peak_bytes
    lowest = min(known.peak_bytes for known in exploration.known)
    for move in range(times):
        budget = int(highest - (highest - lowest) * (move + 1) / times)
        start = time.perf_counter()
        window.explorer.budget.choose(budget)
        best = exploration.best_for(budget).cost
        while (
            exploration.shown.peak_bytes > budget
            or exploration.shown.cost > best
            or window.explorer.turns.waiting
        ):
            turn()
        turn()
        found.append(time.perf_counter() - start)
        wait(lambda: False, 0.05)
    return found


def stops(window: MainWindow, times: int) -> list[float]:
    """Time Stop in the middle of a solve until the solver has answered."""
    session, found = window.session, []
    for number in range(times):
        window.explorer.budget.choose(int(session.exploration.plain.peak_bytes * (0.6 + 0.02 * number)))
        session.solve(60.0)
        wait(lambda: False, 0.7)
        assert session.exploration.solve.running
        start = time.perf_counter()
        session.stop_solve()
        while session.exploration.solve.running:
            QApplication.processEvents()
            time.sleep(0.0005)
        found.append(time.perf_counter() - start)
    return found


def matrix_frames(window: MainWindow) -> list[float]:
    """Time R and S, painted into pictures for one step after another."""
    found = []
    for step in range(0, window.playhead.count, 20):
        window.playhead.seek(step)
        turn()
        found.append(timed(lambda: [view.grab() for view in window.explorer.matrices], ()))
    return found


def steps(window: MainWindow) -> list[float]:
    """Time the playhead's steps until every view is painted."""
    found = []
    for step in range(0, window.playhead.count, 20):
        start = time.perf_counter()
        window.playhead.seek(step)
        turn()
        found.append(time.perf_counter() - start)
    return found


def pulls(window: MainWindow) -> list[float]:
    """Time the graph while the mouse drags it, zoomed in."""
    view = window.explorer.graph_view
    view.fit()
    view.zoom(1.7)
    turn()
    at = QPointF(view.width() * 0.8, view.height() / 2)
    mouse(view, QEvent.Type.MouseButtonPress, at)
    found = []
    for move in range(100):
        there = at + QPointF(-6 * (move + 1), move % 7)
        found.append(timed(lambda to=there: mouse(view, QEvent.Type.MouseMove, to), (view,)))
    mouse(view, QEvent.Type.MouseButtonRelease, there)
    view.fit()
    return found


def mouse(view: QWidget, kind: QEvent.Type, at: QPointF) -> None:
    """Send a mouse event as the system would."""
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(view, QMouseEvent(kind, at, view.mapToGlobal(at), left, left, none))


def groups(window: MainWindow, times: int) -> list[float]:
    """Time the opening and closing of groups, one after the other."""
    view, found = window.explorer.graph_view, []
    keys = [box.key for box in view.layout_shown.boxes if box.can_open and not box.backward][:times]
    for key in keys:
        for _ in range(2):
            found.append(timed(lambda k=key: view.toggle(k), (view,)))
    return found


def timed(deed: Callable[[], None], views: Iterable[QWidget]) -> float:
    """Return the seconds until ``deed`` is done and ``views`` are painted.

    Earlier work must not delay a view.
    """
    while any(view.window().explorer.turns.waiting for view in views):
        turn()
    start = time.perf_counter()
    deed()
    for view in views:
        view.repaint()
    return time.perf_counter() - start


def spread(seconds: list[float]) -> dict[str, float]:
    """Return count, median, 99 in 100 and worst, in milliseconds."""
    if not seconds:
        return {"count": 0}
    inner = sorted(1000 * second for second in seconds)
    return {
        "count": len(inner),
        "median_ms": round(statistics.median(inner), 1),
        "p99_ms": round(inner[math.ceil(0.99 * len(inner)) - 1], 1),
        "worst_ms": round(inner[-1], 1),
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5, help="of what takes longest: starts and stops")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found = begun("answers", "hand")
    with tempfile.TemporaryDirectory() as folder:
        found["rows"] = measure(options.times, Path(folder))
    print_found(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
