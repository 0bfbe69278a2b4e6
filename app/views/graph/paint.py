from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPainterPath, QPen, QPolygonF

from app.layout.folded import Box, GraphLayout, GroupFrame
from app.layout.rows import FRAME_HEAD, LINE, SIDE, Rows
from app.presenters.wording import NameCut
from app.theme import Theme, mixed
from app.views.common.painting import LEFT, ink, sized
from checkmate.units import format_bytes

_TIP = 8.0
_TAG = 45.0  # the gap between forward and backward boxes that a tag and the badges need
_BEHIND = 3.0  # offset of the outlines behind a box that stands for equal blocks


@dataclass(frozen=True, eq=False)
class PlayheadState:
    """What the boxes hold at the playhead. ``live``, ``repeats``, ``first_step`` and ``locked`` (the share of
    ops under a constraint) have one entry per box."""

    live: np.ndarray
    repeats: np.ndarray
    first_step: np.ndarray
    locked: np.ndarray
    step: int
    running: int
    selected: int
    pointed: int
    tag: str

    @property
    def focus(self) -> int:
        return self.selected if self.selected >= 0 else self.running


@dataclass(frozen=True, eq=False)
class Part:
    """A part of the graph that can be kept as a picture.

    Attributes:
        name: what tells it from others.
        area: where it is, in the layout's units.
        looks: all that its looks depend on, besides the scale.
        draw: paints it, in these units.
    """

    name: Hashable
    area: QRectF
    looks: tuple[object, ...]
    draw: Callable[[QPainter], None]


