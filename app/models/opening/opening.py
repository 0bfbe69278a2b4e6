"""Read what is to be explored.

Small files are read at once, large ones in a thread.
"""

from __future__ import annotations

import dataclasses
import gc
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.state.knowledge import WhatIf
from app.state.saved import insert_saved
from app.workers.background import Background
from checkmate.errors import CheckmateError
from checkmate.formats import read_any_graph
from checkmate.formats.exploration import SavedExploration, exploration_from_json, is_exploration
from checkmate.formats.files import read_json
from checkmate.formats.graph import graph_to_json
from checkmate.ir.graph import Graph
from checkmate.machine.cost_origin import changed_since_profiled
from checkmate.solvers.constraints import Constraints

# Bytes of a compressed graph; it is ten times as long unpacked, about a thousand ops.
LARGE_BYTES = 16 * 2**10
_PLAIN = 10


@dataclass(frozen=True, eq=False)
class Opened:
    """A graph that was read, with what belongs to it.

    It has the replayed plain step, the JSON of the graph's file, and what was saved with it, if anything.
    ``changed`` is the model's file, if it has changed since it was profiled. ``file`` is where it was read,
    if it was in a file.
    """

    what_if: WhatIf
    body: bytes
    saved: SavedExploration | None = None
    changed: Path | None = None
    file: Path | None = None

    @classmethod
    def of(cls, graph: Graph, saved: SavedExploration | None = None) -> Opened:
        """Compute everything that the window needs to show the graph."""
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
    """Return whether reading ``path`` would hold up the window."""
    most = LARGE_BYTES * (1 if path.name.endswith(".gz") else _PLAIN)
    return path.is_file() and path.stat().st_size > most


class Opening(QObject):
    """The last request to open something; earlier ones are dropped.

    ``replaces``: what is opened takes the place of what was open before, which is garbage then.

    Signals: ``opened(Opened)``; ``failed(sentence, hint)``.
    """

    opened = Signal(object)
    failed = Signal(str, str)

    def __init__(self, parent: QObject | None = None, *, replaces: bool = True) -> None:
        super().__init__(parent)
        self._replaces = replaces
        self._current: Background | None = None

    @property
    def busy(self) -> bool:
        """Return whether something is being read."""
        return self._current is not None

    def start(self, read: Callable[[], Opened]) -> None:
        """Run ``read`` in a thread. It may raise a ``CheckmateError``, and must not touch Qt."""
        self.forget()
        if self._replaces:
            _collect_garbage()
        found: list[Opened | tuple[str, str]] = []

        def work() -> None:
            try:
                found.append(_read_apart(read))
            except CheckmateError as error:
                found.append((str(error), error.hint))  # the error itself would keep alive all that was read

        background = self._current = Background(self)
        background.done.connect(lambda _: self._on_done(background, found))
        background.start(work)

    def forget(self) -> None:
        """Ignore what is being read; its thread ends by itself."""
        background, self._current = self._current, None
        if background is not None:
            background.close(0.0)
            background.deleteLater()

    def _on_done(self, background: Background, found: list[Opened | tuple[str, str]]) -> None:
        if background is not self._current:
            return
        self.forget()
        result = (
            found[0]
            if found
            else ("it could not be opened because of an error in the program; the log says more", "")
        )
        if isinstance(result, Opened):
            self.opened.emit(result)
            gc.freeze()
        else:
            self.failed.emit(*result)


def _read_apart(read: Callable[[], Opened]) -> Opened:
    """Run ``read`` without the garbage collector. It would stop the window to look at all that is read."""
    gc.disable()
    try:
        found = read()
        gc.freeze()
        return found
    finally:
        gc.enable()


def _collect_garbage() -> None:
    """Collect what became garbage since the last graph was opened.

    Python's collector looks at every object of a large graph again and again, which takes some 80 ms each
    time at 10,000 ops. So an open graph is hidden from it (``gc.freeze``). It is freed by its reference
    counts when the next graph comes. Nothing that is made of a graph may therefore refer to itself in a
    circle; ``tests/app/test_opening.py`` checks that.
    """
    if (
        gc.get_freeze_count()
    ):  # if nothing was opened before, a full collection would take long and find nothing
        gc.collect()
