"""One picture of the playback, drawn apart from the window. It shows the training graph, R, the memory curve,
and what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QImage, QPainter, QPen
from PySide6.QtWidgets import QWidget

from app.models.cursors import Playhead, Selection
from app.models.exploration import Exploration
from app.presenters.wording import short_name
from app.theme import CurrentTheme, Theme, ThemeChoice
from app.views.common.painting import ink
from app.views.common.view_models import ViewModels
from app.views.graph.graph_view import GraphView
from app.views.timeline.curve_view import CurveView
from app.views.timeline.matrix_view import MatrixView
from checkmate.ir.graph import Phase
from checkmate.units import format_bytes

SIZE = QSize(960, 600)
_MARGIN, _GAP, _HEAD = 16, 12, 48
_PANEL_PAD = 10

_Text = tuple[str, QColor, bool]  # text, colour, bold


class PlaybackScene:
    """The window's views of one fixed schedule, never shown. They have a playhead of their own."""

    def __init__(self, exploration: Exploration, theme: Theme, size: QSize = SIZE) -> None:
        self._exploration, self.theme, self.size = exploration.frozen_copy(), theme, size
        self._playhead = Playhead()
        assert self._exploration.shown is not None
        self.found = self._exploration.shown
        always = CurrentTheme(ThemeChoice(theme.name))
        self._models = models = ViewModels.of(self._exploration, self._playhead, Selection(), always)
        self._curve = curve = CurveView(models)
        views: tuple[QWidget, ...] = (GraphView(models, None), MatrixView("R", models), curve)
        self._places = list(zip(views, _places(size), strict=True))
        self._host = QWidget()  # never shown; deleting it deletes its children
        self._host.resize(size)
        for view, place in self._places:
            view.setParent(self._host)
            view.resize(place.adjusted(_PANEL_PAD, _PANEL_PAD, -_PANEL_PAD, -_PANEL_PAD).size())
        self._exploration.graph_changed.emit()
        self._exploration.shown_changed.emit()
        self._playhead.set_count(len(self.found.schedule.steps))
        self.image = QImage(size, QImage.Format.Format_RGB888)
        # The curve does not change: it is drawn once, with a line over it in each picture.
        curve.show_cursor(False)
        self._still: QImage | None = None

    def close(self) -> None:
        """Release everything; nothing can be drawn afterwards."""
        self._host.deleteLater()

    def draw(self, step: int) -> Iterator[None]:
        """Draw ``image`` with the playhead on ``step``, in short parts."""
        self._playhead.seek(step, force=True)
        self.image.fill(self.theme.color("window"))
        self._paint(lambda painter: self._head(painter, step))
        yield
        for view, place in self._places[:-1]:
            self._paint(partial(self._panel, view=view, place=place))
            yield
        self._paint(lambda painter: self._curve_at(painter, step))
        yield

    def _paint(self, draw: Callable[[QPainter], None]) -> None:
        painter = QPainter(self.image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        try:
            draw(painter)
        finally:
            painter.end()

    def _panel(self, painter: QPainter, view: QWidget, place: QRect) -> None:
        ink(painter, self.theme.color("border"), self.theme.color("panel"))
        painter.drawRoundedRect(QRectF(place).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        # Else a plot would fill its lines with the brush that is left set.
        painter.setBrush(Qt.BrushStyle.NoBrush)
        corner = place.topLeft() + QPoint(_PANEL_PAD, _PANEL_PAD)
        QWidget.render(view, painter, corner, renderFlags=QWidget.RenderFlag.DrawChildren)

    def _curve_at(self, painter: QPainter, step: int) -> None:
        view, place = self._places[-1]
        if self._still is None:
            self._panel(painter, view, place)
            self._still = self.image.copy(place)
        painter.drawImage(place.topLeft(), self._still)
        line = self._curve.cursor_line(step).translated(place.topLeft() + QPoint(_PANEL_PAD, _PANEL_PAD))
        for role, width in (("playhead_case", 5), ("playhead", 3)):
            painter.setPen(QPen(self.theme.color(role), width, c=Qt.PenCapStyle.FlatCap))
            painter.drawLine(line)

    def _head(self, painter: QPainter, step: int) -> None:
        """Draw the head of the picture. On the left is what is trained and how well, on the right what runs
        and what is live."""
        found, theme = self.found, self.theme
        op = found.graph.ops[int(found.schedule.steps[step])]
        late = op.phase in (Phase.BACKWARD, Phase.UPDATE)
        again = not bool(found.schedule.first_occurrence[step])
        doing, role = ("backward", "backward") if late else ("forward", "forward")
        doing, role = (f"{doing}, again", "recomputed") if again else (doing, role)
        count, live = len(found.schedule.steps), format_bytes(int(found.timeline.live_bytes[step]))
        half = (self.size.width() - 2 * _MARGIN) // 2
        left, right = QRect(_MARGIN, 10, half, 20), QRect(_MARGIN + half, 10, half, 20)
        below = QPoint(0, 20)
        peak, extra = format_bytes(found.peak_bytes), 100 * found.overhead
        facts = f"peak {peak} · +{extra:.1f} % computation · {found.solver}"
        name = short_name(op.group or op.name, 34)
        self._line(painter, left, [(found.graph.name, theme.color("text"), True)], right=False)
        self._line(painter, left.translated(below), [(facts, theme.color("muted"), False)], right=False)
        self._line(
            painter,
            right,
            [(doing + "  ", theme.color(role), True), (name, theme.color("text"), False)],
            right=True,
        )
        where = f"step {step + 1} of {count}  ·  "
        numbers = [(where, theme.color("muted"), False), (f"{live} in memory", theme.color("text"), True)]
        self._line(painter, right.translated(below), numbers, right=True)

    def _line(self, painter: QPainter, place: QRect, parts: list[_Text], *, right: bool) -> None:
        fonts = [self._font(bold) for _, _, bold in parts]
        widths = [
            QFontMetrics(font).horizontalAdvance(text)
            for font, (text, _, _) in zip(fonts, parts, strict=True)
        ]
        x = place.right() - sum(widths) if right else place.left()
        for font, width, (text, color, _) in zip(fonts, widths, parts, strict=True):
            painter.setFont(font)
            painter.setPen(color)
            painter.drawText(
                QRect(x, place.top(), width + 4, place.height()), Qt.AlignmentFlag.AlignVCenter, text
            )
            x += width

    def _font(self, bold: bool) -> QFont:
        font = QFont(self._places[0][0].font())
        font.setPixelSize(14)
        font.setBold(bold)
        font.setFeature(QFont.Tag("tnum"), 1)  # changing figures must not move the text beside them
        return font


def _places(size: QSize) -> tuple[QRect, QRect, QRect]:
    """Return the places of the graph, of R and of the curve. The graph is above, the others are below it; R
    is a square."""
    width, room = size.width() - 2 * _MARGIN, size.height() - _HEAD - _GAP - _MARGIN - 6
    above = round(room * 0.54)
    below = room - above
    matrix = min(below - 16, width // 2)
    top = _HEAD + 6
    under = top + above + _GAP
    return (
        QRect(_MARGIN, top, width, above),
        QRect(_MARGIN, under, matrix, below),
        QRect(_MARGIN + matrix + _GAP, under, width - matrix - _GAP, below),
    )
