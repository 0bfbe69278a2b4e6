"""Which schedule (B) the one on screen (A) is compared with."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.models.exploration import Exploration
from app.presenters.difference import Difference, difference
from app.state.knowledge import ListedSchedule


class Comparison(QObject):
    """The schedule B, and how A differs from it.

    ``other`` is B, or None if nothing is compared. B stays even if better schedules take its place on the
    frontier.

    Signals: ``pinned``: B is another; ``changed``: A or B is another.
    """

    pinned = Signal()
    changed = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration = exploration
        self.other: ListedSchedule | None = None
        self._difference: tuple[ListedSchedule | None, ListedSchedule | None, Difference | None] = (
            None,
            None,
            None,
        )
        exploration.graph_changed.connect(lambda: self.pin(None))
        exploration.shown_changed.connect(self._on_shown)

    @property
    def active(self) -> bool:
        return self.other is not None and self._exploration.shown is not None

    @property
    def difference(self) -> Difference | None:
        shown, other = self._exploration.shown, self.other
        if shown is None or other is None:
            return None
        if self._difference[0] is not shown or self._difference[1] is not other:
            found = difference(shown.graph, shown.schedule, shown.timeline, other.schedule, other.timeline)
            self._difference = (shown, other, found)
        return self._difference[2]

    def pin(self, found: ListedSchedule | None) -> None:
        """Compare with ``found``; None ends the comparison."""
        if found is not self.other:
            self.other = found
            self.pinned.emit()
            self.changed.emit()

    def _on_shown(self) -> None:
        if self.other is not None:
            self.changed.emit()
