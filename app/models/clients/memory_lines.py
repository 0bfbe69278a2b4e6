"""Which lines are wanted across the memory curve, and what they say now."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from app.models.clients.placing import Placing
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
from checkmate.catalog.cards import common_cards

_WISH = "lines"


class LineChoice(QObject):
    """The lines that the user wants, and of which card.

    Attributes:
        wanted: the kinds of lines that are drawn where they are known.
        card: the chosen card, as ``app.presenters.lines_across`` names it; at first the graph's own
            GPU.

    Signals: ``changed``: one of them is another.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.wanted: frozenset[LineKind] = frozenset({LineKind.CAPACITY})
        self.card = DEVICE

    def switch(self, kind: LineKind) -> None:
        """Draw a kind of line, or leave it out."""
        self.want(self.wanted ^ {kind})

    def want(self, kinds: Iterable[LineKind]) -> None:
        """Draw these kinds of lines alone."""
        kinds = frozenset(kinds)
        if kinds != self.wanted:
            self.wanted = kinds
            self.changed.emit()

    def choose_card(self, card: str) -> None:
        """Draw the line of another card."""
        if card != self.card:
            self.card = card
            self.changed.emit()


class MemoryLines(QObject):
    """The lines across the memory curve of the schedule on screen.

    Signals: ``changed``: they may be others.
    """

    changed = Signal()

    def __init__(
        self, exploration: Exploration, placing: Placing, choice: LineChoice, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._exploration, self._placing, self.choice = exploration, placing, choice
        self._cards = common_cards()
        choice.changed.connect(self._on_choice)
        for signal in (
            exploration.shown_changed,
            exploration.known_changed,
            exploration.measured_changed,
            placing.changed,
        ):
            signal.connect(self._tell)
        self._told: tuple[MemoryLine, ...] = ()
        self._on_choice()

    @property
    def capacity(self) -> Capacity | None:
        """Return the chosen card's memory; None if there is none."""
        return capacity_of(self.choice.card, self._exploration.graph, self._cards)

    @property
    def cards(self) -> tuple[CardEntry, ...]:
        """Return the cards that can be chosen for the open graph."""
        return card_entries(self._exploration.graph, self._cards)

    @property
    def now(self) -> tuple[MemoryLine, ...]:
        """Return the lines that are wanted and known."""
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
        """Have the schedule placed only while its allocated peak is wanted."""
        self._placing.want(LineKind.ALLOCATED in self.choice.wanted, _WISH)
        self._tell()

    def _tell(self) -> None:
        now = self.now
        if now != self._told:
            self._told = now
            self.changed.emit()
