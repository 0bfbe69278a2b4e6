"""Measure scripted hours of use.

``python -m tests.benchmarks long_use --moves 10000 --solves 500 --opens 200 -o FILE.json``

A real window with its real processes opens graphs, moves its slider, solves, plays, compares, sets
constraints and undoes them. The questions are whether memory stays flat, whether anything stays behind, and
whether Qt complains.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import psutil
from PySide6.QtCore import QEvent, QEventLoop, QObject, QTimer
from PySide6.QtWidgets import QApplication, QWidget

from app.models.recovery import Recovery
from app.models.session import Session
from app.presenters.op_page import NeedRow, OpLink, facts
from app.state.constraint_targets import ConstraintKind
from app.theme import LIGHT, CurrentTheme, ThemeChoice, apply_theme, load_fonts
from app.views.panels.op_tables import LinkTable, NeedTable
from app.views.window.main_window import MainWindow
from checkmate.catalog.bundled import find_graph
from checkmate.formats import write_graph
from tests.benchmarks.probe import QtLog, StallProbe
from tests.generated_graphs import training_chain, training_dag

SAMPLE = find_graph("unet-b8.graph")
FLAT_MB = 1.0  # of growth in 1,000 moves; more is not noise
FEW = 5  # objects, threads, files, processes: how many may be there in the middle of something
_ROWS = 100  # more than any table shows
_SOLVE_S, _PATIENCE_S = 1.0, 60.0


@dataclass(frozen=True)
class Use:
    """The amount of each kind of use. ``seconds``: after so long, the graph that is open is the last one."""

    moves: int = 10_000
    solves: int = 500
    opens: int = 200
    seed: int = 1
    seconds: float = math.inf


def graphs(folder: Path) -> list[Path]:
    paths = [SAMPLE]
    for number, graph in enumerate(
        (training_chain(20), training_dag(1, 30), training_chain(60, seed=2), training_dag(2, 90))
    ):
        paths.append(folder / f"{number}-{graph.n}-ops.json")
        write_graph(paths[-1], graph)
    return paths


class User:
    """Act on a window as users do, and count what was done."""

    def __init__(self, window: MainWindow, use: Use, paths: list[Path]) -> None:
        self.window, self._use, self._paths = window, use, cycle(paths)
        self._pick = random.Random(use.seed)
        self.counts = {"opens": 0, "moves": 0, "solves": 0, "stopped": 0, "unsettled": 0}
        self.problems: list[str] = []
        window.session.failed.connect(lambda sentence, hint: self.problems.append(sentence))

    def run(self, sample: Callable[[int], None]) -> None:
        """Do everything; call ``sample(moves so far)`` after each graph."""
        use, begun = self._use, time.monotonic()
        for number in range(use.opens):
            if time.monotonic() - begun > use.seconds:
                break
            self._open()
            share = (number + 1) / use.opens
            self._explore(
                round(use.moves * share) - self.counts["moves"],
                round(use.solves * share) - self.counts["solves"],
            )
            sample(self.counts["moves"])

    def _open(self) -> None:
        before = self.window.session.exploration.graph
        self.window.open(str(next(self._paths)))
        wait(lambda: self.window.session.exploration.graph is not before, _PATIENCE_S)
        wait(lambda: self.window.session.exploration.what_if.needed_bytes > 0, _PATIENCE_S)
        self.counts["opens"] += 1

    def _explore(self, moves: int, solves: int) -> None:
        solve_after = {round((k + 1) * max(1, moves) / (solves + 1)) for k in range(solves)}
        for move in range(moves):
            self._move()
            if move in solve_after:
                self._solve()
        while solves > len(solve_after & set(range(moves))):
            solves -= 1
            self._solve()
        for deed in (self._look, self._compare, self._constrain):
            deed()
            turn()

    def _move(self) -> None:
        window = self.window
        peak = window.session.exploration.plain.peak_bytes
        window.explorer.budget.choose(int(peak * self._pick.uniform(0.3, 1.05)))
        if self._pick.random() < 0.3:
            window.playhead.seek(self._pick.randrange(window.playhead.count))
        self.counts["moves"] += 1
        turn()

    def _solve(self) -> None:
        session = self.window.session
        session.solve(_SOLVE_S)
        self.counts["solves"] += 1
        # The slider's pause may have asked again, for longer: stop a solve that does not end by itself.
        if not wait(lambda: not session.exploration.solve.running, 2 * _SOLVE_S):
            session.stop_solve()
            self.counts["stopped"] += 1
        if not wait(lambda: not session.exploration.solve.running, _PATIENCE_S):
            self.counts["unsettled"] += 1

    def _look(self) -> None:
        window = self.window
        graph_view, layout = window.explorer.graph_view, window.explorer.graph_view.layout_shown
        shown, ops = window.session.exploration.shown, range(window.session.exploration.graph.n)
        if shown is not None:
            window.selection.select(max(ops, key=lambda op: len(facts(shown, op))))  # its rows stay
        window.selection.select(self._pick.choice(ops))
        for box in [box for box in layout.boxes if box.can_open][:1]:
            graph_view.open_box(box)
            turn()
            graph_view.fold(graph_view._frame_of(box.column + 0.5))
        graph_view.fit()
        window.explorer.transport.go_to_peak()
        palette = window.open_palette()
        turn()
        palette.close()

    def _compare(self) -> None:
        for _ in range(2):
            self.window.explorer.shown_edits.toggle()
            turn()

    def _constrain(self) -> None:
        self.window.what_ifs.switch(ConstraintKind.KEEP)
        turn()
        self.window.what_ifs.stack.undo()


def fill_tables(window: MainWindow) -> None:
    """Let each table of the inspector make the most rows it can have.

    A table keeps its rows for the next op. How many an op needs depends on the schedule that is shown, and
    so on how far a solve came in its time. Rows that come late would look like a leak.
    """
    for links in window.findChildren(LinkTable):
        links.show_links([OpLink("", f"{row}", "") for row in range(_ROWS)])
        links.show_links([])
    for needs in window.findChildren(NeedTable):
        needs.show_rows([NeedRow("", f"{row}", 0) for row in range(_ROWS)])


def turn() -> None:
    """Let the window do its pending work.

    Objects that it has given up are deleted too, as an event loop would do.
    """
    QApplication.processEvents()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def wait(done: Callable[[], bool], seconds: float) -> bool:
    """Handle events until ``done`` or the time is over; return ``done()``."""
    loop, timer, end = QEventLoop(), QTimer(), time.monotonic() + seconds
    timer.timeout.connect(loop.quit)  # one for all turns: each single shot would leave a little behind
    timer.start(20)
    while not done() and time.monotonic() < end:
        loop.exec()
    return done()


def books(window: MainWindow, moves: int) -> dict[str, Any]:
    """Return what the process holds now; sizes in MiB."""
    own = psutil.Process()
    children = list(alive(own.children(recursive=True)))
    return {
        "moves": moves,
        "rss_mb": round(own.memory_info().rss / 2**20, 2),
        "children_rss_mb": round(sum(child.memory_info().rss for child in children) / 2**20, 2),
        "children": len(children),
        "threads": own.num_threads(),
        "files": own.num_fds(),
        "qobjects": sum(not part_of_a_text(found) for found in window.findChildren(QObject)),
        "widgets": len(QApplication.allWidgets()),
        # Not the collector's objects: to hold another thread's unfinished tuple ends that thread.
        "python_blocks": sys.getallocatedblocks(),
    }


def part_of_a_text(found: QObject | None) -> bool:
    """Return whether it belongs to a document that Qt makes and drops.

    Qt does so when a label's text gains or loses marks.
    """
    while found is not None and not isinstance(found, QWidget):
        if found.metaObject().className() == "QWidgetTextControl":
            return True
        found = found.parent()
    return False


def alive(processes: list[psutil.Process]) -> Iterator[psutil.Process]:
    for process in processes:
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                process.memory_info()
                yield process
        except psutil.NoSuchProcess:
            continue


def slope(rows: list[dict[str, Any]], what: str) -> float:
    """Return the growth of ``what`` per 1,000 moves.

    It is the slope over the second half, by least squares.
    """
    half = rows[len(rows) // 2 :]
    if len(half) < 2 or half[0]["moves"] == half[-1]["moves"]:
        return 0.0
    return round(
        1000 * float(np.polyfit([row["moves"] for row in half], [row[what] for row in half], 1)[0]), 3
    )


def grown(rows: list[dict[str, Any]], what: str) -> int:
    """Return how far the last quarter's most exceeds the first half's."""
    first, last = rows[: max(1, len(rows) // 2)], rows[-max(1, len(rows) // 4) :]
    return int(max(row[what] for row in last) - max(row[what] for row in first))


def shown_window(sessions: Path) -> MainWindow:
    """Return a new window that keeps its sessions in this folder."""
    session = Session()
    recovery = Recovery(session.exploration, sessions, session)
    window = MainWindow(session, CurrentTheme(ThemeChoice.LIGHT), recovery=recovery)
    window.resize(1400, 900)
    window.show()
    window.prepare()
    fill_tables(window)
    return window


def measure(use: Use, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Use the window; return the counts, the slopes and the verdict."""
    application = QApplication.instance() or QApplication([])
    began, rows = time.monotonic(), []
    others = psutil.Process().children(recursive=True)  # the caller may have some already
    with tempfile.TemporaryDirectory() as name, QtLog() as log:
        folder = Path(name)
        apply_theme(application, LIGHT, load_fonts())
        window = shown_window(folder / "sessions")
        probe, user = StallProbe(window), User(window, use, graphs(folder))
        probe.start()

        def sample(moves: int) -> None:
            gc.collect()
            rows.append(books(window, moves))
            say(f"{rows[-1]}")

        user.run(sample)
        stalls = probe.stop()
        children = [child for child in psutil.Process().children(recursive=True) if child not in others]
        window.close()
        turn()
        _, left = psutil.wait_procs(children, timeout=5)
        left_files = [path.name for path in (folder / "sessions").glob("*.gz")]
        window.deleteLater()
        turn()
    slopes = {what: slope(rows, what) for what in ("rss_mb", "children_rss_mb", "python_blocks")}
    growth = {what: grown(rows, what) for what in ("qobjects", "widgets", "threads", "files", "children")}
    verdict = {
        "flat": slopes["rss_mb"] < FLAT_MB and max(growth.values()) <= FEW,
        "no_orphans": not list(alive(left)) and not left_files,
        "no_warnings": not log.warnings,
        "every_solve_settled": user.counts["unsettled"] == 0,
    }
    return {
        "seconds": round(time.monotonic() - began, 1),
        **user.counts,
        "per_1000_moves": slopes,
        "grown": growth,
        **stalls,
        "warnings": log.warnings[:50],
        "problems": user.problems[:50],
        "verdict": verdict,
        "samples": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in ("moves", "solves", "opens", "seed"):
        parser.add_argument(f"--{field}", type=int, default=getattr(Use, field))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    use = Use(options.moves, options.solves, options.opens, options.seed)
    found = measure(use, lambda line: print(line, file=sys.stderr, flush=True))
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({key: value for key, value in found.items() if key != "samples"}, indent=1))
    return 0 if all(found["verdict"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
