"""Where the schedule on screen lies in memory, as a process replays it, and lines across its curve."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from app.models.exploration import Exploration
from app.presenters.lines_across import (
    DEVICE,
    Capacity,
    CardEntry,
    LineKind,
    MemoryLine,
    capacity_of,
    card_entries,
    memory_lines,
)
from app.state.knowledge import ListedSchedule
from app.workers.background import on
from app.workers.client import Client
from checkmate.catalog.cards import common_cards
from checkmate.errors import ContentError
from checkmate.ir import Graph
from checkmate.memory.placement import Placement
from checkmate.processes.messages import JobFailed, Message, pack_steps
from checkmate.progress import Progress
from checkmate.workers.window_messages import GraphToReplay, Placed, PlaceSchedule

_TOLD_AFTER_S = 1.0
_MOST_KEPT = 12  # placements, so that going back to a schedule takes no time
_WISH = "lines"


class Placing(QObject):
    """Places the schedule on screen while that is wanted.

    Attributes:
        found: the last schedule that was placed, and where. It may not be the one on screen yet.
        share: how much of the work is done, once it takes over a second; else None.
        problem: what went wrong with the last schedule.

    Signals: ``changed``: another schedule was placed or is being placed, or the work is further.
    """

    changed = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.found: tuple[ListedSchedule, Placement] | None = None
        self.share: float | None = None
        self.problem = ""
        self._exploration = exploration
        self._wishes: set[str] = set()  # the views that want the placement
        self._asked: ListedSchedule | None = None
        self._begun = 0.0
        self._graph: Graph | None = None  # the one that the process was sent
        self._kept: OrderedDict[bytes, Placement] = OrderedDict()
        self.client = Client("placer", "checkmate.workers.replays", self)
        self.client.progressed.connect(self._on_progress)
        self.client.answered.connect(self._on_placed)
        self.client.failed.connect(self._on_failed)
        self.client.process.died.connect(self._on_died)
        exploration.shown_changed.connect(self._on_shown)

    @property
    def busy(self) -> bool:
        return self._asked is not None

    def want(self, on: bool, who: str) -> None:
        """Place what is on screen from now on while anybody, ``who``, wants it; else end the process."""
        before = bool(self._wishes)
        self._wishes = self._wishes | {who} if on else self._wishes - {who}
        if bool(self._wishes) is before:
            return
        if not on:
            self.client.give_up()
            self._graph = None
        self._on_shown()

    def close(self) -> None:
        self._asked = None
        self.client.close()

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        if self._asked is shown and shown is not None and self._wishes:
            return
        told, before = self.share is not None or bool(self.problem), self.found
        self._asked, self.share, self.problem = None, None, ""
        if before is not None and (shown is None or shown.graph is not before[0].graph):
            self._kept.clear()
            self.found = None
        if self._wishes and shown is not None:
            if shown.key in self._kept:
                self._put(shown, self._kept[shown.key])
                return
            self._request(shown)
        if self._wishes or told or self.found is not before:
            self.changed.emit()

    def _request(self, shown: ListedSchedule) -> None:
        if self._graph is not shown.graph:
            self._graph = shown.graph
            self.client.send(GraphToReplay(self._exploration.graph_body))
        self._asked, self._begun = shown, time.monotonic()
        steps = pack_steps(shown.schedule.steps)
        self.client.send(PlaceSchedule(self.client.next_job(), steps))

    def _read_placement(self, shown: ListedSchedule, body: bytes) -> None:
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

    def _on_progress(self, progress: Progress) -> None:
        if self.busy and time.monotonic() - self._begun > _TOLD_AFTER_S:
            self.share = progress.done
            self.changed.emit()

    def _on_placed(self, message: Message) -> None:
        self.client.end()
        if isinstance(message, Placed) and self._asked is not None:
            shown, self._asked, self.share = self._asked, None, None
            self._read_placement(shown, message.placement)

    def _on_failed(self, failed: JobFailed) -> None:
        self._graph = None  # perhaps it was lost on its way
        if self._asked is not None:
            self._asked, self.share, self.problem = None, None, failed.sentence
            self.changed.emit()

    def _on_died(self) -> None:
        self._graph = None  # the next process does not have it


class LineChoice(QObject):
    """The kinds of lines that the user wants, and of which card; at first the graph's own GPU."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.wanted: frozenset[LineKind] = frozenset({LineKind.CAPACITY})
        self.card = DEVICE

    def switch(self, kind: LineKind) -> None:
        self.want(self.wanted ^ {kind})

    def want(self, kinds: Iterable[LineKind]) -> None:
        kinds = frozenset(kinds)
        if kinds != self.wanted:
            self.wanted = kinds
            self.changed.emit()

    def choose_card(self, card: str) -> None:
        if card != self.card:
            self.card = card
            self.changed.emit()


class MemoryLines(QObject):
    changed = Signal()

    def __init__(
        self, exploration: Exploration, placing: Placing, choice: LineChoice, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._exploration, self._placing, self.choice = exploration, placing, choice
        self._cards = common_cards()
        choice.changed.connect(self._on_choice)
        seen = exploration.shown_changed, exploration.known_changed, exploration.measured_changed
        on(self._emit_if_changed, *seen, placing.changed)
        self._told: tuple[MemoryLine, ...] = ()
        self._on_choice()

    @property
    def capacity(self) -> Capacity | None:
        return capacity_of(self.choice.card, self._exploration.graph, self._cards)

    @property
    def cards(self) -> tuple[CardEntry, ...]:
        return card_entries(self._exploration.graph, self._cards)

    @property
    def now(self) -> tuple[MemoryLine, ...]:
        exploration, found = self._exploration, self._placing.found
        shown = exploration.shown
        if shown is None:
            return ()
        return memory_lines(
            self.choice.wanted,
            shown,
            bound_bytes=exploration.least_possible,
            placement=found[1] if found is not None and found[0] is shown else None,
            measured=exploration.measured_shown,
            capacity=self.capacity,
        )

    def _on_choice(self) -> None:
        self._placing.want(LineKind.ALLOCATED in self.choice.wanted, _WISH)
        self._emit_if_changed()

    def _emit_if_changed(self) -> None:
        now = self.now
        if now != self._told:
            self._told = now
            self.changed.emit()
