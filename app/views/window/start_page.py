from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.models.recovery import Explored
from app.presenters.phases import PROFILE
from app.presenters.start import curve_words, facts, outline
from app.presenters.wording import as_sentence
from app.theme import CurrentTheme
from app.views.common.painting import ink, sized, smooth
from app.views.common.panel import Panel
from app.views.common.phase_list import PhaseList
from app.views.common.texts import ElidedLabel, WrappedLabel
from app.views.common.widgets import (
    NO_EDGES,
    called,
    command_button,
    fill,
    in_column,
    in_row,
    label,
    push_button,
)
from checkmate.catalog.samples import SAMPLES, ShownSample, shown_samples

_WIDE, _NARROW, _BESIDE = 940, 560, 12  # pixels


class StartPage(QScrollArea):
    """The first page. Its buttons are connected by who owns it. Signals: ``wanted(what)``: a sample, a
    bundled graph or the file of an exploration."""

    wanted = Signal(str)

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
        self.work.setVisible(False)
        self._problem = Panel("That did not work")
        self._sentence = label("", name="problem", wrap=True)
        self._hint = label("", wrap=True)
        fill(self._problem.body, self._sentence, self._hint)
        self._problem.setVisible(False)
        page, column = QWidget(), QVBoxLayout()
        column.setContentsMargins(0, 4, 0, 4)
        column.addStretch(1)
        for part, wide in ((self._problem, _NARROW), (self._begin, _WIDE), (self.work, _NARROW)):
            part.setFixedWidth(wide)
            column.addWidget(part, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(2)
        page.setLayout(column)
        self.setWidget(page)

    def _make_begin(self, theme: CurrentTheme) -> QWidget:
        begin = QWidget()
        panels = in_row((self._make_own(), 7), (self._recent, 5), (self._make_models(), 9), gap=10)
        begin.setLayout(in_column(self._make_samples(theme), panels, gap=10, edges=NO_EDGES))
        return begin

    def _make_samples(self, theme: CurrentTheme) -> Panel:
        panel = Panel("Graphs to explore right away, without TensorFlow")
        self.tour = command_button("help.tour", None, "Take the tour: five steps")
        panel.head.addWidget(self.tour)
        cards = [SampleCard(sample, theme) for sample in shown_samples()]
        for card in cards:
            card.wanted.connect(self.wanted)
        panel.body.addLayout(in_row(*((card, 1) for card in cards), gap=10))
        return panel

    def _make_own(self) -> Panel:
        card = Panel("Open a model or a graph")
        drop = label("Drop a Keras model, a graph file,\nan out-of-memory log or a profile here")
        drop.setAlignment(Qt.AlignmentFlag.AlignCenter)
        drop.setObjectName("drop")
        drop.setMinimumHeight(72)
        kinds = label(".keras   .h5   graph .json   .log   .xplane.pb", muted=True)
        kinds.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.back = called(QPushButton(), "Back")
        self.back.hide()
        self.own, self.options = QPushButton("Open…"), command_button("file.profile")
        self.own.setObjectName("primary")
        fill(card.body, (drop, 1), kinds, self.back, in_row((self.own, 1), (self.options, 1)))
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
        fill(panel.body, rows, None)
        return panel

    def _link(self, name: str, target: str) -> QPushButton:
        return called(push_button(name, lambda: self.wanted.emit(target), "link"), f"Open {name}")

    def show_recent(self, recent: Sequence[Explored]) -> None:
        while (item := self._recent.body.takeAt(1)) is not None:  # all below the head
            row = item.widget()
            if row is not None:
                row.deleteLater()
        for explored in recent:
            words = ElidedLabel("muted")
            words.set_whole(explored.words)
            line, link = QWidget(), self._link(explored.name, str(explored.path))
            layout = in_row(link, gap=10, edges=NO_EDGES)
            layout.addWidget(words, 1, Qt.AlignmentFlag.AlignVCenter)
            line.setLayout(layout)
            self._recent.body.addWidget(line)
        if not recent:
            said = "Nothing was explored yet. What you explore is kept here, with every schedule found."
            self._recent.body.addWidget(label(said, muted=True, wrap=True))
        self._recent.body.addStretch(1)

    def show_work(self, name: str) -> None:
        self._begin.setVisible(False)
        self._problem.setVisible(False)
        self.work.setVisible(True)
        self.work.begin(name)

    def offer_back(self, name: str) -> None:
        self.back.setText(f"Back to {name}")
        self.back.setAccessibleName(self.back.text())
        self.back.show()

    def show_start(self) -> None:
        self.work.phases.end()
        self.work.setVisible(False)
        self._begin.setVisible(True)

    def show_problem(self, sentence: str, hint: str) -> None:
        self.show_start()
        self._sentence.setText(as_sentence(sentence))
        self._hint.setText(as_sentence(hint))
        self._problem.setVisible(True)


class ProfilingPanel(Panel):
    """Lists the phases of a profile. Signals: ``cancel_wanted``."""

    cancel_wanted = Signal()

    def __init__(self) -> None:
        super().__init__("Profiling")
        self.phases = PhaseList()
        self._cancel = push_button("Cancel", self._on_cancel)
        fill(self.body, self.phases, in_row(self._cancel, None))

    def _on_cancel(self) -> None:
        # An import of TensorFlow cannot be interrupted: the process ends within two seconds.
        self._cancel.setEnabled(False)
        self._cancel.setText("Cancelling…")
        self.cancel_wanted.emit()

    def begin(self, name: str) -> None:
        self._cancel.setEnabled(True)
        self._cancel.setText("Cancel")
        self.note.setText(Path(name).name)
        self.phases.begin(PROFILE)


_SIDE = 12  # pixels
_HIGH = 62  # pixels of the picture
_ROOM = 1.06  # of the plain peak; above it is nothing


class SampleCard(QFrame):
    """Opens its graph on a click anywhere. Signals: ``wanted(name)``."""

    wanted = Signal(str)

    def __init__(self, sample: ShownSample, theme: CurrentTheme) -> None:
        super().__init__()
        self._sample = sample
        self.setObjectName("samplecard")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button = push_button(sample.graph, lambda: self.wanted.emit(sample.graph), "link")
        self.button.setAccessibleName(f"Open {sample.graph}")
        self.button.setAccessibleDescription(f"{sample.title}. {sample.shows} {curve_words(sample)}")
        self.setLayout(
            in_column(
                label(sample.title, name="title"),
                _TwoCurves(sample, theme),
                WrappedLabel(sample.shows, ""),
                None,
                WrappedLabel(curve_words(sample)),
                label(facts(sample), muted=True),
                self.button,
                gap=4,
                edges=(_SIDE, 8, _SIDE, 10),
            )
        )

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.wanted.emit(self._sample.graph)


class _TwoCurves(QWidget):
    """Draws the memory of the plain step and of a schedule within a budget."""

    def __init__(self, sample: ShownSample, theme: CurrentTheme) -> None:
        super().__init__()
        self._sample, self._theme = sample, theme
        self.setFixedHeight(_HIGH)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAccessibleName(f"Memory over the step of {sample.title}")
        self.setToolTip(curve_words(sample))

    def paintEvent(self, event: QPaintEvent) -> None:
        sample, theme, wide = self._sample, self._theme, max(2, self.width() - 2)
        most = _ROOM * max(sample.plain_bytes)
        painter = smooth(self)
        for live, role, alpha in ((sample.plain_bytes, "freed", 70), (sample.kept_bytes, "held", 90)):
            line = [
                QPointF(1 + x, self.height() - 1 - bytes_ / most * (self.height() - 3))
                for x, bytes_ in enumerate(outline(live, wide))
            ]
            ink(painter, None, theme.color(role, alpha))
            foot = [QPointF(line[-1].x(), self.height()), QPointF(line[0].x(), self.height())]
            painter.drawPolygon(QPolygonF([*line, *foot]))
            painter.setPen(QPen(theme.color(role), 1.4))
            painter.drawPolyline(QPolygonF(line))
        budget = self.height() - 1 - sample.share / _ROOM * (self.height() - 3)
        painter.setPen(QPen(theme.color("accent"), 1.2, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(1, budget), QPointF(1 + wide, budget))
        self._name_curves(painter, budget)

    def _name_curves(self, painter: QPainter, budget: float) -> None:
        words = f"{round(100 * self._sample.share)} % of the memory"
        painter.setFont(sized(painter.font(), 11))
        wide = painter.fontMetrics().horizontalAdvance(words) + 8
        box = QRectF(2, max(0, budget - 16), wide, 15)
        painter.fillRect(box, self._theme.color("panel", 215))
        painter.setPen(self._theme.color("accent"))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)
