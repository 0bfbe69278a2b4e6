from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QRegion
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.presenters.start import STOPS, Place, words_of
from app.views.common.paint_turns import visible_part
from app.views.common.widgets import in_column, in_row, label
from app.views.window.base_window import BaseWindow
from app.workers.background import later, on
from checkmate.catalog.samples import shown_samples
from checkmate.units import FIRST_SHARE

_WORDS = 308  # pixels a line of the card's words
_RING, _GAP = 3, 10  # pixels: of the ring, and between it and the card
_PANELS = {Place.BUDGET: "budget", Place.CURVE: "timeline", Place.MATRICES: "timeline"}


class Tour(QObject):
    """Goes from stop to stop; leaving it changes nothing in the window.

    Attributes:
        at: the number of the stop, from 0; None while no tour is on.
    """

    def __init__(self, window: BaseWindow, export: QWidget) -> None:
        super().__init__(window)
        self._window, self._export = window, export
        self.at: int | None = None
        self._waits = False
        self.card = _Card(window)
        self._ring = _Ring(window)
        self._target: QWidget | None = None
        self._soon = later(self, 0, self._place)  # after Qt has laid out what has moved
        self.card.next.clicked.connect(lambda: self._go(1))
        self.card.back.clicked.connect(lambda: self._go(-1))
        self.card.leave.clicked.connect(self.leave)
        self.card.tried.clicked.connect(self._try)
        exploration = window.session.exploration
        exploration.graph_changed.connect(self._on_graph)
        on(self._say, exploration.shown_changed, exploration.standing_changed)
        window.session.failed.connect(self._give_up)

    def start(self) -> None:
        if self._window.session.exploration.graph is None:
            self._waits = True
            self._window.open(shown_samples()[0].graph)
            return
        self._window.show_explorer()
        self._show(0)

    def leave(self) -> bool:
        was_on = self.at is not None
        self.at, self._waits = None, False
        if was_on:
            had_keys = self.card.isAncestorOf(self._window.focusWidget() or self._window)
            self.card.hide()
            self._ring.hide()
            self._watch(None)
            if had_keys:
                self._window.explorer.budget.setFocus()
        return was_on

    def _give_up(self) -> None:
        self._waits = False

    def _on_graph(self) -> None:
        if self._waits:
            self._waits = False
            QTimer.singleShot(0, self, self.start)  # once the window shows the graph

    def _go(self, by: int) -> None:
        if self.at is not None and self.at + by < len(STOPS):
            self._show(max(0, self.at + by))
        else:
            self.leave()

    def _show(self, number: int) -> None:
        self.at = number
        stop, area = STOPS[number], self._window.explorer.area
        if stop.place in _PANELS:
            area.show_panel(_PANELS[stop.place])
        self._watch(self._targets()[stop.place])
        self.card.show_stop(number)
        self._say()
        self._place()
        self.card.show()
        self._ring.show()
        self.card.raise_()
        self.card.next.setFocus()
        self._soon.start()

    def _targets(self) -> dict[Place, QWidget]:
        explorer = self._window.explorer
        return {
            Place.BUDGET: explorer.budget,
            Place.CURVE: explorer.memory_plots,
            Place.GRAPH: explorer.graph_panel,
            Place.MATRICES: explorer.matrix_plots,
            Place.EXPORT: self._export,
        }

    def _watch(self, target: QWidget | None) -> None:
        for one in (self._target, self._window):
            if one is not None:
                one.removeEventFilter(self)
        self._target = target
        if target is not None:
            for one in (target, self._window):
                one.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move, QEvent.Type.Show, QEvent.Type.Hide):
            self._soon.start()
        return False

    def _try(self) -> None:
        exploration = self._window.session.exploration
        if exploration.plain is not None:
            self._window.explorer.budget.choose(int(FIRST_SHARE * exploration.plain.peak_bytes))

    def _say(self) -> None:
        if self.at is not None:
            exploration = self._window.session.exploration
            self.card.say(words_of(STOPS[self.at], exploration.shown, exploration.standing))
            self._soon.start()

    def _place(self) -> None:
        target = self._target
        if self.at is None or target is None:
            return
        inside = target.window() is self._window and target.isVisible()
        self._ring.setVisible(inside)
        self.card.fit()
        if not inside:  # it is a window of its own
            self.card.move(self._window.rect().center() - self.card.rect().center())
            return
        around = visible_part(target).translated(target.mapTo(self._window, QPoint(0, 0)))
        self._ring.put_around(around)
        self.card.move(_beside(around, self.card.size(), self._window.rect()))


def _beside(around: QRect, card: QSize, window: QRect) -> QPoint:
    wide, high = card.width(), card.height()
    room = window.adjusted(_GAP, _GAP, -_GAP, -_GAP)
    top = max(room.top(), min(around.top(), room.bottom() - high))
    left = max(room.left(), min(around.left(), room.right() - wide))
    places = (
        QPoint(left, around.bottom() + _GAP),
        QPoint(around.left() - _GAP - wide, top),
        QPoint(around.right() + _GAP, top),
        QPoint(left, around.top() - _GAP - high),
    )
    fits = (place for place in places if room.contains(QRect(place.x(), place.y(), wide, high)))
    return next(fits, QPoint(around.right() - _GAP - wide, around.top() + _GAP))


class _Card(QFrame):
    """The text of one stop of the tour, and its buttons."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setObjectName("tourcard")
        self.setAccessibleName("Tour")
        self._title, self._count = label("", name="title"), label("", muted=True)
        self._words = label("", wrap=True)
        self._words.setFixedWidth(_WORDS)
        self.tried = QPushButton(f"Try {round(100 * FIRST_SHARE)} % of the memory")
        self.leave, self.back, self.next = QPushButton("Leave"), QPushButton("Back"), QPushButton("Next")
        self.leave.setToolTip("Leave the tour (Esc); Help > Take the tour starts it again")
        self.next.setObjectName("primary")
        head, foot = in_row((self._title, 1), self._count), in_row(self.leave, None, self.back, self.next)
        self.setLayout(in_column(head, self._words, self.tried, foot, gap=8, edges=(14, 12, 14, 12)))
        self.hide()

    def show_stop(self, number: int) -> None:
        self._title.setText(STOPS[number].title)
        self._count.setText(f"{number + 1} of {len(STOPS)}")
        self.back.setEnabled(number > 0)
        last = number + 1 == len(STOPS)
        self.next.setText("Done" if last else "Next")
        self.leave.setHidden(last)  # it is what Done does
        self.tried.setVisible(STOPS[number].place is Place.BUDGET)

    def say(self, words: str) -> None:
        self._words.setText(words)
        self.setAccessibleDescription(words)

    def fit(self) -> None:
        self._words.setMinimumHeight(0)  # or heightForWidth() would return the previous height at least
        self._words.setFixedHeight(self._words.heightForWidth(_WORDS))
        self.setFixedSize(self.sizeHint())


class _Ring(QWidget):
    """A frame around what a stop points at; clicks go through it."""

    def __init__(self, window: BaseWindow) -> None:
        super().__init__(window)
        self._theme = window.theme
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def put_around(self, place: QRect) -> None:
        whole = place.adjusted(-_RING, -_RING, _RING, _RING)
        self.setGeometry(whole)
        inner = QRect(QPoint(_RING, _RING), place.size())
        self.setMask(QRegion(self.rect()).subtracted(QRegion(inner)))
        self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), QColor(self._theme.color("accent")))
