from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.models.exploration import Exploration
from app.presenters.axes import BudgetScale, nice_ticks
from app.presenters.view_tables import ViewTable, frontier_table
from app.state.knowledge import ListedSchedule
from app.theme import CurrentTheme
from app.views.common.painting import CENTER, LEFT, RIGHT, across, down, ink, sized, smooth
from app.workers.background import on
from checkmate.units import format_bytes

_LEFT, _RIGHT, _TOP, _FOOT = 40.0, 14.0, 14.0, 62.0
_SNAP = 6.0  # pixels


class FrontierView(QWidget):
    """Shows the frontier and the handle of the budget. It draws known schedules, the bounds below them, and
    what is infeasible. The vertical axis is a track too: dragging on it asks for the least memory at that
    cost. Signals: ``dragged(bytes)`` while the handle moves; ``cap_dragged(max_overhead)`` while the cost's
    handle does; ``released()`` when either is let go."""

    dragged = Signal(object)
    cap_dragged = Signal(float)
    released = Signal()

    def __init__(self, exploration: Exploration, theme: CurrentTheme) -> None:
        super().__init__()
        self._exploration, self._theme = exploration, theme
        self._holding = self._capping = False
        self.has_handle = True  # False for a figure, which cannot be dragged
        self.setMinimumHeight(150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName("Memory budget: step cost against memory")
        self.setAccessibleDescription(
            "Left and Right change the budget by 1 %, Shift by 10 %, Home and End go to the ends"
        )
        on(self.update, exploration.known_changed, exploration.budget_changed, exploration.shown_changed)

    def view_table(self) -> ViewTable | None:
        exploration = self._exploration
        if exploration.graph is None:
            return None
        return frontier_table(exploration.known, exploration.frontier)

    def _area(self) -> QRectF:
        return QRectF(_LEFT, _TOP, self.width() - _LEFT - _RIGHT, self.height() - _TOP - _FOOT)

    def _scale(self) -> BudgetScale | None:
        exploration, area = self._exploration, self._area()
        if exploration.plain is None:
            return None
        # The scale does not depend on constraints, so that the handle does not move when they change.
        floor = exploration.least_of_all or exploration.least_bytes
        return BudgetScale.between(floor, exploration.plain.peak_bytes, area.left(), area.right())

    def paintEvent(self, event: QPaintEvent) -> None:
        scale = self._scale()
        if scale is None:
            return
        painter = smooth(self)
        painter.setFont(sized(self.font(), 11))
        ticks, top = self._costs()
        frame = _Frame(self._area(), scale, top)
        self._grid(painter, frame, ticks)
        self._without(painter, frame)
        self._infeasible(painter, frame)
        self._points(painter, frame)
        self._track(painter, frame)
        self._cap(painter, frame)
        self._handle(painter, frame)
        painter.end()

    def _costs(self) -> tuple[list[float], float]:
        known = self._exploration.known
        top = max(1.02, *(1 + found.overhead for found in known)) if known else 1.02
        ticks = nice_ticks(1.0, top, 4)
        return ticks, max(top + 0.06 * (top - 1), ticks[-1])

    def _cap(self, painter: QPainter, frame: _Frame) -> None:
        aim, area = self._exploration.aim, frame.area
        if aim is None or not aim.limited:
            return
        y = max(area.top(), frame.height(1 + aim.max_overhead))
        painter.setPen(QPen(self._theme.color("text"), 1.4, Qt.PenStyle.DashLine))
        across(painter, area.adjusted(7, 0, 0, 0), y)
        self._knob(painter, QPointF(area.left(), y), 5.5, 2.5)
        text = f"≤ +{100 * aim.max_overhead:.3g} %"
        width = painter.fontMetrics().horizontalAdvance(text) + 8.0
        space = QRectF(area.right() - width, y - 17 if y - area.top() > 18 else y + 2, width, 15)
        painter.fillRect(space, self._theme.color("panel", 215))
        painter.setPen(self._theme.color("text"))
        painter.drawText(space, CENTER, text)

    def _knob(self, painter: QPainter, middle: QPointF, radius: float, width: float) -> None:
        ink(painter, QPen(self._theme.color("accent"), width), self._theme.color("panel"))
        painter.drawEllipse(middle, radius, radius)

    def _cap_at(self, y: float) -> float:
        area, (_, top) = self._area(), self._costs()
        share = (area.bottom() - 10 - y) / (area.height() - 14)
        return round(max(0.0, min(1.0, share)) * (top - 1), 3)

    def _on_cap(self, position: QPointF) -> bool:
        area = self._area()
        return position.x() < area.left() + 6 and area.top() - 6 <= position.y() <= area.bottom()

    def _grid(self, painter: QPainter, frame: _Frame, ticks: list[float]) -> None:
        apart = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
        digits = 1 if apart >= 0.0999 else 2 if apart >= 0.00999 else 3
        for tick in ticks:
            y = frame.height(tick)
            painter.setPen(QPen(self._theme.color("grid"), 1))
            across(painter, frame.area, y)
            painter.setPen(self._theme.color("muted"))
            painter.drawText(QRectF(0, y - 8, frame.area.left() - 6, 16), RIGHT, f"{tick:.{digits}f}×")

    def _infeasible(self, painter: QPainter, frame: _Frame) -> None:
        # Nothing fits below the floor, in any order. Between the floor and the least known, nobody knows.
        exploration, area = self._exploration, frame.area
        zone, unknown = QRectF(area), QRectF(area)
        zone.setRight(frame.scale.position(int(exploration.least_possible)))
        unknown.setLeft(zone.right())
        unknown.setRight(frame.scale.position(exploration.least_bytes))
        painter.fillRect(zone, QBrush(self._theme.color("freed", 150), Qt.BrushStyle.BDiagPattern))
        painter.setPen(QPen(self._theme.color("freed"), 1))
        painter.drawLine(zone.topRight(), zone.bottomRight())
        if unknown.width() > 3:
            painter.fillRect(unknown, self._theme.color("freed", 28))
        for place, text in ((zone, "infeasible"), (unknown, "not known yet")):
            middle = place.center().x()
            covered = abs(middle - frame.scale.position(exploration.budget_bytes)) < 9
            if place.width() > 16 and not covered:
                painter.save()
                painter.translate(middle + 4, area.bottom() - 12)
                painter.rotate(-90)
                space = QRectF(-3, -9, painter.fontMetrics().horizontalAdvance(text) + 6, 13)
                painter.fillRect(space, self._theme.color("panel", 215))
                painter.setPen(self._theme.color("muted"))
                painter.drawText(QPointF(0, 1.5), text)
                painter.restore()

    def _points(self, painter: QPainter, frame: _Frame) -> None:
        known, theme = self._exploration.known, self._theme
        line = [frame.point(found) for found in known]
        if known:
            self._bounds(painter, frame)
            ink(painter, QPen(theme.color("accent"), 2))
            painter.drawPolyline(QPolygonF(_stairs(line)))
        for found, point in zip(known, line, strict=True):
            fill = theme.color("accent" if found.optimal else "panel")
            ink(painter, QPen(theme.color("accent"), 1.6), fill)
            painter.drawEllipse(point, 3.4, 3.4)

    def _without(self, painter: QPainter, frame: _Frame) -> None:
        other = self._exploration.unconstrained
        if other is None or other is self._exploration.what_if:
            return
        painter.save()
        painter.setClipRect(frame.area)
        ink(painter, QPen(self._theme.color("freed"), 1.4, Qt.PenStyle.DotLine))
        painter.drawPolyline(QPolygonF(_stairs([frame.point(found) for found in other.known])))
        painter.restore()

    def _bounds(self, painter: QPainter, frame: _Frame) -> None:
        painter.setPen(QPen(self._theme.color("accent", 150), 3))
        for found in self._exploration.known:
            if found.graph.base_cost > 0 and not found.optimal:
                top = frame.point(found)
                low = QPointF(top.x(), frame.height(max(1.0, found.lower_bound / found.graph.base_cost)))
                painter.drawLine(top, low)
                painter.drawLine(low - QPointF(3, 0), low + QPointF(3, 0))

    def _track(self, painter: QPainter, frame: _Frame) -> None:
        exploration, theme, area, place = self._exploration, self._theme, frame.area, frame.scale.position
        assert exploration.plain is not None
        y, ends = area.bottom() + 12, (exploration.least_bytes, exploration.plain.peak_bytes)
        ink(painter, None, theme.color("border"))
        painter.drawRoundedRect(QRectF(area.left(), y - 3, area.width(), 6), 3, 3)
        start, end = place(ends[0]), place(exploration.budget_bytes)
        painter.setBrush(theme.color("accent"))
        if end > start:
            painter.drawRoundedRect(QRectF(start, y - 3, end - start, 6), 3, 3)
        painter.setPen(QPen(theme.color("text"), 2))
        for mark in ends:
            down(painter, QRectF(0, y - 8, 0, 16), place(mark))
        painter.setPen(theme.color("muted"))
        name, unit = frame.scale.unit
        taken = area.left() - 16  # where the unit's name ends, a figure would lie over it
        for tick in frame.scale.ticks():
            x = place(int(tick * unit))
            if x - taken > 34:
                painter.drawText(QRectF(x - 24, y + 10, 48, 14), CENTER, f"{tick:g}")
                taken = x
        painter.drawText(QRectF(0, y + 10, area.left() - 4, 14), RIGHT, name)
        painter.setPen(theme.color("text"))
        known = "possible" if ends[0] <= exploration.least_possible else "known"
        foot = QRectF(0, y + 28, self.width(), 14)
        painter.drawText(foot, LEFT, f"▏least {known} {format_bytes(ends[0])}")
        painter.drawText(foot, RIGHT, f"keep everything {format_bytes(ends[1])} ▕")

    def _handle(self, painter: QPainter, frame: _Frame) -> None:
        exploration, theme = self._exploration, self._theme
        handle = QPointF(frame.scale.position(exploration.budget_bytes), frame.area.bottom() + 12)
        painter.setPen(QPen(theme.color("text"), 1.4, Qt.PenStyle.DashLine))
        down(painter, frame.area.adjusted(0, 0, 0, 12 - 9), handle.x())
        shown = exploration.shown
        if shown is not None and shown.peak_bytes <= exploration.budget_bytes:
            ink(painter, QPen(theme.color("panel"), 2), theme.color("accent"))
            painter.drawEllipse(QPointF(handle.x(), frame.height(1 + shown.overhead)), 6.5, 6.5)
        if not self.has_handle:
            return
        if self.window().focusWidget() is self.parent() and self.isActiveWindow():
            ink(painter, None, theme.color("accent", 60))
            painter.drawEllipse(handle, 13, 13)
        self._knob(painter, handle, 8.5, 3.5)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self._scale() is not None:
            self._capping = self._on_cap(event.position())
            self._holding = not self._capping
            self._move(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._holding or self._capping:
            self._move(event)
            return
        on_cap = self._on_cap(event.position())
        self.setCursor(Qt.CursorShape.SizeVerCursor if on_cap else Qt.CursorShape.PointingHandCursor)
        found = self._found_at(event.position().x())
        text = "" if found is None else _describe(found)
        if on_cap:
            text = "Drag to ask for the least memory at this cost"
        QToolTip.showText(event.globalPosition().toPoint(), text, self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._holding or self._capping:
            self._holding = self._capping = False
            self.released.emit()

    def _move(self, event: QMouseEvent) -> None:
        scale = self._scale()
        assert scale is not None
        if self._capping:
            self.cap_dragged.emit(self._cap_at(event.position().y()))
            return
        x = event.position().x()
        found = self._found_at(x)  # a point that is solved already
        self.dragged.emit(scale.bytes_at(x) if found is None else found.peak_bytes)

    def _found_at(self, x: float) -> ListedSchedule | None:
        scale = self._scale()
        if scale is None or not self._exploration.known:
            return None
        near = min(self._exploration.known, key=lambda found: abs(scale.position(found.peak_bytes) - x))
        return near if abs(scale.position(near.peak_bytes) - x) <= _SNAP else None


@dataclass(frozen=True)
class _Frame:
    """Where the plot is, in pixels: bytes across, and costs up to ``top`` times computing everything once."""

    area: QRectF
    scale: BudgetScale
    top: float

    def height(self, cost: float) -> float:
        return self.area.bottom() - 10 - (cost - 1) / (self.top - 1) * (self.area.height() - 14)

    def point(self, found: ListedSchedule) -> QPointF:
        return QPointF(self.scale.position(found.peak_bytes), self.height(1 + found.overhead))


def _describe(found: ListedSchedule) -> str:
    bound = "proved the best possible" if found.optimal else f"within {100 * found.gap:.1f} % of the best"
    free = math.isclose(found.overhead, 0, abs_tol=1e-9)
    cost = "" if free else f", +{100 * found.overhead:.1f} % step cost"
    return f"{found.solver}: peak {format_bytes(found.peak_bytes)}{cost}\n{bound}"


def _stairs(points: list[QPointF]) -> list[QPointF]:
    corners = ((QPointF(after.x(), before.y()), after) for before, after in pairwise(points))
    return points[:1] + [point for pair in corners for point in pair]
