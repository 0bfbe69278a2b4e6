"""Read what is to be explored, compared or explained: small files at once, large ones in a thread."""

from __future__ import annotations

import dataclasses
import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.exploration import Exploration
from app.models.recovery import Recent
from app.models.solving import SolverClient
from app.presenters.graph_comparison import Side
from app.state.knowledge import ListedSchedule, WhatIf
from app.state.saved import insert_saved
from app.workers.background import Reading
from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph
from checkmate.formats.exploration import SavedExploration, exploration_from_json, is_exploration
from checkmate.formats.files import read_json
from checkmate.hlo.read import is_dump
from checkmate.ir import Graph
from checkmate.machine.cost_origin import changed_since_profiled
from checkmate.records.read import read_record
from checkmate.solvers.constraints import Constraints

# Bytes of a compressed graph; it is ten times as long unpacked, about a thousand ops.
LARGE_BYTES = 16 * 2**10
_PLAIN = 10


@dataclass(frozen=True, eq=False)
class Opened:
    """A graph that was read, prepared to be drawn, and what was saved with it.

    ``changed``: the model's file, if it has changed since it was profiled. ``file``: where the graph was.
    """

    what_if: WhatIf
    saved: SavedExploration | None = None
    changed: Path | None = None
    file: Path | None = None

    @classmethod
    def of(cls, graph: Graph, saved: SavedExploration | None = None) -> Opened:
        opened = cls(WhatIf(graph, Constraints()), saved, changed_since_profiled(graph))
        if saved is not None:
            insert_saved(saved, opened.what_if)  # checked here, in the thread
        plain = opened.what_if.plain
        _ = plain.timeline.peak_step, plain.matrices, graph.fingerprint, graph.late, graph.predecessors
        _ = opened.what_if.folding, opened.what_if.layers, opened.what_if.graph_body
        return opened


def read_opened(path: Path, recent: Recent | None = None) -> Opened:
    """Read a graph with what was explored of it before, or a saved exploration."""
    data = None if is_dump(path, of_module=True) else read_json(path)
    if data is not None and is_exploration(data):
        saved = exploration_from_json(path, data)
        opened = Opened.of(saved.graph, saved)
    else:
        graph = read_any_graph(path)
        opened = Opened.of(graph, None if recent is None else recent.of(graph))
    return dataclasses.replace(opened, file=path.absolute())


def is_large(path: Path) -> bool:
    most = LARGE_BYTES * (1 if path.name.endswith(".gz") else _PLAIN)
    return path.is_file() and path.stat().st_size > most


class Opening(Reading):
    """Reads a graph. ``replaces``: it replaces the open graph, whose garbage is collected first."""

    def __init__(self, parent: QObject | None = None, *, replaces: bool = True) -> None:
        super().__init__(parent)
        self._replaces = replaces

    def start(self, work: Callable[[], Any]) -> bool:
        if self._replaces:
            _collect_garbage()
        return super().start(lambda: _read_apart(work))

    def _deliver(self) -> None:
        found = bool(self._found)
        super()._deliver()
        if found:
            gc.freeze()


class RecordOpening(Reading):
    """Reads a log or a profile; signal ``done((record, path))``."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stopped = threading.Event()

    def read(self, path: Path) -> None:
        stopped = threading.Event()
        self.start(lambda: (read_record(path, cancelled=stopped.is_set), path))
        self._stopped = stopped

    def close(self, patience_s: float = 0.0) -> None:
        self._stopped.set()
        super().close(patience_s)


def _read_apart(read: Callable[[], Opened]) -> Opened:
    gc.disable()
    try:
        found = read()
        gc.freeze()
        return found
    finally:
        gc.enable()


def _collect_garbage() -> None:
    """Collect what became garbage since the last graph was opened.

    Python's collector looks at every object of a large graph again and again, some 80 ms each time at 10,000
    ops. So an open graph is hidden from it (``gc.freeze``), and freed by its reference counts when the next
    one comes. What is made of a graph may therefore not refer to itself in a circle;
    ``tests/app/test_opening.py`` checks that.
    """
    if gc.get_freeze_count():  # else a full collection would take long and find nothing
        gc.collect()


def side_of(name: str, exploration: Exploration, shown: ListedSchedule | None = None) -> Side | None:
    """Return one side of a comparison; its curve is of ``shown``, or plain."""
    plain = exploration.plain
    if plain is None:
        return None
    return Side(name, shown or plain, plain, tuple(exploration.known))


class OtherGraph(QObject):
    """A graph from a file to compare with, none until it is read, and the process that fills its frontier."""

    opened = Signal()
    failed = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.exploration = Exploration(self)
        self.solving = SolverClient(self.exploration, self)
        self.file = Path()
        self._opening = Opening(self, replaces=False)
        self._opening.done.connect(self._on_opened)
        self._opening.failed.connect(self.failed)

    def open(self, path: Path) -> None:
        self._opening.start(lambda: read_opened(path))

    def close(self) -> None:
        self._opening.close()
        self.solving.close()
        self.exploration.forget()
        self.deleteLater()

    def _on_opened(self, opened: Opened) -> None:
        try:
            if opened.saved is not None:
                self.exploration.restore(opened.saved, opened.what_if)
            else:
                self.exploration.set_graph(opened.what_if.graph, opened.what_if)
        except CheckmateError as error:
            self.failed.emit(str(error), error.hint)
            return
        assert opened.file is not None
        self.file = opened.file
        self.solving.send_graph()
        QTimer.singleShot(0, self, self.opened.emit)  # in a turn of its own, because its receivers take long
