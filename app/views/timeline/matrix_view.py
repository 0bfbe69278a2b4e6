from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QImage,
    QMouseEvent,
    QPaintEngine,
    QPainter,
    QPaintEvent,
    QPen,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app.models.span import StepSpan
from app.presenters import matrix_image as images
from app.presenters.pointer_words import cell_words, compared_words, crowd_words
from app.presenters.view_tables import ViewTable, computed_table, held_table
from app.state.knowledge import ListedSchedule
from app.theme import Theme
from app.views.common.painting import across, down, sized
from app.views.common.view_models import ViewModels
from app.views.timeline.plot_legend import Entry, legend_lines, legend_metrics, paint_legend
from app.views.timeline.pointed_plot import SpanKeys, around, turned
from app.workers.background import on

_LATER = 105  # of 255: how far the stages to come fade; they must stay readable, above all in the dark theme
_GRID = 9.0  # pixels of a cell from which on lines separate them
_LEFT, _TOP, _BELOW, _RIGHT = 24.0, 26.0, 22.0, 2.0  # pixels around the matrix, without its legend
_LEGEND_LINE = 16.0
_PLAYHEAD = 3.0  # pixels, at least half the width of its line
_WHAT = {"R": "computed in stage", "S": "held into stage"}


class MatrixView(SpanKeys, QWidget):
    """Shows R or S (``title``): rows are stages, columns are ops. Columns are in the order of first
    computation. A click or a drag sets the playhead and the selection, the wheel zooms to cells, a drag with
    Shift selects stages, and a double click shows all. While two schedules are compared, the colours say
    which of them has a cell."""

    _span: StepSpan

    def __init__(self, title: str, models: ViewModels) -> None:
        super().__init__()
        self._title, self._exploration, self._comparison = title, models.exploration, models.comparison
        self._playhead, self._selection = models.playhead, models.selection
        self._span, self._theme = models.span, models.theme
        self._drawn: tuple[_Wanted, QImage] | None = None
        self._lines: tuple[tuple[int, bool], int] | None = None
        self._with_playhead = True
        self.sharpness = 1.0  # pixels of the picture to one of the screen; a printed figure has more
        self._under: QPointF | None = None
        self._pressed_at: QPointF | None = None
        self._playhead_at: float | None = None  # the height at which it was painted last
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.setMinimumWidth(130)
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # the panel below need not be painted
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(f"Matrix {title}: {_WHAT[title]}")
        on(self._update, self._exploration.shown_changed, self._comparison.pinned, self._selection.changed)
        on(self._update, self._span.changed, self._span.chosen_changed)
        self._playhead.moved.connect(self._on_step)

    def view_table(self) -> ViewTable | None:
        shown, table = self._exploration.shown, computed_table if self._title == "R" else held_table
        return None if shown is None else table(shown)

    def _update(self, *_: object) -> None:
        self.update()

    def _on_step(self, _: int) -> None:
        shown, before = self._exploration.shown, self._playhead_at
        if shown is None or before is None:
            self.update()
            return
        now, area = self._stage_place(shown), self._area()
        low, high = sorted((before, now))
        strip = QRectF(area.left(), low, area.width(), high - low).adjusted(0, -_PLAYHEAD, 0, _PLAYHEAD)
        if now != before:
            self.update((strip & area).toAlignedRect())

    def sizeHint(self) -> QSize:
        return QSize(250, 250)

    def show_cursor(self, visible: bool) -> None:
        self._with_playhead = visible
        self.update()

    def _area(self) -> QRectF:
        below = _BELOW + _LEGEND_LINE * self._legend_height()
        side = max(10.0, min(self.width() - _LEFT - _RIGHT, self.height() - _TOP - below))
        return QRectF(_LEFT, _TOP, side, side)

    def _cells(self, n: int) -> images.Cells:
        (top, bottom), (left, right) = self._span.rows, self._span.columns
        row, column = min(math.floor(top), n - 1), min(math.floor(left), n - 1)
        return images.Cells(row, max(row + 1, math.ceil(bottom)), column, max(column + 1, math.ceil(right)))

    def _place(self, row: float, column: float) -> QPointF:
        area, (top, bottom), (left, right) = self._area(), self._span.rows, self._span.columns
        return QPointF(
            area.left() + (column - left) / max(1e-9, right - left) * area.width(),
            area.top() + (row - top) / max(1e-9, bottom - top) * area.height(),
        )

    def _cell(self, position: QPointF) -> tuple[float, float]:
        area, (top, bottom), (left, right) = self._area(), self._span.rows, self._span.columns
        down = min(1.0, max(0.0, (position.y() - area.top()) / area.height()))
        across = min(1.0, max(0.0, (position.x() - area.left()) / area.width()))
        return top + down * (bottom - top), left + across * (right - left)

    def _picture(self, shown: ListedSchedule, cells: images.Cells, place: QRectF) -> QImage:
        width, height = max(1, round(place.width())), max(1, round(place.height()))
        ratio = self.devicePixelRatioF() * self.sharpness
        wanted = _Wanted(shown, self._comparison.other, cells, width, height, ratio, self._theme.now)
        if self._drawn is None or self._drawn[0] != wanted:
            if wanted.other is not None:
                made = _compared_picture(wanted, wanted.other, self._title)
            else:
                made = _computed_picture(wanted) if self._title == "R" else _held_picture(wanted)
            if self.sharpness > 1:  # cells with sharp edges, where a printer would blur them
                made = made.scaled(wanted.columns, wanted.rows)
            self._drawn = wanted, made
        return self._drawn[1]

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        area, shown = self._area(), self._exploration.shown
        if painter.paintEngine().type() == QPaintEngine.Type.Raster:
            painter.fillRect(event.rect(), self._theme.color("panel"))
        if shown is not None:
            self._paint_cells(painter, area, shown)
            self._playhead_at = self._stage_place(shown)
        if not area.toAlignedRect().contains(event.rect()):
            self._paint_around(painter, area)
        role, width = ("accent", 2) if self.hasFocus() else ("border", 1)  # keys go to it, or not
        painter.setPen(QPen(self._theme.color(role), width))
        painter.drawRect(area)
        painter.end()

    def _paint_cells(self, painter: QPainter, area: QRectF, shown: ListedSchedule) -> None:
        cells = self._cells(shown.matrices.n)
        corners = self._place(cells.top, cells.left), self._place(cells.bottom, cells.right)
        painter.save()
        painter.setClipRect(area)
        painter.drawImage(QRectF(*corners), self._picture(shown, cells, QRectF(*corners)))
        self._paint_grid(painter, area, cells)
        self._paint_cursors(painter, area, shown)
        painter.restore()

    def _paint_around(self, painter: QPainter, area: QRectF) -> None:
        self._paint_words(painter, area)
        if self._exploration.shown is None:
            return
        foot = QRectF(0, area.bottom() + 18, self.width(), _LEGEND_LINE)
        for line in self.legend_lines():
            paint_legend(painter, line, foot, self._theme.now)
            foot.translate(0, _LEGEND_LINE)

    def _paint_words(self, painter: QPainter, area: QRectF) -> None:
        painter.setFont(sized(painter.font(), 12))
        painter.setPen(self._theme.color("text"))
        painter.drawText(QPointF(0, 14), self._title)
        painter.setPen(self._theme.color("muted"))
        painter.drawText(QPointF(14, 14), _WHAT[self._title])
        painter.setFont(sized(painter.font(), 11))
        painter.drawText(QPointF(area.left(), area.bottom() + 14), f"operation {self._numbers()}→")
        painter.save()
        painter.translate(15, area.center().y() + 22)
        painter.rotate(-90)
        painter.drawText(QPointF(0, 0), "← stage")
        painter.restore()

    def _numbers(self) -> str:
        shown, (left, right) = self._exploration.shown, self._span.columns
        if shown is None or (left, right) == (0.0, float(shown.matrices.n)):
            return ""
        return f"{math.floor(left) + 1:,} to {math.ceil(right):,} "

    def _legend(self, title: str) -> list[Entry]:
        if self._comparison.other is not None:
            return []  # the bar above has it
        theme = self._theme
        if title == "R":
            return [Entry(role, theme.color(role)) for role in ("recomputed", "forward", "backward")]
        light = theme.color("held", 110)
        return [
            Entry("for backward", theme.color("held")),
            Entry("for later ops", light, edge=theme.color("held")),
        ]

    def legend_lines(self) -> list[list[Entry]]:
        return self._in_lines(self._legend(self._title))

    def _in_lines(self, entries: list[Entry]) -> list[list[Entry]]:
        return legend_lines(entries, legend_metrics(self.font()), self.width())

    def _legend_height(self) -> int:
        key = self.width(), self._comparison.other is None
        if self._lines is None or self._lines[0] != key:
            self._lines = key, max(1, *(len(self._in_lines(self._legend(title))) for title in _WHAT))
        return self._lines[1]

    def _paint_grid(self, painter: QPainter, area: QRectF, cells: images.Cells) -> None:
        step = self._place(1, 1) - self._place(0, 0)
        painter.setPen(QPen(self._theme.color("border"), 1))
        if step.x() >= _GRID:
            for column in range(cells.left + 1, cells.right):
                down(painter, area, self._place(0, column).x())
        if step.y() >= _GRID:
            for row in range(cells.top + 1, cells.bottom):
                across(painter, area, self._place(row, 0).y())

    def _paint_cursors(self, painter: QPainter, area: QRectF, shown: ListedSchedule) -> None:
        if self._with_playhead:
            self._paint_playhead(painter, area, shown)
        if self._span.chosen is not None:
            self._paint_chosen(painter, area, self._span.chosen)
        if self._selection.op >= 0:
            columns = np.flatnonzero(shown.matrices.order == self._selection.op)
            if len(columns):
                x = self._place(0, int(columns[0]) + 0.5).x()
                for role, width in (("panel", 6), ("accent", 2)):  # the cells may be as blue
                    painter.setPen(QPen(self._theme.color(role), width))
                    down(painter, area, x)
        if self._under is not None:
            painter.setPen(QPen(self._theme.color("freed"), 1))
            across(painter, area, self._under.y())
            down(painter, area, self._under.x())

    def _paint_playhead(self, painter: QPainter, area: QRectF, shown: ListedSchedule) -> None:
        y = self._stage_place(shown)
        fade = self._theme.color("panel", _LATER)
        top = max(area.top(), y)
        painter.fillRect(QRectF(area.left(), top, area.width(), area.bottom() - top), fade)
        for role, width in (("playhead_case", 4), ("playhead", 2)):
            painter.setPen(QPen(self._theme.color(role), width))
            across(painter, area, y)

    def _stage_place(self, shown: ListedSchedule) -> float:
        stages = shown.matrices.stage_of_step
        return self._place(int(stages[min(self._playhead.step, len(stages) - 1)]) + 0.5, 0).y()

    def _paint_chosen(self, painter: QPainter, area: QRectF, chosen: tuple[int, int]) -> None:
        above, below = (self._place(self._span.stage(p), 0).y() for p in (chosen[0], chosen[1] + 1))
        rows = QRectF(area.left(), above, area.width(), below - above)
        painter.fillRect(rows, self._theme.color("accent", 38))
        painter.setPen(QPen(self._theme.color("accent"), 1))
        for y in (above, below):
            across(painter, area, y)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self._pressed_at = event.position()
        else:
            self._go(event, select=True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            if self._pressed_at is not None:
                self._choose(self._pressed_at, event.position())
            else:
                self._go(event, select=False)
        self._point_at(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._pressed_at = None

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self._span.show_whole()

    def _go(self, event: QMouseEvent, *, select: bool) -> None:
        shown = self._exploration.shown
        if shown is None:
            return
        stage, column = (min(shown.matrices.n - 1, int(at)) for at in self._cell(event.position()))
        steps = np.flatnonzero(shown.matrices.stage_of_step == stage)
        if len(steps):
            self._playhead.seek(int(steps[-1]))
        if select and self._area().contains(event.position()):
            self._selection.select(int(shown.matrices.order[column]))

    def _choose(self, one: QPointF, other: QPointF) -> None:
        first, last = sorted(int(self._cell(at)[0]) for at in (one, other))
        begin, end = self._span.position(first), self._span.position(last + 1)
        self._span.choose((int(begin), int(end) - 1))

    def _point_at(self, event: QMouseEvent) -> None:
        shown, inside = self._exploration.shown, self._area().contains(event.position())
        under = event.position() if inside and shown is not None else None
        if under != self._under:
            self._under = under
            self.update()
        words = ""
        if shown is not None and under is not None:
            words = self._words_at(shown, under)
        elif event.position().y() > self._area().bottom():
            words = "\n".join(entry.words for entry in self._legend(self._title))
        QToolTip.showText(event.globalPosition().toPoint(), words, self)

    def _words_at(self, shown: ListedSchedule, place: QPointF) -> str:
        n, other = shown.matrices.n, self._comparison.other
        stage, column = (min(n - 1, int(at)) for at in self._cell(place))
        lines = cell_words(shown, self._title, stage, column)
        if other is not None:
            lines += compared_words(shown, other, self._title, stage, column)
        size = self._place(1, 1) - self._place(0, 0)
        rows, columns = (max(1, round(1 / side)) for side in (size.y(), size.x()))
        if rows * columns > 1 and other is None:
            lines += crowd_words(shown, self._title, (stage, stage + rows), (column, column + columns))
        return "\n".join(lines)

    def leaveEvent(self, event: QEvent) -> None:
        self._under = None
        self.update()
        super().leaveEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.accept()
        sideways, factor = turned(event)
        row, column = self._cell(event.position())
        rows, columns = self._span.rows, self._span.columns
        by = sideways * (columns[1] - columns[0])
        columns = columns[0] + by, columns[1] + by
        if factor != 1:
            rows, columns = around(row, *rows, factor), around(column, *columns, factor)
        self._span.show_cells(rows, columns)


_ROLES = ("panel", "forward", "backward", "recomputed")
_ALPHA = (0, 255, 255, 255)
# Of a comparison: neither, both, only A, only B, and the stripes of the last two.
_COMPARED_ROLES = ("panel", "freed", "forward", "backward", "forward", "backward")
_COMPARED_ALPHA = (0, 120, 255, 255, 90, 90)
_SHADES = 256
_THIN = 3  # pixels; smaller cells of R are drawn larger


class _Wanted(NamedTuple):
    """A picture to draw. ``width``, ``height``: in 1/96 inch. ``ratio``: screen pixels in each of these."""

    shown: ListedSchedule
    other: ListedSchedule | None
    cells: images.Cells
    width: int
    height: int
    ratio: float
    theme: Theme

    @property
    def rows(self) -> int:
        return round(self.ratio * self.height)

    @property
    def columns(self) -> int:
        return round(self.ratio * self.width)

    @property
    def is_thin(self) -> bool:
        return self.cells.bottom - self.cells.top > self.height / _THIN

    def colors(self, roles: Sequence[str], alphas: Sequence[int]) -> list[int]:
        return [self.theme.color(role, a).rgba() for role, a in zip(roles, alphas, strict=True)]

    def thick(self, small: NDArray[np.uint8], least: int) -> NDArray[np.uint8]:
        """Enlarge an image of 96 dots an inch; its thin cells are as thick on a dense screen."""
        large = images.thicken(images.enlarge(small, self.height, self.width), least)
        return images.enlarge(large, self.rows, self.columns)


def _computed_picture(of: _Wanted) -> QImage:
    small = images.computed_image(of.shown.graph, of.shown.matrices, max(of.width, of.height), of.cells)
    made = of.thick(small, images.RECOMPUTED) if of.is_thin else small
    return _indexed(made, of.colors(_ROLES, _ALPHA))


def _held_picture(of: _Wanted) -> QImage:
    """Draw a pixel that stands for many cells the darker, the more of them are held."""
    strength = images.held_strength(of.shown.graph, of.shown.matrices, of.cells, of.rows, of.columns)
    shades = np.rint(strength * (_SHADES - 1)).astype(np.uint8)
    return _indexed(shades, of.colors(["held"] * _SHADES, range(_SHADES)))


def _compared_picture(of: _Wanted, other: ListedSchedule, which: str) -> QImage:
    thin = which == "R" and of.is_thin
    most = max(of.width, of.height) if thin else max(of.rows, of.columns)
    small = images.compared_image(of.shown.matrices, other.matrices, which, most, of.cells)
    made = of.thick(small, images.ONLY_A) if thin else images.hatched(small, of.rows, of.columns)
    return _indexed(made, of.colors(_COMPARED_ROLES, _COMPARED_ALPHA))


def _indexed(image: NDArray[np.uint8], colors: list[int]) -> QImage:
    height, width = image.shape
    padded = np.zeros((height, -(-width // 4) * 4), np.uint8)
    padded[:, :width] = image
    made = QImage(padded.data, width, height, padded.shape[1], QImage.Format.Format_Indexed8)
    made.setColorTable(colors)
    return made.copy()
