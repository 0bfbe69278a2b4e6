"""Buttons for what the timeline shows, and the selected range in words."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QActionGroup, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QSizePolicy, QWidget

from app.actions import action
from app.models.exploration import Exploration
from app.models.span import StepSpan
from app.presenters.bands import Grouping
from app.presenters.pointer_words import range_words
from app.presenters.schedule_rows import shown_name
from app.presenters.wording import timeline_text
from app.views.common.buttons import command_button

_WAYS = (None, *Grouping)


class SpanBar(QWidget):
    """Says what the timeline shows; its buttons show more or less of it.

    While steps are selected, it says what is in them. Signal ``table_wanted``: all of it is to be listed.
    """

    table_wanted = Signal()

    def __init__(self, exploration: Exploration, span: StepSpan) -> None:
        super().__init__()
        self._exploration, self._span = exploration, span
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        self._words = _Words()
        row.addWidget(self._words, 1)
        self.closer = command_button("view.zoom_range", span.show_chosen, "Zoom in")
        self.table = command_button("view.range_table", self.table_wanted.emit, "Table")
        self.clear = command_button("view.clear_range", lambda: span.choose(None), "✕")
        self.axis = command_button("view.step_axis", span.toggle_axis, "Steps")
        self.whole = command_button("view.whole_step", span.show_whole, "Whole step")
        self.ways = command_button("view.bands", self._offer_ways, "Curve ▾")
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
        for button in (self.table, self.closer, self.clear, self.ways, self.axis, self.whole):
            button.setObjectName("small")
            row.addWidget(button)
        exploration.shown_changed.connect(self._refresh)
        exploration.listing.changed.connect(self._refresh)
        span.changed.connect(self._refresh)
        span.chosen_changed.connect(self._refresh)
        self._refresh()

    def text(self) -> str:
        """Return the whole sentence, however narrow the bar."""
        shown, axis, chosen = self._exploration.shown, self._span.axis, self._span.chosen
        if shown is None or axis is None:
            return ""
        if chosen is not None:
            return range_words(shown, axis, chosen)
        assert self._exploration.plain is not None
        own = self._exploration.listing.own.of(shown)
        return timeline_text(shown_name(shown, self._exploration.plain, own), shown)

    def _offer_ways(self) -> None:
        self.menu.popup(self.ways.mapToGlobal(QPoint(0, self.ways.height())))

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
        self._words.say(text)


class _Words(QLabel):
    """A line of text that shows its beginning where it does not fit."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("muted")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._whole = ""

    def say(self, text: str) -> None:
        """Show a text, of which the tooltip has all."""
        self._whole = text
        self.setToolTip(text)
        self._fit()

    def _fit(self) -> None:
        metrics, way = self.fontMetrics(), Qt.TextElideMode.ElideRight
        self.setText(metrics.elidedText(self._whole, way, self.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


def _name(way: Grouping | None) -> str:
    return "Curve" if way is None else f"Bands by {way}"