class GraphPainter:
    """Paints one layout of the graph. ``names`` cuts the names of boxes."""

    def __init__(self, theme: Theme, layout: GraphLayout, rows: Rows, font: QFont, names: NameCut) -> None:
        self._theme, self._layout, self._rows, self._family = theme, layout, rows, QFont(font)
        self._names = names

    @property
    def area(self) -> QRectF:
        return QRectF(0, -self._rows.above, *self._rows.size)

    def rect(self, box: Box) -> QRectF:
        return QRectF(*self._rows.corner(box), self._rows.width, self._rows.height)

    def still_part(self) -> Part:
        area = self.area.adjusted(-SIDE, -2, SIDE, 2)
        return Part("still", area, (self._layout, self._rows, self._theme), self.paint_still)

    def paint_still(self, painter: QPainter) -> None:
        self._frames(painter)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        self._rail_edges(painter)
        self._turns(painter)

    def boxes_in(self, seen: QRectF) -> list[int]:
        grown = seen.adjusted(-_AROUND, -_AROUND, _AROUND, _AROUND)
        return [number for number, box in enumerate(self._layout.boxes) if self.rect(box).intersects(grown)]

    def box_part(self, number: int, moment: PlayheadState, scale: float) -> Part:
        live, repeats, locked = (float(each[number]) for each in (moment.live, moment.repeats, moment.locked))
        started = int(moment.first_step[number]) <= moment.step
        area = self.rect(self._layout.boxes[number]).adjusted(-_MARKS, -_MARKS, _MARKS, _MARKS)
        looks = self._layout, self._rows, self._theme, live, started, repeats, locked
        draw = partial(self.paint_box, number=number, moment=moment, scale=scale)
        return Part(number, area, looks, draw)

    def tag_place(self, moment: PlayheadState) -> QRectF:
        """The place of the label of the running op's box, between forward and backward boxes; empty if the
        gap is too small."""
        if moment.running < 0 or self._rows.between < _TAG:
            return QRectF()
        box = self._layout.boxes[moment.running]
        width, around = QFontMetricsF(self.name_font).horizontalAdvance(moment.tag) + 18, self.rect(box)
        left = min(max(around.center().x() - width / 2, -8.0), self._rows.size[0] - width + 8)
        return QRectF(left, around.top() - 32 if box.backward else around.bottom() + 12, width, 20)

    def paint_tag(self, painter: QPainter, moment: PlayheadState) -> None:
        shape, path = self.tag_place(moment), QPainterPath()
        if shape.isEmpty():
            return
        box = self._layout.boxes[moment.running]
        around, away = self.rect(box), -1.0 if box.backward else 1.0
        x, edge = around.center().x(), around.top() - 7.0 if box.backward else around.bottom() + 7.0
        painter.setFont(self.name_font)
        path.addRoundedRect(shape, 10, 10)
        tip, base = QPointF(x, edge), QPointF(x, edge + 6 * away)
        path.addPolygon(QPolygonF([base - QPointF(5, 0), tip, base + QPointF(5, 0)]))
        ink(painter, None, self._theme.color("playhead"))
        painter.drawPath(path.simplified())
        painter.setPen(self._theme.color("on_playhead"))
        painter.drawText(shape, Qt.AlignmentFlag.AlignCenter, moment.tag)

    def _frames(self, painter: QPainter) -> None:
        for frame in self._layout.frames:
            for number, (left, top, right, bottom) in enumerate(self._rows.pieces(frame)):
                ink(painter, QPen(self._theme.color("border"), 1), self._theme.color("raised"))
                painter.drawRoundedRect(QRectF(left, top, right - left, bottom - top), 7, 7)
                space = QRectF(left + 6, top + 1, right - left - 10, FRAME_HEAD)
                self._frame_name(painter, frame, space, first=number == 0)

    def _frame_name(self, painter: QPainter, frame: GroupFrame, space: QRectF, *, first: bool) -> None:
        painter.setFont(self.font(11, bold=True))
        painter.setPen(self._theme.color("muted"))
        width = painter.fontMetrics().horizontalAdvance
        name = self._names.cut(frame.name, width, space.width() - width(_OPENED))
        painter.drawText(space, LEFT, _OPENED + name)
        used = width(_OPENED + frame.name) + 8
        painter.setFont(self.font(11))
        more = f"{frame.ops} ops"
        if first and used + painter.fontMetrics().horizontalAdvance(more) < space.width():
            painter.drawText(space.adjusted(used, 0, 0, 0), LEFT, more)

    def across_parts(self, moment: PlayheadState, seen: QRectF) -> Iterator[Part]:
        boxes, focus = self._layout.boxes, moment.focus
        for source, target in self._layout.edges:
            a, b = boxes[source], boxes[target]
            if a.backward == b.backward or a.column != b.column or focus in (source, target):
                continue
            line, held = self._across(a, b), bool(moment.live[source] > 0)
            area = QRectF(line.p1(), line.p2()).adjusted(-_EDGE, 0.0, _EDGE, 0.0)
            if area.intersects(seen):
                looks = self._layout, self._rows, self._theme, held
                yield Part((source, target), area, looks, partial(self.paint_across, line=line, held=held))

    def paint_across(self, painter: QPainter, line: QLineF, *, held: bool) -> None:
        painter.setPen(self._across_pen(held=held, focused=False))
        painter.drawLine(line)

    def paint_focused_edges(self, painter: QPainter, moment: PlayheadState) -> None:
        boxes, focus = self._layout.boxes, moment.focus
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for source, target in self._layout.edges:
            if focus in (source, target):
                held = bool(moment.live[source] > 0)
                self._edge(painter, boxes[source], boxes[target], held=held)

    def _across(self, a: Box, b: Box) -> QLineF:
        upper, lower = sorted((self.rect(a), self.rect(b)), key=QRectF.top)
        return QLineF(upper.center().x(), upper.bottom(), lower.center().x(), lower.top())

    def _across_pen(self, *, held: bool, focused: bool) -> QPen:
        color = self._theme.color("held") if held else self._theme.color("freed", 200 if focused else 90)
        style = Qt.PenStyle.SolidLine if held else Qt.PenStyle.DashLine
        return QPen(color, 2.2 if focused else 1.3, style)

    def _rail_edges(self, painter: QPainter) -> None:
        boxes, skips = self._layout.boxes, QPainterPath()
        shapes = [self.rect(box) for box in boxes]
        # Qt draws lines of up to one pixel some twenty times as fast.
        painter.setPen(QPen(self._theme.color("freed", 190), min(1.2, 1.0 / painter.transform().m11())))
        for source, target in self._layout.edges:
            if boxes[source].backward == boxes[target].backward:
                self._rail_edge(painter, skips, boxes[source], boxes[target], shapes[source], shapes[target])
        painter.drawPath(skips)

    def _rail_edge(
        self, painter: QPainter, skips: QPainterPath, a: Box, b: Box, start: QRectF, end: QRectF
    ) -> None:
        next_to, same_row = abs(b.column - a.column) == 1, self._rows.row_of(a) == self._rows.row_of(b)
        if next_to and same_row:
            self._arrow(painter, start.right() if b.column > a.column else start.left(), end)
        elif same_row:
            self._arc(skips, start, end, a, b)
        elif next_to:
            self._to_next_row(painter, start, end, rightward=b.column > a.column)
        else:
            self._bend(skips, self._across(a, b))

    def _edge(self, painter: QPainter, a: Box, b: Box, *, held: bool) -> None:
        start, end = self.rect(a), self.rect(b)
        path = QPainterPath()
        if a.backward != b.backward:
            painter.setPen(self._across_pen(held=held, focused=True))
            self._bend(path, self._across(a, b))
        else:
            painter.setPen(QPen(self._theme.color("freed"), 1.8))
            self._rail_edge(painter, path, a, b, start, end)
        painter.drawPath(path)

    def _bend(self, path: QPainterPath, line: QLineF) -> None:
        bend = QPointF(0, line.dy() * 0.45)
        path.moveTo(line.p1())
        path.cubicTo(line.p1() + bend, line.p2() - bend, line.p2())

    def _arrow(self, painter: QPainter, x0: float, end: QRectF) -> None:
        y, x1 = end.center().y(), end.left() if x0 <= end.left() else end.right()
        painter.drawLine(QPointF(x0, y), QPointF(x1, y))
        head = 4.0 if x1 > x0 else -4.0
        painter.drawLine(QPointF(x1, y), QPointF(x1 - head, y - 3.0))
        painter.drawLine(QPointF(x1, y), QPointF(x1 - head, y + 3.0))

    def _to_next_row(self, painter: QPainter, start: QRectF, end: QRectF, *, rightward: bool) -> None:
        """Draw an edge that leaves its row at the end and enters the next one at its beginning, like text."""
        y, x0, x1 = start.center().y(), start.right(), start.right() + SIDE - 4
        if not rightward:
            x0, x1 = start.left(), start.left() - SIDE + 4
        painter.drawLine(QPointF(x0, y), QPointF(x1, y))
        self._arrow(painter, end.left() - SIDE + 4 if rightward else end.right() + SIDE - 4, end)

    def _arc(self, path: QPainterPath, start: QRectF, end: QRectF, a: Box, b: Box) -> None:
        """Add a skip connection's curve: the longer, the deeper."""
        below = not a.backward
        edge = start.bottom() if below else start.top()
        depth = min(14.0 + 5.0 * abs(b.column - a.column), 0.42 * self._rows.between)
        shift = 10.0 if end.x() > start.x() else -10.0
        left, right = start.center().x() + shift, end.center().x() - shift
        bend = edge + (depth if below else -depth) * 1.33
        path.moveTo(left, edge)
        path.cubicTo(left + shift, bend, right - shift, bend, right, edge)

    def _turns(self, painter: QPainter) -> None:
        """Draw the edge from the last forward box to the first backward one."""
        upper = [box for box in self._layout.boxes if not box.backward]
        lower = [box for box in self._layout.boxes if box.backward]
        if not upper or not lower:
            return
        a, b = self.rect(upper[-1]), self.rect(lower[-1])
        start, end = QPointF(a.right(), a.center().y()), QPointF(b.right(), b.center().y())
        painter.setPen(QPen(self._theme.color("freed"), 1.4))
        path = QPainterPath(start)
        path.cubicTo(start + QPointF(22, 0), end + QPointF(22, 0), end)
        painter.drawPath(path)
        painter.drawLine(end, end + QPointF(5.5, -3.5))
        painter.drawLine(end, end + QPointF(5.5, 3.5))

    def paint_box(self, painter: QPainter, number: int, moment: PlayheadState, scale: float) -> None:
        box = self._layout.boxes[number]
        theme, shape = self._theme, self.rect(box)
        role = "backward" if box.backward else "forward"
        live = float(moment.live[number])
        started = int(moment.first_step[number]) <= moment.step
        if live > 0:
            fill, pen = mixed(theme, f"{role}_fill", 1.0), QPen(theme.color(role), max(1.8, 2 / scale))
        elif started:
            fill, pen = theme.color("panel"), QPen(theme.color("freed"), 1.4, Qt.PenStyle.DashLine)
        else:
            fill, pen = theme.color("panel"), QPen(theme.color(role, 220), max(1.3, 1.8 / scale))
        if number == moment.running:
            self._outline(painter, box, shape, QPen(theme.color("playhead_case"), 8))
            self._outline(painter, box, shape, QPen(theme.color("playhead"), 5))
        for marked, color in ((moment.pointed, "muted"), (moment.selected, "accent")):
            if number == marked:
                width = max(2.4, 2.4 / scale)  # as thick on the screen however small the graph is
                self._outline(painter, box, shape.adjusted(-5, -5, 5, 5), QPen(theme.color(color), width))
        for by in (_BEHIND * 2, _BEHIND) if box.copies > 1 else ():
            self._outline(painter, box, shape.translated(by, by), pen, theme.color("panel"))
        self._outline(painter, box, shape, pen, fill)
        if scale > 0.42:
            self._text(painter, box, shape, live)
        if moment.repeats[number] > 0:
            again = f"↻{int(moment.repeats[number])}"
            self._pill(painter, shape, again, ("panel", "recomputed", "panel"), right=True)
        if box.copies > 1:
            self._pill(painter, shape, f"× {box.copies}", ("muted", "panel", "text"), right=False)
        if moment.locked[number] > 0:
            left = shape.left() + (_TIP if box.backward else 3.0) + (37.0 if box.copies > 1 else 0.0)
            at, whole = QPointF(left, shape.top() - 1), float(moment.locked[number]) > 0.999
            paint_lock(painter, theme, at, whole=whole)

    def _outline(
        self, painter: QPainter, box: Box, shape: QRectF, pen: QPen, fill: QColor | None = None
    ) -> None:
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        ink(painter, pen, fill)
        if box.backward:
            painter.drawPolygon(pointing_left(shape, _TIP))
        else:
            painter.drawRoundedRect(shape, 7, 7)

    def _text(self, painter: QPainter, box: Box, shape: QRectF, live: float) -> None:
        left = shape.left() + (_TIP + 1 if box.backward else 5)
        width = shape.right() - left - 4
        painter.setPen(self._theme.color("text" if live > 0 else "muted"))
        painter.setFont(self.name_font)
        measure = painter.fontMetrics().horizontalAdvance
        for line, text in enumerate(self._names.lines(box.name, self._rows.lines, measure, width + 1)):
            painter.drawText(QPointF(left, shape.top() + 13 + LINE * line), text)
        if live <= 0:
            return
        painter.setFont(self.font(11))
        painter.drawText(QPointF(left, shape.bottom() - 9), format_bytes(live))
        track = QRectF(left, shape.bottom() - 6, width, 3)
        ink(painter, None, self._theme.color("border"))
        painter.drawRoundedRect(track, 1.5, 1.5)
        track.setWidth(max(3.0, width * min(1.0, live / box.bytes if box.bytes else 0.0)))
        painter.setBrush(self._theme.color("held"))
        painter.drawRoundedRect(track, 1.5, 1.5)

    def _pill(
        self, painter: QPainter, box: QRectF, text: str, roles: tuple[str, str, str], *, right: bool
    ) -> None:
        """Draw a badge on the upper edge of a box, at its right corner, or left, clear of the badge
        before."""
        line, fill, words = map(self._theme.color, roles)
        painter.setFont(self.font(11, bold=True))
        width = painter.fontMetrics().horizontalAdvance(text) + 10
        shape = QRectF(box.right() - width + 8 if right else box.left() + 3, box.top() - 13, width, 16)
        ink(painter, QPen(line, 1.4), fill)
        painter.drawRoundedRect(shape, 8, 8)
        painter.setPen(words)
        painter.drawText(shape, Qt.AlignmentFlag.AlignCenter, text)

    @property
    def name_font(self) -> QFont:
        """Of the names in boxes."""
        return self.font(12, bold=True)

    def font(self, pixels: int, *, bold: bool = False) -> QFont:
        font = sized(self._family, pixels)
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        return font


