"""Bring the window into each of its states, one after the other."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.presenters.bands import Grouping
from app.presenters.hotspot_rows import View
from app.state.constraint_targets import ConstraintKind
from app.views.window.main_window import MainWindow
from checkmate.catalog.bundled import find_graph
from checkmate.formats import write_graph
from checkmate.graphs.generate import training_chain
from tests.benchmarks.long_use import wait

_DATA = Path(__file__).parents[1] / "unit" / "records" / "data"
_PATIENCE_S, _MOMENT_S = 240.0, 0.6
_SHARE = 0.6


@dataclass(frozen=True)
class Stage:
    """A window, and a folder for its files."""

    window: MainWindow
    folder: Path
    front: list[str] = field(default_factory=list)  # panels that a state is about, which may be behind a tab

    def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait for something; fail if it never comes."""
        assert wait(true, _PATIENCE_S), f"never happened: {what}"
        wait(lambda: False, _MOMENT_S)

    def open(self, path: Path) -> None:
        """Open a graph, and wait until the solver knows it."""
        before, exploration = self.window.session.exploration.graph, self.window.session.exploration
        self.window.open(str(path))
        self.until(lambda: exploration.graph is not before, "the graph is open")
        self.until(lambda: "bound_bytes" in exploration.range, "its bounds are known")
        self.until(lambda: not exploration.preparing, "the search is compiled")

    def ask(self, budget: int, seconds: float | None = None) -> None:
        """Solve for a budget, and wait for the end."""
        session = self.window.session
        self.window.explorer.budget.choose(budget)
        session.solve(seconds)
        self.until(lambda: not session.exploration.solve.running, "the solve ended")

    def share(self, share: float) -> int:
        """Return a share of what keeping everything needs."""
        return int(share * self.window.session.exploration.plain.peak_bytes)

    def run(self, name: str) -> None:
        """Run a command of the window."""
        self.window.commands[name].trigger()
        wait(lambda: False, _MOMENT_S)

    def close_dialogs(self) -> None:
        """Close what is open above the window."""
        for one in QApplication.topLevelWidgets():
            if one is not self.window and one.isVisible():
                one.close()
        wait(lambda: False, _MOMENT_S)


def _start(stage: Stage, model: str) -> Iterator[str]:
    yield "start"


def _profiling(stage: Stage, model: str) -> Iterator[str]:
    if not model:
        return
    session = stage.window.session
    stage.window.open(model)
    wait(lambda: False, _MOMENT_S)
    yield "profiling"
    stage.until(lambda: session.exploration.passing or not session.device_busy, "costs are estimated")
    if session.exploration.passing:
        yield "measuring"
    session.cancel_device()
    stage.until(lambda: not session.device_busy, "the profile was cancelled")


def _ready(stage: Stage, model: str) -> Iterator[str]:
    stage.open(find_graph("unet-b8.graph"))
    stage.window.playhead.seek(stage.window.session.exploration.plain.timeline.peak_step)
    yield "ready"


def _solving(stage: Stage, model: str) -> Iterator[str]:
    session = stage.window.session
    stage.window.explorer.budget.choose(stage.share(_SHARE))
    session.solve(60.0)
    stage.until(lambda: bool(session.exploration.solve.best), "something is found")
    yield "solving"
    session.stop_solve()
    stage.until(lambda: not session.exploration.solve.running, "the solve ended")
    yield "stopped"


def _peak(stage: Stage, model: str) -> Iterator[str]:
    window = stage.window
    stage.front[:] = ["inspector"]
    window.playhead.seek(window.session.exploration.shown.timeline.peak_step)
    for view in (View.LAYERS, View.REASONS, View.HELPS):
        window.explorer.inspector.memory.show_view(view)
        wait(lambda: False, 3 * _MOMENT_S)
        yield f"peak-{view.name.lower()}"
    window.explorer.inspector.memory.show_view(View.VALUES)


def _constrained(stage: Stage, model: str) -> Iterator[str]:
    window = stage.window
    graph = window.session.exploration.graph
    layer = next(i for i, op in enumerate(graph.ops) if op.group == "down1b_conv" and op.type == "Conv2D")
    window.selection.select(layer)
    wait(lambda: False, _MOMENT_S)
    yield "op"
    window.what_ifs.switch(ConstraintKind.KEEP)
    stage.until(lambda: not window.session.exploration.solve.running, "the solve ended")
    yield "constrained"
    stage.front[:] = ["solving"]
    yield "constrained-solving"
    window.what_ifs.clear()
    stage.until(lambda: not window.session.exploration.solve.running, "the solve ended")
    window.selection.select(-1)


def _compare(stage: Stage, model: str) -> Iterator[str]:
    stage.window.explorer.shown_edits.toggle()
    stage.front[:] = ["inspector"]
    stage.window.explorer.inspector.memory.show_view(View.COMPARE)
    wait(lambda: False, _MOMENT_S)
    yield "compare"
    stage.front[:] = ["solving"]
    stage.window.explorer.shown_edits.toggle()


