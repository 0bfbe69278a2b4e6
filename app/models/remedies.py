"""What fills memory at the playhead or through a range, and what would help; found in threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QObject, Signal

from app.models.cursors import Playhead
from app.models.exploration import Exploration
from app.state.knowledge import ListedSchedule
from app.workers.background import Finding
from checkmate.memory.hotspot import Moment, moment
from checkmate.memory.suggestions import Suggestion, find_suggestions, rank_suggestions, recomputed

_PAUSE_MS, _DRAG_MS = 150, 200  # a range grows while it is dragged
MOST_VALUES = 40  # each takes one or two replays


class Hotspot(QObject):
    """The live bytes at the playhead, and remedies that lower the peak. Signal ``helped``: new remedies."""

    moved = Signal()
    helped = Signal()

    def __init__(self, exploration: Exploration, playhead: Playhead, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration, self._playhead = exploration, playhead
        self._now: tuple[ListedSchedule, Moment] | None = None
        self._wanted = False
        self._finding = Finding(_PAUSE_MS, self)
        self._finding.changed.connect(self.helped)
        exploration.graph_changed.connect(self._finding.clear)
        exploration.shown_changed.connect(self._on_moved)
        playhead.told.connect(self._on_moved)

    @property
    def now(self) -> Moment | None:
        shown = self._exploration.shown
        if shown is None:
            return None
        step = min(self._playhead.step, len(shown.schedule.steps) - 1)
        known = self._now
        if known is None or known[0] is not shown or known[1].step != step:
            found = moment(shown.graph, shown.schedule, shown.timeline, step, shown.uses)
            known = self._now = shown, found
        return known[1]

    @property
    def remedies(self) -> list[Suggestion]:
        """The remedies found so far for values at the playhead, best first. The list grows while ``busy``."""
        shown = self._exploration.shown
        return [] if shown is None else rank_suggestions(self._finding.found, shown.peak_bytes)

    @property
    def busy(self) -> bool:
        return self._wanted and self._finding.busy

    def want(self, on: bool) -> None:
        begins, self._wanted = on and not self._wanted, on
        if begins:
            self._finding.find(self._suggestions)
        elif not on:
            self.close()

    def close(self) -> None:
        self._finding.stop()

    def _on_moved(self, *_: object) -> None:
        self._finding.clear()
        if self._wanted:
            self._finding.find(self._suggestions)
        self.moved.emit()

    def _suggestions(self) -> Iterator[Suggestion]:
        shown, now = self._exploration.shown, self.now
        if shown is None or now is None:
            return iter(())
        once = shown.constrained.once
        return find_suggestions(shown.graph, shown.schedule, shown.timeline, now, once)


class RangePrices(Finding):
    """The costs of computing values again that are held unused through a range, found one after the other."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(_DRAG_MS, parent)

    @property
    def by_value(self) -> dict[int, Suggestion]:
        """What computing a value again saves and costs. A missing one does not help, or is still to come."""
        return dict(self.found)

    def ask(self, shown: ListedSchedule, highest: int, values: Sequence[int]) -> None:
        """Start over for ``values``, in this order, to save memory at the step ``highest``."""
        self.clear()
        if values:
            self.find(lambda: _prices(shown, highest, values[:MOST_VALUES]))


def _prices(shown: ListedSchedule, highest: int, values: Sequence[int]) -> Iterator[tuple[int, Suggestion]]:
    graph, schedule, timeline = shown.graph, shown.schedule, shown.timeline
    at = moment(graph, schedule, timeline, highest)
    live = {buffer.value: buffer for buffer in at.live if buffer.next_read is not None}
    for value in values:
        if value in live:
            price = recomputed(graph, schedule, timeline, at, live[value], shown.constrained.once)
            if price is not None:
                yield value, price
