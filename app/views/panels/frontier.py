"""The frontier as a slider.

The plot's horizontal axis is the track, so the handle is under its predicted cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QBrush, QFont, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.models.exploration import Exploration, ListedSchedule
from app.presenters.axes import BudgetScale, nice_ticks
from app.theme import CurrentTheme
from checkmate.units import format_bytes

_LEFT, _RIGHT, _TOP, _FOOT = 40.0, 14.0, 14.0, 62.0
_SNAP = 6.0  # pixels


class FrontierView(QWidget):
    """Shows the frontier and the handle of the budget.

    It draws known schedules, the bounds below them, and what is infeasible. The vertical axis is a track too:
    dragging on it asks for the least memory at that cost.

    Signals: ``dragged(bytes)`` while the handle moves; ``cap_dragged(max_overhead)`` while the cost's handle
        does; ``released()`` when either is let go.
    """

    dragged = Signal(object)
    cap_dragged = Signal(float)
    released = Signal()

    def __init__(self, exploration: Exploration, theme: CurrentTheme) -> None:
        super().__init__()
        self._exploration, self._theme = exploration, theme
        self._holding = self._capping = False
        self.has_handle = True  # a figure has none: nobody drags it
        self.setMinimumHeight(150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName("Memory budget: step cost against memory")
        self.setAccessibleDescription(
            "Left and Right change the budget by 1 %, Shift by 10 %, Home and End go to the ends"
        )
        for signal in (exploration.known_changed, exploration.budget_changed, exploration.shown_changed):
            signal.connect(self.update)

    def _area(self) -> QRectF:
        return QRectF(_LEFT, _TOP, self.width() - _LEFT - _RIGHT, self.height() - _TOP - _FOOT)

    def _scale(self) -> BudgetScale | None:
        exploration, area = self._exploration, self._area()
        if exploration.plain is None:
            return None
        # The same scale under any constraints, so that the handle stays where it is.
        floor = exploration.least_of_all or exploration.least_bytes
        return BudgetScale.between(floor, exploration.plain.peak_bytes, area.left(), area.right())

    def paintEvent(self, event: QPaintEvent) -> None:
        scale = self._scale()
        if scale is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = QFont(self.font())
        font.setPixelSize(11)
        painter.setFont(font)
        area = self._area()
        ticks, top = self._costs()

        def height_of(cost: float) -> float:
            return area.bottom() - 10 - (cost - 1) / (top - 1) * (area.height() - 14)

        self._grid(painter, area, ticks, height_of)
        self._without(painter, area, scale, height_of)
        self._infeasible(painter, area, scale)
        self._points(painter, area, scale, height_of)
        self._track(painter, area, scale)
        self._cap(painter, area, height_of)
        self._handle(painter, area, scale, height_of)
        painter.end()

    def _costs(self) -> tuple[list[float], float]:
        """Return (ticks, top) of the vertical axis.

        They are multiples of the cost of computing everything once.
        """
        known = self._exploration.known
        top = max(1.02, *(1 + found.overhead for found in known)) if known else 1.02
        ticks = nice_ticks(1.0, top, 4)
        return ticks, max(top + 0.06 * (top - 1), ticks[-1])

    def _cap(self, painter: QPainter, area: QRectF, height_of: Callable[[float], float]) -> None:
        aim = self._exploration.aim
        if aim is None or not aim.limited:
            return
        y = max(area.top(), height_of(1 + aim.max_overhead))
        painter.setPen(QPen(self._theme.color("text"), 1.4, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(area.left() + 7, y), QPointF(area.right(), y))
        painter.setPen(QPen(self._theme.color("accent"), 2.5))
        painter.setBrush(self._theme.color("panel"))
        painter.drawEllipse(QPointF(area.left(), y), 5.5, 5.5)
        text = f"≤ +{100 * aim.max_overhead:.3g} %"
        width = painter.fontMetrics().horizontalAdvance(text) + 8.0
        space = QRectF(area.right() - width, y - 17 if y - area.top() > 18 else y + 2, width, 15)
        painter.fillRect(space, self._theme.color("panel", 215))
        painter.setPen(self._theme.color("text"))
        painter.drawText(space, _CENTER, text)

    def _cap_at(self, y: float) -> float:
        area, (_, top) = self._area(), self._costs()
        share = (area.bottom() - 10 - y) / (area.height() - 14)
        return round(max(0.0, min(1.0, share)) * (top - 1), 3)

    def _on_cap(self, position: QPointF) -> bool:
        area = self._area()
        return position.x() < area.left() + 6 and area.top() - 6 <= position.y() <= area.bottom()

    def _grid(
        self, painter: QPainter, area: QRectF, ticks: list[float], height_of: Callable[[float], float]
    ) -> None:
        digits = (
            1
            if len(ticks) < 2 or ticks[1] - ticks[0] >= 0.0999
            else 2
            if ticks[1] - ticks[0] >= 0.00999
            else 3
        )
        for tick in ticks:
            y = height_of(tick)
            painter.setPen(QPen(self._theme.color("grid"), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(self._theme.color("muted"))
            painter.drawText(QRectF(0, y - 8, area.left() - 6, 16), _RIGHT_MIDDLE, f"{tick:.{digits}f}×")

    def _infeasible(self, painter: QPainter, area: QRectF, scale: BudgetScale) -> None:
        """Paint where no schedule fits.

        Nothing fits below the floor, in any order. Between the floor and the least known, nobody knows.
        """
        floor = self._exploration.least_possible
        if floor is None:
            return
        right = scale.position(int(floor))
        zone = QRectF(area.left(), area.top(), right - area.left(), area.height())
        painter.fillRect(zone, QBrush(self._theme.color("freed", 150), Qt.BrushStyle.BDiagPattern))
        painter.setPen(QPen(self._theme.color("freed"), 1))
        painter.drawLine(zone.topRight(), zone.bottomRight())
        unknown = scale.position(self._exploration.least_bytes)
        if unknown - right > 3:
            painter.fillRect(
                QRectF(right, area.top(), unknown - right, area.height()), self._theme.color("freed", 28)
            )
        for left, width, text in (
            (zone.left(), zone.width(), "infeasible"),
            (right, unknown - right, "none known"),
        ):
            middle = left + width / 2
            covered = abs(middle - scale.position(self._exploration.budget_bytes)) < 9
            if width > 16 and not covered:
                painter.save()
                painter.translate(middle + 4, area.bottom() - 12)
                painter.rotate(-90)
                space = QRectF(-3, -9, painter.fontMetrics().horizontalAdvance(text) + 6, 13)
                painter.fillRect(space, self._theme.color("panel", 215))
                painter.setPen(self._theme.color("muted"))
                painter.drawText(QPointF(0, 1.5), text)
                painter.restore()

    def _points(
        self, painter: QPainter, area: QRectF, scale: BudgetScale, height_of: Callable[[float], float]
    ) -> None:
        known = self._exploration.known
        line = [QPointF(scale.position(f.peak_bytes), height_of(1 + f.overhead)) for f in known]
        if known:
            self._band(painter, known, scale, height_of)
            painter.setPen(QPen(self._theme.color("accent"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawPolyline(QPolygonF(_stairs(line)))
        for found, point in zip(known, line, strict=True):
            proved = found.optimal
            painter.setPen(QPen(self._theme.color("accent"), 1.6))
            painter.setBrush(self._theme.color("accent" if proved else "panel"))
            painter.drawEllipse(point, 3.4, 3.4)

    def _without(
        self, painter: QPainter, area: QRectF, scale: BudgetScale, height_of: Callable[[float], float]
    ) -> None:
        other = self._exploration.unconstrained
        if other is None or other is self._exploration.what_if:
            return
        line = [QPointF(scale.position(f.peak_bytes), height_of(1 + f.overhead)) for f in other.known]
        painter.save()
        painter.setClipRect(area)
        painter.setPen(QPen(self._theme.color("freed"), 1.4, Qt.PenStyle.DotLine))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF(_stairs(line)))
        painter.restore()

    def _band(
        self,
        painter: QPainter,
        known: list[ListedSchedule],
        scale: BudgetScale,
        height_of: Callable[[float], float],
    ) -> None:
        """Paint the band between the best known and the bound, if there is one.

        The frontier runs inside the band.
        """
        bounded = [found for found in known if found.graph.base_cost > 0 and not found.optimal]
        painter.setPen(QPen(self._theme.color("accent", 150), 3))
        for found in bounded:
            x = scale.position(found.peak_bytes)
            low = height_of(max(1.0, found.lower_bound / found.graph.base_cost))
            painter.drawLine(QPointF(x, height_of(1 + found.overhead)), QPointF(x, low))
            painter.drawLine(QPointF(x - 3, low), QPointF(x + 3, low))

    def _track(self, painter: QPainter, area: QRectF, scale: BudgetScale) -> None:
        exploration, theme = self._exploration, self._theme
        assert exploration.plain is not None
        y = area.bottom() + 12
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.color("border"))
        painter.drawRoundedRect(QRectF(area.left(), y - 3, area.width(), 6), 3, 3)
        start, end = scale.position(exploration.least_bytes), scale.position(exploration.budget_bytes)
        painter.setBrush(theme.color("accent"))
        if end > start:
            painter.drawRoundedRect(QRectF(start, y - 3, end - start, 6), 3, 3)
        painter.setPen(QPen(theme.color("text"), 2))
        marks = (exploration.least_bytes, exploration.plain.peak_bytes)
        for mark in marks:
            painter.drawLine(QPointF(scale.position(mark), y - 8), QPointF(scale.position(mark), y + 8))
        painter.setPen(theme.color("muted"))
        name, unit = scale.unit
        taken = area.left() - 16  # where the unit's name ends, a figure would lie over it
        for tick in scale.ticks():
            x = scale.position(int(tick * unit))
            if x - taken > 34:
                painter.drawText(QRectF(x - 24, y + 10, 48, 14), _CENTER, f"{tick:g}")
                taken = x
        painter.drawText(QRectF(0, y + 10, area.left() - 4, 14), _RIGHT_MIDDLE, name)
        painter.setPen(theme.color("text"))
        proved = exploration.least_bytes <= exploration.least_possible
        least = f"▏least {'possible' if proved else 'known'} {format_bytes(exploration.least_bytes)}"
        painter.drawText(QRectF(0, y + 28, self.width(), 14), _LEFT_MIDDLE, least)
        most = f"keep everything {format_bytes(exploration.plain.peak_bytes)} ▕"
        painter.drawText(QRectF(0, y + 28, self.width(), 14), _RIGHT_MIDDLE, most)

    def _handle(
        self, painter: QPainter, area: QRectF, scale: BudgetScale, height_of: Callable[[float], float]
    ) -> None:
        exploration, theme = self._exploration, self._theme
        x, y = scale.position(exploration.budget_bytes), area.bottom() + 12
        painter.setPen(QPen(theme.color("text"), 1.4, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, area.top()), QPointF(x, y - 9))
        shown = exploration.shown
        if shown is not None and shown.peak_bytes <= exploration.budget_bytes:
            painter.setPen(QPen(theme.color("panel"), 2))
            painter.setBrush(theme.color("accent"))
            painter.drawEllipse(QPointF(x, height_of(1 + shown.overhead)), 6.5, 6.5)
        if not self.has_handle:
            return
        if self.window().focusWidget() is self.parent() and self.isActiveWindow():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color("accent", 60))
            painter.drawEllipse(QPointF(x, y), 13, 13)
        painter.setPen(QPen(theme.color("accent"), 3.5))
        painter.setBrush(theme.color("panel"))
        painter.drawEllipse(QPointF(x, y), 8.5, 8.5)

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
        if on_cap:
            QToolTip.showText(
                event.globalPosition().toPoint(), "Drag to ask for the least memory at this cost", self
            )
            return
        found = self._found_at(event.position().x())
        text = "" if found is None else _describe(found)
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
        budget = scale.bytes_at(x)
        found = self._found_at(x)
        if found is not None and not event.modifiers() & Qt.KeyboardModifier.AltModifier:
            budget = found.peak_bytes  # a point that is solved already
        self.dragged.emit(budget)

    def _found_at(self, x: float) -> ListedSchedule | None:
        scale = self._scale()
        if scale is None or not self._exploration.known:
            return None
        near = min(self._exploration.known, key=lambda found: abs(scale.position(found.peak_bytes) - x))
        return near if abs(scale.position(near.peak_bytes) - x) <= _SNAP else None


def _describe(found: ListedSchedule) -> str:
    gap = 1 - found.lower_bound / found.cost if found.cost > 0 else 0.0
    bound = "\nproved the best possible" if found.optimal else f"\nwithin {100 * gap:.1f} % of the best"
    cost = (
        "" if math.isclose(found.overhead, 0, abs_tol=1e-9) else f", +{100 * found.overhead:.1f} % step cost"
    )
    return f"{found.solver}: peak {format_bytes(found.peak_bytes)}{cost}{bound}"


def _stairs(points: list[QPointF]) -> list[QPointF]:
    line: list[QPointF] = []
    for point in points:
        if line:
            line.append(QPointF(point.x(), line[-1].y()))
        line.append(point)
    return line


_LEFT_MIDDLE = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_RIGHT_MIDDLE = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_CENTER = int(Qt.AlignmentFlag.AlignCenter)