def paint_lock(painter: QPainter, theme: Theme, middle: QPointF, *, whole: bool) -> None:
    """Paint a padlock on a disc. It is paler where a constraint holds a part of the box only."""
    tint = theme.color("text" if whole else "freed")
    ink(painter, QPen(tint, 1.2), theme.color("panel"))
    painter.drawEllipse(middle, 8.6, 8.6)
    ink(painter, QPen(tint, 1.5))
    shackle = QPainterPath(middle + QPointF(-2.3, -0.5))
    shackle.lineTo(middle + QPointF(-2.3, -2.0))
    shackle.arcTo(QRectF(middle.x() - 2.3, middle.y() - 5.0, 4.6, 5.2), 180, -180)
    shackle.lineTo(middle + QPointF(2.3, -0.5))
    painter.drawPath(shackle)
    body = QRectF(middle.x() - 3.8, middle.y() - 0.9, 7.6, 5.6)
    ink(painter, None, tint)
    painter.drawRoundedRect(body, 1.2, 1.2)


def pointing_left(shape: QRectF, tip: float) -> QPolygonF:
    """Return ``shape`` with a tip on its left: a backward op's box."""
    inner = shape.left() + tip
    point, above, below = (shape.left(), shape.center().y()), (inner, shape.top()), (inner, shape.bottom())
    corners = QPointF(*point), QPointF(*above), shape.topRight(), shape.bottomRight(), QPointF(*below)
    return QPolygonF(corners)


_AROUND = 24.0  # pixels around a box, for its marks and the playhead's
_MARKS, _EDGE = 16.0, 3.0  # around a box that does not run; beside an edge
_OPENED = "▾ "  # before the name of an open group