def _batch(stage: Stage, model: str) -> Iterator[str]:
    row, session = stage.window.explorer.batch, stage.window.session
    stage.until(lambda: stage.window.batch_scale.reach is not None, "the reach of budgets is known")
    batch = session.exploration.graph.batch_size
    row.spin.setValue(2 * batch)
    stage.until(lambda: session.exploration.graph.batch_size == 2 * batch, "the graph is scaled")
    stage.until(lambda: not session.exploration.solve.running, "the solve ended")
    yield "batch"
    stage.run("solve.batch")
    yield "dialog-batch"
    stage.close_dialogs()
    double = stage.folder / "double.json"
    write_graph(double, session.exploration.graph)
    row.back.click()
    stage.until(lambda: session.exploration.graph.batch_size == batch, "it is the first batch again")
    stage.window.comparing.open(double)
    stage.until(lambda: bool(stage.window.comparing.dialog), "the comparison is open")
    stage.until(lambda: bool(stage.window.comparing.dialog.pairs), "the layers are compared")
    yield "graphs-compared"
    stage.window.comparing.close()


def _bands(stage: Stage, model: str) -> Iterator[str]:
    span = stage.window.explorer.span
    span.group_by(Grouping.LAYER)
    wait(lambda: False, _MOMENT_S)
    yield "bands"
    span.choose((40, 90))
    wait(lambda: False, _MOMENT_S)
    yield "span"
    stage.run("view.range_table")
    yield "range-table"
    stage.close_dialogs()
    span.choose(None)
    span.toggle_addresses()
    stage.until(lambda: stage.window.explorer.allocator.answering is not None, "addresses are known")
    yield "allocator"
    span.toggle_addresses()
    span.group_by(None)
    span.toggle_axis()
    wait(lambda: False, _MOMENT_S)
    yield "time-axis"
    span.toggle_axis()


def _dialogs(stage: Stage, model: str) -> Iterator[str]:
    for name in ("solve.cards", "file.settings", "file.export", "file.profile", "help.keys", "help.doctor"):
        stage.run(name)
        if name == "help.doctor":
            wait(lambda: False, 10 * _MOMENT_S)
        yield f"dialog-{name.rpartition('.')[2]}"
        stage.close_dialogs()
    for name in ("oom_2_21.log", "step.xplane.pb"):
        stage.window.open(str(_DATA / name))
        stage.until(lambda: stage.window.records.dialog is not None, "the record is read")
        yield f"record-{name.rpartition('.')[2]}"
        stage.close_dialogs()


def _palette(stage: Stage, model: str) -> Iterator[str]:
    palette = stage.window.open_palette()
    wait(lambda: False, _MOMENT_S)
    yield "palette"
    palette.field.setText("conv size>10M")
    wait(lambda: False, _MOMENT_S)
    yield "palette-found"
    palette.close()
    wait(lambda: False, _MOMENT_S)


def _tour(stage: Stage, model: str) -> Iterator[str]:
    tour = stage.window.tour
    tour.start()
    while tour.at is not None:
        wait(lambda: False, _MOMENT_S)
        yield f"tour-{tour.at + 1}"
        tour.card.next.click()


def _infeasible(stage: Stage, model: str) -> Iterator[str]:
    exploration = stage.window.session.exploration
    stage.ask(int(0.9 * exploration.least_possible))
    yield "infeasible"
    low, high = exploration.least_possible, exploration.least_bytes
    if low < high - 2:
        stage.ask((low + high) // 2, 1.0)
        yield "unknown"


def _notices(stage: Stage, model: str) -> Iterator[str]:
    broken = stage.folder / "broken.json"
    broken.write_text('{"format": "checkmate-graph"}')
    stage.window.open(str(broken))
    wait(lambda: False, _MOMENT_S)
    yield "error"
    stage.window.notice.hide()
    session = stage.window.session
    stage.window.explorer.budget.choose(stage.share(0.45))
    session.solve(60.0)
    stage.until(lambda: session.exploration.solve.running, "it solves")
    os.kill(session.solver.pid, signal.SIGKILL)
    stage.until(lambda: not session.exploration.solve.running, "the solver died")
    yield "solver-died"


def _proved(stage: Stage, model: str) -> Iterator[str]:
    path = stage.folder / "chain.json"
    write_graph(path, training_chain(12))
    stage.open(path)
    stage.ask(stage.share(0.7))
    yield "proved"


def _blocks(stage: Stage, model: str) -> Iterator[str]:
    stage.open(find_graph("transformer-b8.graph"))
    stage.ask(stage.share(_SHARE), 3.0)
    yield "blocks"
    stage.run("view.blocks")
    yield "blocks-open"
    stage.window.show_start()
    wait(lambda: False, _MOMENT_S)
    yield "start-again"


_COURSES: tuple[Callable[[Stage, str], Iterator[str]], ...] = (
    *(
        _start,
        _profiling,
        _ready,
        _solving,
        _peak,
        _constrained,
        _compare,
        _batch,
        _bands,
        _dialogs,
        _palette,
        _tour,
    ),
    *(_infeasible, _notices, _proved, _blocks),
)


def states(stage: Stage, wanted: Sequence[str], model: str) -> Iterator[str]:
    """Yield the name of each wanted state while the window is in it."""
    for course in _COURSES:
        for name in course(stage, model):
            if not wanted or any(name.startswith(part) for part in wanted):
                yield name
