from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import (
    QFocusEvent,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QMouseEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QToolTip

from app.models.span import Scale, StepSpan
from app.presenters.axes import StepAxis, Tick
from app.presenters.bands import Bands, PlacedBlocks
from app.views.common.plot_style import ScreenPens, color_plot, fix_plot, without_title
from app.views.common.view_models import ViewModels
from app.views.timeline.bands_item import BandsItem
from app.views.timeline.plot_legend import CurveLegend, Entry
from app.workers.background import later

_LEFT = 50  # pixels: the vertical axis


class PointedPlot(pg.PlotWidget):  # type: ignore[misc]
    """A plot over the steps, or a part of them. Its lower axis counts steps and its upper one costs, or the
    other way round. A drag selects steps, the wheel and W A S D zoom and move, and a double click shows all;
    Ctrl+wheel and keys zoom the vertical ``scale``. The pointer's line appears in all such plots. A subclass
    adds the items of that line, the playhead and the selection, in its own drawing order."""

    # The base class sends events before ``__init__`` is done.
    _ready = False
    _span: StepSpan
    _scale: Scale

    def __init__(self, models: ViewModels, scale: Scale, *, note: str = "") -> None:
        ticks = {
            "bottom": TickAxis("bottom", lambda *ends: self._ticks_of(*ends, below=True)),
            "top": TickAxis("top", lambda *ends: self._ticks_of(*ends, below=False)),
        }
        super().__init__(axisItems=ticks, enableMenu=False)
        self._exploration, self._selection, self._scale = models.exploration, models.selection, scale
        self._span, self._playhead, self._theme = models.span, models.playhead, models.theme
        self._pressed_at, self._dragging = QPointF(), False
        self._highest = 1.0  # the top of the whole scale, in the plot's unit
        self._hover = pg.InfiniteLine(angle=90)
        self._hover.hide()
        self._chosen = pg.LinearRegionItem(movable=False)
        self._chosen.hide()
        self._case, self._line = pg.InfiniteLine(angle=90), pg.InfiniteLine(angle=90)
        self._pens = ScreenPens(self)
        self.setMouseTracking(True)
        fix_plot(self, _LEFT)  # the same left margin in all plots, so that their steps are aligned
        self.getPlotItem().showAxis("top")
        without_title(self.getPlotItem())
        self.legend = CurveLegend(self._theme, self.legend_entries, note)
        self.legend.stand_above(self.getPlotItem())
        self._later = later(self, 0, self._draw)  # once, however often the wheel turns
        self._theme.changed.connect(self._color)
        self._span.changed.connect(self._later.start)
        self._span.chosen_changed.connect(self._on_chosen)
        self._span.pointed_changed.connect(self._on_pointed)
        self._playhead.moved.connect(self._on_step)
        self._selection.changed.connect(self._on_selection)
        self._ready = True

    def event(self, event: QEvent) -> bool:
        if self._ready and is_own_key(event, self._span):
            event.accept()
            return True
        return bool(super().event(event))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        span, scale, key, modifiers = self._span, self._scale, Qt.Key(event.key()), event.modifiers()
        closer = {Qt.Key.Key_W: CLOSER, Qt.Key.Key_S: 1 / CLOSER}.get(key)
        aside = {Qt.Key.Key_A: -_MOVE, Qt.Key.Key_D: _MOVE}.get(key)
        higher = {Qt.Key.Key_Up: _MOVE, Qt.Key.Key_Down: -_MOVE}.get(key)
        plain = modifiers == _NONE
        if plain and closer:
            span.zoom(closer)
        elif plain and aside:
            span.move(aside)
        elif plain and key == Qt.Key.Key_Home:
            span.show_whole()
        elif plain and key == Qt.Key.Key_Escape:
            span.choose(None)
        elif closer and modifiers == _SHIFT:
            span.zoom_heights(scale, closer)
        elif higher and modifiers & ~Qt.KeyboardModifier.KeypadModifier == _NONE:
            span.move_heights(scale, higher)
        else:
            super().keyPressEvent(event)

    def _color(self) -> None:
        theme = self._theme
        color_plot(self, theme)
        self._show_focus(self.hasFocus())
        self._chosen.setBrush(theme.color("accent", 38))
        for drawn, role, width in (
            (self._hover, "muted", 1.0),
            (self._case, "playhead_case", 5.0),
            (self._line, "playhead", 3.0),
            *((line, "accent", 1.0) for line in self._chosen.lines),
        ):
            self._pens.set(drawn, pg.mkPen(theme.color(role), width=width))

    def _show_heights(self, highest: float) -> None:
        self._highest = highest
        low, high = self._span.heights[self._scale]
        self.setYRange(low * highest, high * highest, padding=0)

    def _on_step(self, step: int) -> None:
        place = self._place_of(step)
        self._case.setPos(place)
        self._line.setPos(place)

    def _on_selection(self, *_: object) -> None:
        raise NotImplementedError

    def _on_pointed(self) -> None:
        step = self._span.pointed[0]
        self._hover.setVisible(step >= 0)
        if step >= 0:
            self._hover.setPos(self._place_of(step))

    def _on_chosen(self) -> None:
        chosen, axis = self._span.chosen, self._span.axis
        self._chosen.setVisible(chosen is not None)
        if chosen is not None and axis is not None:
            self._chosen.setRegion(axis.place((chosen[0], chosen[1] + 1)))

    def show_cursor(self, visible: bool) -> None:
        for line in (self._case, self._line):
            line.setVisible(visible)

    def draw_as_lines(self, font: QFont) -> None:
        """For print: draw marks as vectors instead of cached pixels, and all texts in ``font``."""
        for side in ("left", "bottom", "top"):
            axis = self.getPlotItem().getAxis(side)
            axis.setStyle(tickFont=font)
            axis.label.setFont(font)
        for item in self.scene().items():
            if isinstance(item, pg.GraphicsItem) and hasattr(item, "setExportMode"):
                item.setExportMode(True, {"antialias": True})
            if isinstance(item, pg.TextItem):
                item.setFont(font)

    def _draw(self) -> None:
        raise NotImplementedError

    def legend_entries(self) -> list[Entry]:
        raise NotImplementedError

    def _words_at(self, position: QPointF) -> str:
        raise NotImplementedError

    def _name_steps(self, axis: StepAxis) -> None:
        color = self._theme.now.tokens["muted"]
        below, above = ("step", axis.cost_word)[:: -1 if axis.by_cost else 1]
        for side, words in (("bottom", below), ("top", above if axis.costs[-1] > 0 else "")):
            ticks = self.getPlotItem().getAxis(side)
            ticks.setLabel(words, color=color)  # the plot's own way would also show the axis
            ticks.picture = None  # its ticks may be others though its ends are the same
            ticks.update()
            ticks.resizeEvent()

    def _ticks_of(self, low: float, high: float, most: int, *, below: bool) -> list[tuple[float, str]]:
        axis = self._span.axis
        if axis is None:
            return []
        return (axis.cost_ticks if axis.by_cost is below else axis.step_ticks)(low, high, most)

    def _place_of(self, step: int) -> float:
        axis = self._span.axis
        return float(step) if axis is None else float(axis.place(step + 0.5))

    def is_inside(self, position: QPointF) -> bool:
        area = self.getPlotItem().vb.sceneBoundingRect()
        return bool(area.contains(self.mapToScene(position.toPoint())))

    def step_at(self, position: QPointF) -> int:
        """Return the step at a place in the view; -1 without a schedule."""
        axis = self._span.axis
        return -1 if axis is None else axis.step_at(self._plot_place(position).x())

    def _plot_place(self, position: QPointF) -> QPointF:
        place: QPointF = self.getPlotItem().vb.mapSceneToView(self.mapToScene(position.toPoint()))
        return place

    def _pointed_at(self, position: QPointF) -> tuple[int, int]:
        """Return the step at a place, and the op whose row it is; -1 if there are no rows."""
        return self.step_at(position), -1

    def _go_to(self, position: QPointF) -> None:
        self._playhead.seek(self._pointed_at(position)[0])

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed_at, self._dragging = event.position(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            moved = (event.position() - self._pressed_at).manhattanLength()
            self._dragging = self._dragging or moved >= QApplication.startDragDistance()
            if self._dragging and self._span.axis is not None:
                self._span.choose((self.step_at(self._pressed_at), self.step_at(event.position())))
        inside = self._span.axis is not None and self.is_inside(event.position())
        self._span.point_at(*(self._pointed_at(event.position()) if inside else ()))
        QToolTip.showText(event.globalPosition().toPoint(), self._words_at(event.position()), self)

    def viewportEvent(self, event: QEvent) -> bool:
        # The base class would clear the words that are shown where the pointer rests.
        return event.type() == QEvent.Type.ToolTip or bool(super().viewportEvent(event))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and not self._dragging and self._span.axis is not None:
            self._go_to(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self._dragging = True  # its release goes nowhere
        self._span.show_whole()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._show_focus(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._show_focus(False)

    def _show_focus(self, on: bool) -> None:
        pen = pg.mkPen(self._theme.color("accent"), width=2 * self.devicePixelRatioF()) if on else None
        self.getPlotItem().vb.setBorder(pen)

    def leaveEvent(self, event: QEvent) -> None:
        self._span.point_at()
        super().leaveEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        axis, (sideways, factor) = self._span.axis, turned(event)
        if axis is None:
            return
        event.accept()
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._zoom_heights(event.position(), factor)
            return
        if sideways:
            self._span.move(sideways)
        if factor != 1:
            low, high = axis.place((self._span.begin, self._span.end))
            ends = around(min(max(self._plot_place(event.position()).x(), low), high), low, high, factor)
            self._span.show(*(axis.position(end) for end in ends))

    def _zoom_heights(self, position: QPointF, factor: float) -> None:
        low, high = self._span.heights[self._scale]
        at = self._plot_place(position).y() / self._highest
        self._span.show_heights(self._scale, *around(min(max(at, low), high), low, high, factor))


class BandedPlot(PointedPlot):
    """A plot with bands of buffers. A click also selects the value of a band."""

    def __init__(self, models: ViewModels, scale: Scale, *, blocks: bool = False, note: str = "") -> None:
        super().__init__(models, scale, note=note)
        self.bands = BandsItem(self._theme, blocks=blocks)

    def _on_selection(self, *_: object) -> None:
        self.bands.select(self._selection.op, self._selection.value)

    @property
    def answering(self) -> Bands | PlacedBlocks | None:
        """The bands that are drawn, if they are those of the schedule on screen."""
        raise NotImplementedError

    def _draw_bands(self, bands: Bands | PlacedBlocks, axis: StepAxis, highest: float, unit: int) -> None:
        area, ratio = self.getPlotItem().vb.rect(), self.devicePixelRatioF()
        size = round(ratio * area.width()), round(ratio * area.height())
        low, high = (highest * share for share in self._span.heights[self._scale])
        self.bands.draw(bands, axis, (self._span.begin, self._span.end), (low, high), size, unit)

    def owner_at(self, position: QPointF) -> int:
        """Return which band is at a place in the view; NOTHING for none."""
        place = self._plot_place(position)
        return self.bands.owner_at(place.x(), place.y())

    def _pointed_at(self, position: QPointF) -> tuple[int, int]:
        bands = self.answering
        return self.step_at(position), -1 if bands is None else bands.op_of(self.owner_at(position))

    def _go_to(self, position: QPointF) -> None:
        super()._go_to(position)
        bands, owner = self.answering, self.owner_at(position)
        if bands is not None and bands.op_of(owner) >= 0:
            self._selection.select(bands.op_of(owner), bands.value_of(owner))


_HEIGHT = 20
_PER_TICK = 54  # pixels
_LEAST, _FINER = 3, (1, 1.5, 2, 3, 4)  # the fewest ticks, and how many times as many to try for that
_BETWEEN = 8  # pixels, at least, between the words of two ticks


class TickAxis(pg.AxisItem):  # type: ignore[misc]
    """A horizontal axis whose ticks come from ``ticks_of(low, high, most)``. Its name stands left of it,
    under or over the vertical axis, where it takes no height."""

    def __init__(self, side: str, ticks_of: Callable[[float, float, int], list[Tick]]) -> None:
        super().__init__(side)
        self._ticks_of = ticks_of
        self._words: dict[float, str] = {}
        self.setStyle(tickLength=-4)
        self.setHeight(_HEIGHT)
        self.enableAutoSIPrefix(False)

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        per_unit = size / (high - low) if high > low else 0.0
        self._words, most = {}, 0
        # A single tick shows no scale: ask for more if too few round numbers are visible.
        for times in _FINER:
            ticks = self._ticks_of(low, high, max(1, int(times * size / _PER_TICK)))
            found = dict(_with_room(ticks, per_unit))
            seen = sum(_is_inside(tick, low, high, per_unit) for tick in found.items())
            if not self._words or seen > most:
                self._words, most = found, seen
            if most >= _LEAST:
                break
        return [(1.0, list(self._words))]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        return [self._words.get(value, "") for value in values]

    def resizeEvent(self, event: QResizeEvent | None = None) -> None:
        words: Any = self.label
        if words is not None:
            box = words.boundingRect()
            words.setPos(-box.width() - 2, 0 if self.orientation == "bottom" else _HEIGHT - box.height())


def _is_inside(tick: Tick, low: float, high: float, per_unit: float) -> bool:
    place, words = tick
    half = QFontMetricsF(QGuiApplication.font()).horizontalAdvance(words) / 2
    return low * per_unit <= place * per_unit - half and place * per_unit + half <= high * per_unit


def _with_room(ticks: Iterable[Tick], per_unit: float) -> Iterator[Tick]:
    metrics, free = QFontMetricsF(QGuiApplication.font()), -math.inf
    for place, words in ticks:
        middle, half = place * per_unit, metrics.horizontalAdvance(words) / 2
        if middle - half >= free:
            free = middle + half + _BETWEEN
            yield place, words


CLOSER = 1 / 1.3  # of the steps on screen, for one turn of the wheel or one key
_NOTCH = 120.0  # of the wheel, in eighths of a degree
_MOVE = 0.2  # of what is on screen
_NONE, _SHIFT = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier
_OWN = (Qt.Key.Key_W, Qt.Key.Key_S, Qt.Key.Key_A, Qt.Key.Key_D, Qt.Key.Key_Home)


def is_own_key(event: QEvent, span: StepSpan) -> bool:
    """Whether a focused view takes this key for itself, before the window's command with the same key."""
    if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
        return False
    if event.modifiers() != _NONE:
        return False
    return event.key() in _OWN or (event.key() == Qt.Key.Key_Escape and span.chosen is not None)


def turned(event: QWheelEvent) -> tuple[float, float]:
    """How far the wheel goes sideways, as a share of what is on screen, and its zoom factor."""
    x, y = event.angleDelta().x() / _NOTCH, event.angleDelta().y() / _NOTCH
    if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
        x, y = x or y, 0.0
    return -_MOVE * x, CLOSER**y


def around(at: float, begin: float, end: float, factor: float) -> tuple[float, float]:
    """Return a stretch ``factor`` times as long, with ``at`` where it was."""
    return at - factor * (at - begin), at + factor * (end - at)
