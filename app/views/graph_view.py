"""The training graph: one painted widget; forward rail above, backward rail below, what is in memory now filled in."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.models.cursors import Playhead, Selection
from app.models.exploration import Exploration
from app.presenters.folded_layout import BOX_HEIGHT, BOX_WIDTH, LOWER, UPPER, Box, Layout, folded_layout
from app.theme import Theme
from checkmate.units import format_bytes

_MARGIN = 30.0


class GraphView(QWidget):
    """Pan by dragging, zoom by the wheel at the pointer, click to select, double-click or F to fit."""

    def __init__(self, exploration: Exploration, playhead: Playhead, selection: Selection, theme: Theme) -> None:
        super().__init__()
        self._exploration, self._playhead, self._selection, self._theme = exploration, playhead, selection, theme
        self._layout: Layout | None = None
        self._scale, self._offset = 1.0, QPointF(0, 0)
        self._fitted = True
        self._drag: QPointF | None = None
        self._moved = False
        self._live: np.ndarray = np.zeros(0)
        self._repeats: np.ndarray = np.zeros(0, np.int64)
        self.setMouseTracking(True)
        self.setMinimumHeight(180)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Training graph")
        exploration.graph_changed.connect(self._on_graph)
        exploration.shown_changed.connect(self._on_shown)
        playhead.moved.connect(self._on_step)
        selection.changed.connect(lambda _: self.update())

    def fit(self) -> None:
        """Show all of it."""
        if self._layout is None:
            return
        width, height = self._layout.width + 2 * _MARGIN, self._layout.height + 2 * _MARGIN + 30
        self._scale = min(self.width() / width, self.height() / height, 1.8)
        left = (self.width() - self._layout.width * self._scale) / 2
        top = (self.height() - self._layout.height * self._scale) / 2
        self._offset = QPointF(left, top)
        self._fitted = True
        self.update()

    def _on_graph(self) -> None:
        graph = self._exploration.graph
        self._layout = folded_layout(graph) if graph is not None else None
        self.fit()

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        if shown is None or self._layout is None:
            return
        self._repeats = np.bincount(shown.schedule.steps, minlength=shown.graph.n) - 1
        self._on_step(self._playhead.step)

    def _on_step(self, step: int) -> None:
        """Bytes per box that are live at the playhead."""
        shown = self._exploration.shown
        if shown is None or self._layout is None:
            return
        timeline = shown.timeline
        step = min(step, len(timeline.live_bytes) - 1)
        alive = (timeline.buffer_born <= step) & (step <= timeline.buffer_last)
        producers = shown.graph.producer[timeline.buffer_value[alive]]
        boxes = np.asarray(self._layout.box_of)[producers]
        self._live = np.bincount(boxes, weights=timeline.buffer_bytes[alive], minlength=len(self._layout.boxes))
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        if self._fitted:
            self.fit()
        super().resizeEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        factor = 1.0015 ** event.angleDelta().y()
        scale = min(4.0, max(0.05, self._scale * factor))
        at = event.position()
        self._offset = at - (at - self._offset) * (scale / self._scale)
        self._scale, self._fitted = scale, False
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._drag, self._moved = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag is not None and event.buttons() & Qt.MouseButton.LeftButton:
            delta = event.position() - self._drag
            self._moved = self._moved or delta.manhattanLength() > 3
            if self._moved:
                self._offset += delta
                self._drag, self._fitted = event.position(), False
                self.update()
            return
        box = self._box_at(event.position())
        QToolTip.showText(event.globalPosition().toPoint(), self._tooltip(box) if box is not None else "", self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if not self._moved:
            box = self._box_at(event.position())
            if box is not None:
                ops = box.ops
                graph = self._exploration.graph
                assert graph is not None
                self._selection.select(
                    max(ops, key=lambda op: sum(graph.values[v].bytes for v in graph.ops[op].outputs))
                )
            else:
                self._selection.select(-1)
        self._drag = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.fit()

    def _box_at(self, position: QPointF) -> Box | None:
        if self._layout is None:
            return None
        point = (position - self._offset) / self._scale
        for box in self._layout.boxes:
            if QRectF(box.x, box.y, BOX_WIDTH, BOX_HEIGHT).contains(point):
                return box
        return None

    def _tooltip(self, box: Box) -> str:
        assert self._layout is not None
        number = self._layout.boxes.index(box)
        repeats = int(self._repeats[list(box.ops)].sum()) if len(self._repeats) else 0
        live = self._live[number] if number < len(self._live) else 0
        where = "backward" if box.backward else "forward"
        return (
            f"{box.name} ({where})\n{len(box.ops)} ops write {format_bytes(box.bytes)}\n"
            f"{format_bytes(live)} in memory now, {repeats} recomputations"
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._layout is None:
            painter.end()
            return
        painter.save()
        painter.translate(self._offset)
        painter.scale(self._scale, self._scale)
        self._paint_rails(painter)
        self._paint_edges(painter)
        for number, box in enumerate(self._layout.boxes):
            self._paint_box(painter, number, box)
        painter.restore()
        self._paint_legend(painter)
        painter.end()

    def _paint_rails(self, painter: QPainter) -> None:
        painter.setFont(self._font(13, bold=True))
        painter.setPen(self._theme.color("forward"))
        painter.drawText(QPointF(0, UPPER - 12), "FORWARD →")
        painter.setPen(self._theme.color("backward"))
        painter.drawText(QPointF(0, LOWER - 12), "BACKWARD ←")

    def _paint_edges(self, painter: QPainter) -> None:
        assert self._layout is not None
        chosen = self._selected_box()
        for source, target in self._layout.edges:
            a, b = self._layout.boxes[source], self._layout.boxes[target]
            mine = chosen in (source, target)
            crosses = a.backward != b.backward
            held = crosses and source < len(self._live) and self._live[source] > 0
            color = self._theme.color(
                "accent" if mine else "held" if held else "freed", 255 if mine else 150 if held else 60
            )
            painter.setPen(QPen(color, 2.0 if mine else 1.4 if held else 1.0))
            if not crosses and abs(a.x - b.x) < 1.5 * (BOX_WIDTH + 13):
                left, right = (a, b) if a.x < b.x else (b, a)
                y = a.y + BOX_HEIGHT / 2
                painter.drawLine(QPointF(left.x + BOX_WIDTH, y), QPointF(right.x, y))
            elif crosses and (mine or a.x == b.x):
                top, bottom = (a, b) if a.y < b.y else (b, a)
                painter.drawLine(
                    QPointF(top.x + BOX_WIDTH / 2, top.y + BOX_HEIGHT), QPointF(bottom.x + BOX_WIDTH / 2, bottom.y)
                )
            elif mine:
                edge = a.y + BOX_HEIGHT
                painter.drawLine(QPointF(a.x + BOX_WIDTH / 2, edge), QPointF(b.x + BOX_WIDTH / 2, edge))

    def _paint_box(self, painter: QPainter, number: int, box: Box) -> None:
        theme = self._theme
        role = "backward" if box.backward else "forward"
        live = float(self._live[number]) if number < len(self._live) else 0.0
        now = self._running_box() == number
        fill = theme.color(f"{role}_fill") if live > 0 else theme.color("raised")
        pen = QPen(theme.color(role if live > 0 else "freed"), 1.6)
        if live <= 0:
            pen.setStyle(Qt.PenStyle.DashLine)
        shape = QRectF(box.x, box.y, BOX_WIDTH, BOX_HEIGHT)
        if now:
            self._outline(painter, box, shape, QPen(theme.color("playhead_case"), 7))
            self._outline(painter, box, shape, QPen(theme.color("playhead"), 4.5))
        if self._selected_box() == number:
            self._outline(painter, box, shape.adjusted(-4, -4, 4, 4), QPen(theme.color("accent"), 2.5))
        painter.setBrush(fill)
        self._outline(painter, box, shape, pen, keep_brush=True)
        if self._scale > 0.5:
            self._paint_text(painter, box, live)
        repeats = int(self._repeats[list(box.ops)].sum()) if len(self._repeats) else 0
        if repeats > 0:
            self._paint_badge(painter, box, repeats)

    def _outline(self, painter: QPainter, box: Box, shape: QRectF, pen: QPen, *, keep_brush: bool = False) -> None:
        painter.setPen(pen)
        if not keep_brush:
            painter.setBrush(Qt.BrushStyle.NoBrush)
        if box.backward:
            tip = 13.0
            painter.drawPolygon(
                QPolygonF(
                    [
                        QPointF(shape.left(), shape.center().y()),
                        QPointF(shape.left() + tip, shape.top()),
                        shape.topRight(),
                        shape.bottomRight(),
                        QPointF(shape.left() + tip, shape.bottom()),
                    ]
                )
            )
        else:
            painter.drawRoundedRect(shape, 7, 7)

    def _paint_text(self, painter: QPainter, box: Box, live: float) -> None:
        left = box.x + (14 if box.backward else 7)
        width = BOX_WIDTH - (left - box.x) - 5
        painter.setPen(self._theme.color("text" if live > 0 else "muted"))
        painter.setFont(self._font(11, bold=True))
        metrics = painter.fontMetrics()
        name = metrics.elidedText(box.name, Qt.TextElideMode.ElideRight, int(width))
        painter.drawText(QPointF(left, box.y + 17), name)
        painter.setFont(self._font(10))
        painter.setPen(self._theme.color("muted"))
        painter.drawText(QPointF(left, box.y + 32), format_bytes(box.bytes))
        track = QRectF(left, box.y + BOX_HEIGHT - 13, width, 5)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("grid"))
        painter.drawRoundedRect(track, 2.5, 2.5)
        share = min(1.0, live / box.bytes) if box.bytes else 0.0
        if share > 0:
            painter.setBrush(self._theme.color("held"))
            painter.drawRoundedRect(QRectF(track.left(), track.top(), max(4.0, width * share), 5), 2.5, 2.5)

    def _paint_badge(self, painter: QPainter, box: Box, repeats: int) -> None:
        painter.setFont(self._font(11, bold=True))
        text = f"↻{repeats}"
        width = painter.fontMetrics().horizontalAdvance(text) + 12
        shape = QRectF(box.x + BOX_WIDTH - width + 8, box.y - 10, width, 19)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._theme.color("recomputed"))
        painter.drawRoundedRect(shape, 9.5, 9.5)
        painter.setPen(self._theme.color("panel"))
        painter.drawText(shape, Qt.AlignmentFlag.AlignCenter, text)

    def _paint_legend(self, painter: QPainter) -> None:
        painter.setFont(self._font(11))
        entries = (
            ("forward", "forward"), ("backward", "backward"), ("held", "in memory"), ("recomputed", "↻ recomputed"),
            ("freed", "freed (dashed)"), ("playhead", "computing now"),
        )  # fmt: skip
        x, y = 10.0, self.height() - 14.0
        for role, text in entries:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._theme.color(role))
            painter.drawRoundedRect(QRectF(x, y - 7, 12, 10), 3, 3)
            painter.setPen(self._theme.color("muted"))
            painter.drawText(QPointF(x + 17, y + 2), text)
            x += 17 + painter.fontMetrics().horizontalAdvance(text) + 16

    def _running_box(self) -> int:
        shown = self._exploration.shown
        if shown is None or self._layout is None or self._playhead.step >= len(shown.schedule.steps):
            return -1
        return self._layout.box_of[int(shown.schedule.steps[self._playhead.step])]

    def _selected_box(self) -> int:
        if self._layout is None or not 0 <= self._selection.op < len(self._layout.box_of):
            return -1
        return self._layout.box_of[self._selection.op]

    def _font(self, pixels: int, *, bold: bool = False) -> QFont:
        font = QFont(self.font())
        font.setPixelSize(pixels)
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        return font
