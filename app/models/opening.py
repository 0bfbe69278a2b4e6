"""Read what is to be explored, compared or explained: small files at once, large ones in a thread."""

from __future__ import annotations

import dataclasses
import gc
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app.models.exploration import Exploration
from app.models.solving import SolverClient
from app.presenters.graph_comparison import Side, within
from app.state.knowledge import ListedSchedule, WhatIf
from app.state.saved import insert_saved
from app.workers.background import Background
from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph
from checkmate.formats.exploration import SavedExploration, exploration_from_json, is_exploration
from checkmate.formats.files import read_json
from checkmate.formats.graph import graph_to_json
from checkmate.ir.graph import Graph
from checkmate.machine.cost_origin import changed_since_profiled
from checkmate.records.read import read_record
from checkmate.solvers.constraints import Constraints

# Bytes of a compressed graph; it is ten times as long unpacked, about a thousand ops.
LARGE_BYTES = 16 * 2**10
_PLAIN = 10
_FAULT = "it could not be opened because of an error in the program; the log says more", ""


@dataclass(frozen=True, eq=False)
class Opened:
    """A graph that was read, its plain step replayed, as a file's JSON, and what was saved with it.

    ``changed``: the model's file, if it has changed since it was profiled. ``file``: where the graph was
    read.
    """

    what_if: WhatIf
    body: bytes
    saved: SavedExploration | None = None
    changed: Path | None = None
    file: Path | None = None

    @classmethod
    def of(cls, graph: Graph, saved: SavedExploration | None = None) -> Opened:
        body = json.dumps(graph_to_json(graph)).encode("utf-8")
        opened = cls(WhatIf(graph, Constraints()), body, saved, changed_since_profiled(graph))
        if saved is not None:
            insert_saved(saved, opened.what_if)  # checked here, in the thread
        plain = opened.what_if.plain
        _ = plain.timeline.peak_step, plain.matrices, graph.fingerprint, graph.late, graph.predecessors
        _ = opened.what_if.folding, opened.what_if.layers
        return opened


def read_opened(path: Path) -> Opened:
    """Read a graph file or a saved exploration.

    Raises:
        FormatError: it is neither, or broken.
    """
    data = read_json(path)
    saved = exploration_from_json(path, data) if is_exploration(data) else None
    opened = Opened.of(read_any_graph(path)) if saved is None else Opened.of(saved.graph, saved)
    return dataclasses.replace(opened, file=path.absolute())


def is_large(path: Path) -> bool:
    """Whether reading ``path`` would hold up the window."""
    most = LARGE_BYTES * (1 if path.name.endswith(".gz") else _PLAIN)
    return path.is_file() and path.stat().st_size > most


class Reading(QObject):
    """Reads in a thread; only the last request counts, earlier ones are dropped.

    Signals: ``opened(what was read)``; ``failed(sentence, hint)``.
    """

    opened = Signal(object)
    failed = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._current: Background | None = None

    @property
    def busy(self) -> bool:
        return self._current is not None

    def start(self, read: Callable[[], Any]) -> None:
        """Run ``read`` in a thread. It may raise a ``CheckmateError``, and must not touch Qt."""
        self.forget()
        found: list[Any] = []
        failures: list[tuple[str, str]] = []  # an error itself would keep alive all that was read

        def work() -> None:
            try:
                found.append(read())
            except CheckmateError as error:
                failures.append((str(error), error.hint))

        background = self._current = Background(self)
        background.done.connect(lambda _: self._on_done(background, found, failures))
        background.start(work)

    def forget(self) -> None:
        """Ignore what is being read; its thread ends by itself."""
        background, self._current = self._current, None
        if background is not None:
            background.close(0.0)
            background.deleteLater()

    def _on_done(self, background: Background, found: list[Any], failures: list[tuple[str, str]]) -> None:
        if background is not self._current:
            return
        self.forget()
        if found:
            self.opened.emit(found[0])
        else:
            self.failed.emit(*(failures or [_FAULT])[0])


class Opening(Reading):
    """Reads a graph. ``replaces``: it takes the place of what was open before, which is garbage then."""

    def __init__(self, parent: QObject | None = None, *, replaces: bool = True) -> None:
        super().__init__(parent)
        self._replaces = replaces

    def start(self, read: Callable[[], Opened]) -> None:
        if self._replaces:
            _collect_garbage()
        super().start(lambda: _read_apart(read))

    def _on_done(self, background: Background, found: list[Any], failures: list[tuple[str, str]]) -> None:
        super()._on_done(background, found, failures)
        if found:
            gc.freeze()


class RecordOpening(Reading):
    """Reads a log or a profile; signal ``opened((record, path))``."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._stopped = threading.Event()

    def read(self, path: Path) -> None:
        stopped = threading.Event()
        self.start(lambda: (read_record(path, cancelled=stopped.is_set), path))
        self._stopped = stopped

    def forget(self) -> None:
        self._stopped.set()
        super().forget()


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
    if (
        gc.get_freeze_count()
    ):  # if nothing was opened before, a full collection would take long and find nothing
        gc.collect()


def side_of(name: str, exploration: Exploration, shown: ListedSchedule | None = None) -> Side | None:
    """Return one side of a comparison; its curve is of ``shown``, or plain."""
    plain = exploration.plain
    if plain is None:
        return None
    return Side(name, shown or plain, plain, tuple(exploration.known))


class OtherGraph(QObject):
    """A graph from a file to compare with, and the process that fills its frontier.

    ``exploration`` has no graph until it is read. Signals: ``opened``; ``failed(sentence, hint)``.
    """

    opened = Signal()
    failed = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.exploration = Exploration(self)
        self.solving = SolverClient(self.exploration, self)
        self.file = Path()
        self._opening = Opening(self, replaces=False)
        self._opening.opened.connect(self._on_opened)
        self._opening.failed.connect(self.failed)

    @property
    def busy(self) -> bool:
        return self._opening.busy

    def open(self, path: Path) -> None:
        self._opening.start(lambda: read_opened(path))

    def best_within(self, budget_bytes: int) -> ListedSchedule | None:
        known = self.exploration.known
        return within(known, budget_bytes) if known else None

    def close(self) -> None:
        self._opening.forget()
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
        self.solving.know_body(opened.what_if.graph, opened.body)
        self.solving.send_graph()
        QTimer.singleShot(0, self, self.opened.emit)  # what is made of it then is another turn's work
