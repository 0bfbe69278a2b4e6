"""A start page's card: a bundled graph, what it shows, and a picture."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.presenters.start import curve_words, facts, outline
from app.theme import CurrentTheme
from app.views.common.panel import label
from checkmate.catalog.shown_samples import ShownSample

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
        column = QVBoxLayout(self)
        column.setContentsMargins(_SIDE, 8, _SIDE, 10)
        column.setSpacing(4)
        self.button = QPushButton(sample.graph)
        self.button.setObjectName("link")
        self.button.setAccessibleName(f"Open {sample.graph}")
        self.button.setAccessibleDescription(f"{sample.title}. {sample.shows} {curve_words(sample)}")
        self.button.clicked.connect(lambda: self.wanted.emit(sample.graph))
        column.addWidget(label(sample.title, name="title"))
        column.addWidget(_TwoCurves(sample, theme))
        self._wrapped = [label(sample.shows, wrap=True), label(curve_words(sample), muted=True, wrap=True)]
        column.addWidget(self._wrapped[0])
        column.addStretch(1)
        column.addWidget(self._wrapped[1])
        column.addWidget(label(facts(sample), muted=True))
        column.addWidget(self.button)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give each sentence the lines that it needs at this width. Qt would give the mean of all widths."""
        super().resizeEvent(event)
        around = self.contentsMargins().left() + self.contentsMargins().right() + 2 * _SIDE
        for words in self._wrapped:
            words.setMinimumHeight(words.heightForWidth(self.width() - around))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton and self.rect().contains(event.position().toPoint()):
            self.wanted.emit(self._sample.graph)


class _TwoCurves(QWidget):
    """Draws the memory of keep-everything and of a schedule in a budget."""

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
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for live, role, alpha in ((sample.plain_bytes, "freed", 70), (sample.kept_bytes, "held", 90)):
            line = [
                QPointF(1 + x, self.height() - 1 - bytes_ / most * (self.height() - 3))
                for x, bytes_ in enumerate(outline(live, wide))
            ]
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color(role, alpha))
            foot = [QPointF(line[-1].x(), self.height()), QPointF(line[0].x(), self.height())]
            painter.drawPolygon(QPolygonF([*line, *foot]))
            painter.setPen(QPen(theme.color(role), 1.4))
            painter.drawPolyline(QPolygonF(line))
        budget = self.height() - 1 - sample.share / _ROOM * (self.height() - 3)
        painter.setPen(QPen(theme.color("accent"), 1.2, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(1, budget), QPointF(1 + wide, budget))
        self._name_curves(painter, budget)

    def _name_curves(self, painter: QPainter, budget: float) -> None:
        """Write beside the budget's line what it is, on the panel's colour."""
        words = f"{round(100 * self._sample.share)} % of the memory"
        font = painter.font()
        font.setPixelSize(11)
        painter.setFont(font)
        wide = painter.fontMetrics().horizontalAdvance(words) + 8
        box = QRectF(2, max(0, budget - 16), wide, 15)
        painter.fillRect(box, self._theme.color("panel", 215))
        painter.setPen(self._theme.color("accent"))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)
