"""Where the buffers of the schedule on screen lie in memory.

A process of its own asks the allocator's replica.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.models.exploration import Exploration
from app.state.knowledge import ListedSchedule
from app.workers.process import WorkerProcess
from checkmate.errors import ContentError
from checkmate.ipc.messages import Message
from checkmate.ipc.steps import pack_steps
from checkmate.ir.graph import Graph
from checkmate.memory.placement import Placement
from checkmate.workers.messages.checker import GraphToCheck
from checkmate.workers.messages.placer import Placed, PlaceSchedule, PlacingProgress
from checkmate.workers.messages.table import WINDOW_MESSAGES

_TOLD_AFTER_S = 1.0
_SILENT_S = 60.0  # after which a placement is taken for lost, where nothing is heard of it
_MOST_KEPT = 12  # placements, so that going back to a schedule takes no time


class Placing(QObject):
    """Places the schedule on screen while that is wanted.

    ``graph_body`` returns the explored graph as a file's JSON.

    Attributes:
        found: the last schedule that was placed, and where. It may not be the one on screen yet.
        share: how much of the work is done, once it takes over a second; None before that or without work.
        problem: what went wrong with the last schedule; empty if nothing did.

    Signals:
        changed: another schedule was placed or is being placed, or the work is further.
    """

    changed = Signal()

    def __init__(
        self, exploration: Exploration, graph_body: Callable[[], bytes], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.found: tuple[ListedSchedule, Placement] | None = None
        self.share: float | None = None
        self.problem = ""
        self._exploration, self._graph_body = exploration, graph_body
        self._wishes: set[str] = set()  # by whom it is wanted
        self._asked: ListedSchedule | None = None
        self._job, self._begun = 0, 0.0
        self._graph: Graph | None = None  # that the process has
        self._kept: OrderedDict[bytes, Placement] = OrderedDict()
        self.process = WorkerProcess("checkmate.workers.placer", WINDOW_MESSAGES, self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        exploration.shown_changed.connect(self._on_shown)

    @property
    def busy(self) -> bool:
        return self._asked is not None

    @property
    def _wanted(self) -> bool:
        return bool(self._wishes)

    def want(self, on: bool, who: str) -> None:
        """Place what is on screen, now and later; or stop, and end the process.

        It goes on as long as anybody wants it. ``who`` names one of them.
        """
        before = self._wanted
        self._wishes = self._wishes | {who} if on else self._wishes - {who}
        if self._wanted is before:
            return
        if not on:
            self.process.stop()
            self._graph = None
        self._on_shown()

    def close(self) -> None:
        """End the process for good."""
        self._asked = None
        self.process.close()

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        if self._asked is shown and shown is not None and self._wanted:
            return
        told, before = self.share is not None or bool(self.problem), self.found
        self._asked, self.share, self.problem = None, None, ""
        if before is not None and (shown is None or shown.graph is not before[0].graph):
            self._kept.clear()
            if shown is None or not _same_but_for_costs(shown.graph, before[0].graph):
                self.found = None
        if self._wanted and shown is not None:
            if shown.key in self._kept:
                self._put(shown, self._kept[shown.key])
                return
            self._ask(shown)
        if self._wanted or told or self.found is not before:
            self.changed.emit()

    def _ask(self, shown: ListedSchedule) -> None:
        if self._graph is not shown.graph:
            self._graph = shown.graph
            self.process.send(GraphToCheck(shown.graph.name, self._graph_body()))
        self._job += 1
        self._asked, self._begun = shown, time.monotonic()
        self.process.send(PlaceSchedule(self._job, pack_steps(shown.schedule.steps)))
        self.process.expect(_SILENT_S)

    def _take(self, shown: ListedSchedule, body: bytes) -> None:
        """Show an answer, or say that it is none."""
        try:
            placement = Placement.from_bytes(body)
            if len(placement.allocated) != len(shown.schedule.steps):
                raise ContentError("a placement is of another schedule")
        except ContentError as error:
            self.problem = f"The process that places buffers gave no answer: {error}."
            self.changed.emit()
        else:
            self._put(shown, placement)

    def _put(self, shown: ListedSchedule, placement: Placement) -> None:
        self._kept[shown.key] = placement
        self._kept.move_to_end(shown.key)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        self.found = shown, placement
        self.changed.emit()

    def _on_received(self, message: Message) -> None:
        match message:
            case PlacingProgress(job=job, share=share) if job == self._job and self.busy:
                self.process.expect(_SILENT_S)
                if time.monotonic() - self._begun > _TOLD_AFTER_S:
                    self.share = share
                    self.changed.emit()
            case Placed(job=job, placement=body) if job == self._job and self._asked is not None:
                shown, self._asked, self.share = self._asked, None, None
                self.process.expect(None)
                self._take(shown, body)

    def _on_died(self, sentence: str) -> None:
        self._graph = None  # the next process does not have it
        if self._asked is not None:
            self._asked, self.share, self.problem = None, None, sentence
            self.changed.emit()


def _same_but_for_costs(graph: Graph, other: Graph) -> bool:
    """Return whether one graph's picture may stay until the other's is there."""
    return (graph.name, graph.n, len(graph.values)) == (other.name, other.n, len(other.values))
