from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QSizePolicy, QWidget

from app.actions import action
from app.models.cursors import Comparison
from app.models.exploration import Exploration
from app.models.placements import MemoryLines
from app.models.span import StepSpan
from app.models.undo import ShownEdits
from app.presenters.bands import Grouping
from app.presenters.lines_across import DEVICE, NO_CARD, LineKind
from app.presenters.pointer_words import range_words
from app.presenters.schedule_rows import shown_name
from app.presenters.wording import timeline_text
from app.views.common.texts import ElidedLabel
from app.views.common.widgets import NO_EDGES, called, command_button, in_row, open_below, push_button
from app.workers.background import on

_WAYS = (None, *Grouping)


class SpanBar(QWidget):
    """Says what the timeline shows; its buttons show more or less of it. While steps are selected, it says
    what is in them. Signal ``table_wanted``: all of it is to be listed."""

    table_wanted = Signal()

    def __init__(self, exploration: Exploration, span: StepSpan) -> None:
        super().__init__()
        self._exploration, self._span = exploration, span
        self._words = ElidedLabel("muted")
        self._words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.closer = command_button("view.zoom_range", span.show_chosen, "Zoom in")
        self.table = command_button("view.range_table", self.table_wanted.emit, "Table")
        self.clear = command_button("view.clear_range", lambda: span.choose(None), "✕")
        self.axis = command_button("view.step_axis", span.toggle_axis, "Steps")
        self.whole = command_button("view.whole_step", span.show_whole, "Whole step")
        self.ways = command_button("view.bands", lambda: open_below(self.menu, self.ways), "Curve ▾")
        self.menu = QMenu(self)
        choice = QActionGroup(self)
        for way in _WAYS:
            entry = self.menu.addAction(_name(way))
            entry.setCheckable(True)
            choice.addAction(entry)
            entry.triggered.connect(lambda _=False, way=way: span.group_by(way))
        self.menu.addSeparator()
        self.addresses = self.menu.addAction(action("view.allocator").words)
        self.addresses.setCheckable(True)
        self.addresses.triggered.connect(lambda _=False: span.toggle_addresses())
        buttons = self.table, self.closer, self.clear, self.ways, self.axis, self.whole
        for one in buttons:
            one.setObjectName("small")
        self.setLayout(in_row((self._words, 1), *buttons, gap=8, edges=NO_EDGES))
        on(self._refresh, exploration.shown_changed, exploration.listing.changed)
        on(self._refresh, span.changed, span.chosen_changed)
        self._refresh()

    def text(self) -> str:
        shown, axis, chosen = self._exploration.shown, self._span.axis, self._span.chosen
        if shown is None or axis is None:
            return ""
        if chosen is not None:
            return range_words(shown, axis, chosen)
        assert self._exploration.plain is not None
        own = self._exploration.listing.of(shown)
        return timeline_text(shown_name(shown, self._exploration.plain, own), shown)

    def _refresh(self) -> None:
        axis, text = self._span.axis, self.text()
        for button in (self.table, self.closer, self.clear):
            button.setVisible(self._span.chosen is not None)
        self.whole.setVisible(not self._span.is_whole)
        self.axis.setEnabled(axis is not None and bool(axis.costs[-1] > 0))
        self.ways.setText(f"{_name(self._span.grouping)} ▾")
        self.menu.actions()[_WAYS.index(self._span.grouping)].setChecked(True)
        self.addresses.setChecked(self._span.with_addresses)
        if axis is not None:
            self.axis.setText(f"By {axis.cost_word if axis.by_cost else 'step'}")
        self._words.set_whole(text)


def _name(way: Grouping | None) -> str:
    return "Curve" if way is None else f"Bands by {way}"


class CompareBar(QWidget):
    """Shows in words how two compared schedules differ. It is hidden while nothing is compared."""

    def __init__(self, comparison: Comparison, edits: ShownEdits) -> None:
        super().__init__()
        self._comparison = comparison
        self._sentence = ElidedLabel()
        self._sentence.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.swap = called(push_button("⇄", edits.swap, "small"), "Swap A and B", "Swap A and B")
        stop = "Stop comparing"
        self.close_button = called(push_button("✕", lambda: edits.compare(None), "small"), stop, stop)
        self.setLayout(in_row((self._sentence, 1), self.swap, self.close_button, gap=8, edges=NO_EDGES))
        comparison.changed.connect(self._refresh)
        self._refresh()

    def text(self) -> str:
        found = self._comparison.difference
        return "" if found is None else found.sentence

    def _refresh(self) -> None:
        self.setVisible(self._comparison.active)
        self._sentence.set_whole(self.text())


_WORDS = {
    LineKind.REQUESTED: "&Requested peak, predicted",
    LineKind.ALLOCATED: "&Allocated peak, estimated or measured",
    LineKind.BOUND: "&Least possible, proved",
    LineKind.CAPACITY: "&Card's capacity",
}


class LinesMenu(QMenu):
    """Switches each kind of line, and chooses the card. It is filled when it opens."""

    def __init__(self, lines: MemoryLines, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines = lines
        self.setTitle("Lines")
        self.setAccessibleName("Lines across the memory curve")
        self._group = QActionGroup(self)
        self.aboutToShow.connect(self.fill)

    def fill(self) -> None:
        self.clear()
        choice = self._lines.choice
        for kind, words in _WORDS.items():
            self._add(words, kind in choice.wanted, partial(choice.switch, kind))
        self.addSection("Card")
        self._group = QActionGroup(self)
        entries = self._lines.cards
        chosen = choice.card if choice.card in {one.key for one in entries} else NO_CARD
        for entry in entries:
            self._add(entry.words, entry.key == chosen, partial(self._choose_card, entry.key), card=True)

    def _add(self, words: str, checked: bool, run: Callable[[], None], *, card: bool = False) -> None:
        entry = self.addAction(words)
        entry.setCheckable(True)
        if card:
            self._group.addAction(entry)
        entry.setChecked(checked)
        entry.triggered.connect(lambda _=False: run())

    def _choose_card(self, card: str) -> None:
        choice = self._lines.choice
        choice.choose_card(card)
        if card not in (NO_CARD, DEVICE):
            choice.want(choice.wanted | {LineKind.CAPACITY})
