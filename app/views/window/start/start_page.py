"""The page that is shown while no graph is open.

It is there before anything is open, while a model is being profiled, and after a failure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.models.opening.recent import Explored
from app.presenters.wording import as_sentence
from app.theme import CurrentTheme
from app.views.common.buttons import command_button
from app.views.common.elided_label import ElidedLabel
from app.views.common.panel import Panel, label
from app.views.common.wrapped_label import WrappedLabel
from app.views.window.start.profiling_panel import ProfilingPanel
from app.views.window.start.sample_card import SampleCard
from checkmate.catalog.samples import SAMPLES
from checkmate.catalog.shown_samples import shown_samples

_WIDE, _NARROW, _BESIDE = 940, 560, 12  # pixels


class StartPage(QScrollArea):
    """The first page.

    Signals: ``open_wanted``; ``options_wanted``; ``back_wanted``: to what is open; ``tour_wanted``;
        ``wanted(what)``: a sample, a bundled graph or the file of an exploration; ``cancel_wanted``.
    """

    options_wanted = Signal()
    back_wanted = Signal()
    tour_wanted = Signal()

    open_wanted = Signal()
    wanted = Signal(str)
    cancel_wanted = Signal()

    def __init__(self, theme: CurrentTheme, recent: Sequence[Explored] = ()) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # its buttons have the keys, and are scrolled to
        self._recent = Panel("Recent explorations")
        self._recent.setToolTip("They open with every schedule found")
        self._begin = self._make_begin(theme)
        self.show_recent(recent)
        self.work = ProfilingPanel()
        self.work.cancel_wanted.connect(self.cancel_wanted)
        self.work.setVisible(False)
        self._problem = Panel("That did not work")
        self._sentence = label("", name="problem", wrap=True)
        self._hint = label("", wrap=True)
        self._problem.body.addWidget(self._sentence)
        self._problem.body.addWidget(self._hint)
        self._problem.setVisible(False)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 4, 0, 4)
        column.addStretch(1)
        for part, wide in ((self._problem, _NARROW), (self._begin, _WIDE), (self.work, _NARROW)):
            part.setFixedWidth(wide)
            column.addWidget(part, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(2)
        self.setWidget(page)

    def _make_begin(self, theme: CurrentTheme) -> QWidget:
        """Return what there is to begin with: samples, files, sample models."""
        begin = QWidget()
        column = QVBoxLayout(begin)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(10)
        column.addWidget(self._make_samples(theme))
        row = QHBoxLayout()
        row.setSpacing(10)
        for panel, share in ((self._make_own(), 7), (self._recent, 5), (self._make_models(), 9)):
            row.addWidget(panel, share)
        column.addLayout(row)
        return begin

    def _make_samples(self, theme: CurrentTheme) -> Panel:
        panel = Panel("Graphs to explore right away, without TensorFlow")
        self.tour = command_button("help.tour", self.tour_wanted.emit, "Take the tour: five steps")
        panel.head.addWidget(self.tour)
        row = QHBoxLayout()
        row.setSpacing(10)
        for sample in shown_samples():
            card = SampleCard(sample, theme)
            card.wanted.connect(self.wanted)
            row.addWidget(card, 1)
        panel.body.addLayout(row)
        return panel

    def _make_own(self) -> Panel:
        card = Panel("Open a model or a graph")
        drop = label("Drop a Keras model, a graph file,\nan out-of-memory log or a profile here")
        drop.setAlignment(Qt.AlignmentFlag.AlignCenter)
        drop.setObjectName("drop")
        drop.setMinimumHeight(72)
        card.body.addWidget(drop, 1)
        kinds = label(".keras   .h5   graph .json   .log   .xplane.pb", muted=True)
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        card.body.addWidget(kinds)
        self._back = QPushButton()
        self._back.setAccessibleName("Back")
        self._back.clicked.connect(self.back_wanted)
        self._back.hide()
        card.body.addWidget(self._back)
        buttons = QHBoxLayout()
        open_button = QPushButton("Open…")
        open_button.setObjectName("primary")
        open_button.clicked.connect(self.open_wanted)
        for button in (open_button, command_button("file.profile", self.options_wanted.emit)):
            buttons.addWidget(button, 1)
        card.body.addLayout(buttons)
        return card

    def _make_models(self) -> Panel:
        panel = Panel("Sample models")
        panel.note.setText("Profiled on this machine")
        rows = QGridLayout()  # the descriptions begin in a column
        rows.setColumnStretch(1, 1)
        rows.setHorizontalSpacing(_BESIDE)
        for number, sample in enumerate(SAMPLES):
            link = self._link(sample.name, sample.name)
            rows.addWidget(link, number, 0, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
            rows.addWidget(WrappedLabel(sample.description), number, 1, Qt.AlignmentFlag.AlignVCenter)
        panel.body.addLayout(rows)
        panel.body.addStretch(1)
        return panel

    def _link(self, name: str, target: str) -> QPushButton:
        button = QPushButton(name)
        button.setObjectName("link")
        button.setAccessibleName(f"Open {name}")
        button.clicked.connect(lambda: self.wanted.emit(target))
        return button

    def _row(self, link: QPushButton, words: QLabel) -> QWidget:
        row = QWidget()
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(10)
        layout.addWidget(link)
        layout.addWidget(words, 1, Qt.AlignmentFlag.AlignVCenter)
        return row

    def show_recent(self, recent: Sequence[Explored]) -> None:
        """List what was explored lately."""
        while (item := self._recent.body.takeAt(1)) is not None:  # all below the head
            row = item.widget()
            if row is not None:
                row.deleteLater()
        for explored in recent:
            at = time.strftime("%d %B, %H:%M", time.localtime(explored.closed_at)).lstrip("0")
            words = ElidedLabel("muted")
            words.set_whole(at)
            link = self._link(explored.name, str(explored.path))
            self._recent.body.addWidget(self._row(link, words))
        if not recent:
            said = "Nothing was explored yet. What you explore is kept here, with every schedule found."
            self._recent.body.addWidget(label(said, muted=True, wrap=True))
        self._recent.body.addStretch(1)

    def show_work(self, name: str) -> None:
        """Show that a model is being profiled."""
        self._begin.setVisible(False)
        self._problem.setVisible(False)
        self.work.setVisible(True)
        self.work.begin(name)

    def offer_back(self, name: str) -> None:
        """Offer the way back to the graph that is open."""
        self._back.setText(f"Back to {name}")
        self._back.setAccessibleName(self._back.text())
        self._back.show()

    def show_start(self) -> None:
        """Show the beginning again."""
        self.work.end()
        self.work.setVisible(False)
        self._begin.setVisible(True)

    def show_problem(self, sentence: str, hint: str) -> None:
        """Show one sentence about what went wrong, and what to do."""
        self.show_start()
        self._sentence.setText(as_sentence(sentence))
        self._hint.setText(as_sentence(hint))
        self._problem.setVisible(True)
