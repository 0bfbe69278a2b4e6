"""What fills memory at the playhead or through a range, and what would help; found in threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QObject, Signal

from app.models.cursors import Playhead
from app.models.exploration import Exploration
from app.state.knowledge import ListedSchedule
from app.workers.background import Finding
from checkmate.memory.hotspot import Moment, Uses, moment
from checkmate.memory.suggestions import Suggestion, find_suggestions, rank_suggestions, recomputed

_PAUSE_MS, _DRAG_MS = 150, 200  # a range grows while it is dragged
MOST_VALUES = 40  # each takes one or two replays


class Hotspot(QObject):
    """What is live at the playhead, and what would lower it.

    Signals: ``moved``: another step or schedule; ``helped``: more is known of what would help.
    """

    moved = Signal()
    helped = Signal()

    def __init__(self, exploration: Exploration, playhead: Playhead, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration, self._playhead = exploration, playhead
        self._uses: tuple[ListedSchedule | None, Uses | None] = (None, None)
        self._now: tuple[ListedSchedule | None, int, Moment | None] = (None, -1, None)
        self._wanted = False
        self._finding = Finding(_PAUSE_MS, self)
        self._finding.changed.connect(self.helped)
        exploration.shown_changed.connect(self._on_moved)
        playhead.told.connect(self._on_moved)

    @property
    def now(self) -> Moment | None:
        shown = self._exploration.shown
        if shown is None:
            return None
        step = min(self._playhead.step, len(shown.schedule.steps) - 1)
        if self._now[0] is not shown or self._now[1] != step:
            if self._uses[0] is not shown:
                self._uses = (shown, Uses.of(shown.graph, shown.schedule))
            self._now = (
                shown,
                step,
                moment(shown.graph, shown.schedule, shown.timeline, step, self._uses[1]),
            )
        return self._now[2]

    @property
    def remedies(self) -> list[Suggestion]:
        """What is known to help at the playhead, best first. The list grows while ``busy``."""
        return rank_suggestions(self._finding.found)

    @property
    def busy(self) -> bool:
        return self._wanted and self._finding.busy

    def want(self, on: bool) -> None:
        """Start to compute what would help wherever the playhead rests, or stop."""
        begins, self._wanted = on and not self._wanted, on
        if begins:
            self._finding.start(self._suggestions)
        elif not on:
            self.close()

    def close(self) -> None:
        self._finding.stop()

    def _on_moved(self, *_: object) -> None:
        self._finding.clear()
        if self._wanted:
            self._finding.start(self._suggestions)
        self.moved.emit()

    def _suggestions(self) -> Iterator[Suggestion]:
        shown, now = self._exploration.shown, self.now
        if shown is None or now is None:
            return iter(())
        once = shown.constrained.once
        return find_suggestions(shown.graph, shown.schedule, shown.timeline, now, once)


class RangePrices(QObject):
    """What it costs to compute values again that wait through a range, found one after the other.

    Signals:
        changed: ``found`` or ``busy`` is another.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._finding = Finding(_DRAG_MS, self)
        self._finding.changed.connect(self.changed)

    @property
    def found(self) -> dict[int, Suggestion]:
        """Return by value what computing it again saves and costs.

        A value that is not there does not help, or was not tried yet.
        """
        return dict(self._finding.found)

    @property
    def busy(self) -> bool:
        return self._finding.busy

    def ask(self, shown: ListedSchedule, highest: int, values: Sequence[int]) -> None:
        """Begin anew for ``values``, in this order.

        ``highest``: the step at which memory is to be saved. ``found`` is empty at first.
        """
        self._finding.clear()
        if values:
            self._finding.start(lambda: _prices(shown, highest, values[:MOST_VALUES]))

    def stop(self) -> None:
        self._finding.stop()


def _prices(shown: ListedSchedule, highest: int, values: Sequence[int]) -> Iterator[tuple[int, Suggestion]]:
    graph, schedule, timeline = shown.graph, shown.schedule, shown.timeline
    at = moment(graph, schedule, timeline, highest)
    live = {buffer.value: buffer for buffer in at.live if buffer.next_read is not None}
    for value in values:
        if value in live:
            price = recomputed(graph, schedule, timeline, at, live[value], shown.constrained.once)
            if price is not None:
                yield value, price
