"""R and S as pictures.

Each is one indexed image, with the two cursors painted above.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QImage, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.models.comparison import Comparison
from app.models.cursors import Playhead, Selection
from app.models.exploration import Exploration, ListedSchedule
from app.presenters.difference import ONLY_A, compared_image, hatched
from app.presenters.matrix_image import RECOMPUTED, enlarge, thicken
from app.theme import Theme
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import StageMatrices

_ROLES = ("panel", "forward", "backward", "recomputed", "held", "held")
_ALPHA = (0, 255, 255, 255, 110, 255)
# Of a comparison: neither, both, only A, only B, and the stripes of the last two.
_COMPARED_ROLES = ("panel", "freed", "forward", "backward", "forward", "backward")
_COMPARED_ALPHA = (0, 120, 255, 255, 90, 90)

_THIN = 3  # pixels; smaller cells of R are drawn larger
_LATER = 105  # of 255: how far the stages to come fade; they must stay readable, above all in the dark theme


class MatrixView(QWidget):
    """Shows R or S (``title``): rows are stages, columns are ops.

    Columns are in the order of first computation. A click or a drag sets the playhead and the selection.
    While two schedules are compared, the colours say which of them has a cell.
    """

    def __init__(
        self,
        title: str,
        what: str,
        image_of: Callable[[Graph, StageMatrices, int], np.ndarray],
        exploration: Exploration,
        comparison: Comparison,
        playhead: Playhead,
        selection: Selection,
        theme: Theme,
    ) -> None:
        super().__init__()
        self._title, self._what, self._image_of = title, what, image_of
        self._exploration, self._playhead, self._selection, self._theme = (
            exploration,
            playhead,
            selection,
            theme,
        )
        self._comparison = comparison
        self._drawn: QImage | None = None
        self._pixels = 0
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.setMinimumWidth(130)
        self.setAccessibleName(f"Matrix {title}: {what}")
        exploration.shown_changed.connect(self._on_shown)
        comparison.pinned.connect(self._on_shown)
        playhead.moved.connect(lambda _: self.update())
        selection.changed.connect(lambda _: self.update())

    def sizeHint(self) -> QSize:
        return QSize(250, 250)

    def _on_shown(self) -> None:
        self._drawn = None  # made when it is painted, so that a change before the next painting costs nothing
        self.update()

    def _area(self) -> QRectF:
        side = max(10.0, min(self.width() - 26.0, self.height() - 46.0))
        return QRectF(24, 26, side, side)

    def _picture(self) -> QImage | None:
        """Return the image at the widget's own resolution.

        It is made once per schedule and size.
        """
        shown = self._exploration.shown
        if shown is None:
            return None
        pixels = int(self._area().width() * self.devicePixelRatioF())
        if self._drawn is None or self._pixels != pixels:
            self._drawn, self._pixels = self._make(shown, pixels), pixels
        return self._drawn

    def _make(self, shown: ListedSchedule, pixels: int) -> QImage:
        other = self._comparison.other
        roles, alphas = (_ROLES, _ALPHA) if other is None else (_COMPARED_ROLES, _COMPARED_ALPHA)
        width = int(self._area().width())
        thin = self._title == "R" and shown.matrices.n > width / _THIN
        # Thin cells are enlarged from 96 dots an inch: as thick on a dense screen.
        side = width if thin else pixels
        if other is None:
            small, least = self._image_of(shown.graph, shown.matrices, side), RECOMPUTED
        else:
            small, least = compared_image(shown.matrices, other.matrices, self._title, side), ONLY_A
        if thin:
            large = enlarge(thicken(enlarge(small, side, side), least), pixels, pixels)
        else:
            large = (enlarge if other is None else hatched)(small, pixels, pixels)
        padded = np.zeros((pixels, -(-pixels // 4) * 4), np.uint8)
        padded[:, :pixels] = large
        image = QImage(padded.data, pixels, pixels, padded.shape[1], QImage.Format.Format_Indexed8)
        image.setColorTable(
            [self._theme.color(role, a).rgba() for role, a in zip(roles, alphas, strict=True)]
        )
        return image.copy()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        font = painter.font()
        font.setPixelSize(12)
        painter.setFont(font)
        painter.setPen(self._theme.color("text"))
        painter.drawText(QPointF(0, 14), self._title)
        painter.setPen(self._theme.color("muted"))
        painter.drawText(QPointF(14, 14), self._what)
        area = self._area()
        painter.setPen(QPen(self._theme.color("border"), 1))
        painter.drawRect(area)
        picture = self._picture()
        shown = self._exploration.shown
        if picture is not None and shown is not None:
            painter.drawImage(area, picture)
            self._paint_cursors(painter, area, len(shown.matrices.order))
        font.setPixelSize(11)
        painter.setFont(font)
        painter.setPen(self._theme.color("muted"))
        painter.drawText(QPointF(area.left(), area.bottom() + 15), "operation →")
        painter.save()
        painter.translate(15, area.center().y() + 22)
        painter.rotate(-90)
        painter.drawText(QPointF(0, 0), "← stage")
        painter.restore()
        painter.end()

    def _paint_cursors(self, painter: QPainter, area: QRectF, count: int) -> None:
        shown = self._exploration.shown
        assert shown is not None
        stages = shown.matrices.stage_of_step
        stage = int(stages[min(self._playhead.step, len(stages) - 1)])
        y = area.top() + (stage + 0.5) / count * area.height()
        fade = self._theme.color("panel", _LATER)
        painter.fillRect(QRectF(area.left() + 1, y, area.width() - 1, area.bottom() - y), fade)
        painter.setPen(QPen(self._theme.color("playhead_case"), 4))
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
        painter.setPen(QPen(self._theme.color("playhead"), 2))
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
        if self._selection.op >= 0:
            columns = np.flatnonzero(shown.matrices.order == self._selection.op)
            if len(columns):
                x = area.left() + (int(columns[0]) + 0.5) / count * area.width()
                painter.setPen(QPen(self._theme.color("accent"), 2))
                painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._go(event, select=True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._go(event, select=False)

    def _go(self, event: QMouseEvent, *, select: bool) -> None:
        shown = self._exploration.shown
        if shown is None:
            return
        area = self._area()
        count = len(shown.matrices.order)
        stage = int((event.position().y() - area.top()) / area.height() * count)
        column = int((event.position().x() - area.left()) / area.width() * count)
        steps = np.flatnonzero(shown.matrices.stage_of_step == max(0, min(count - 1, stage)))
        if len(steps):
            self._playhead.seek(int(steps[-1]))
        if select and 0 <= column < count:
            self._selection.select(int(shown.matrices.order[column]))
