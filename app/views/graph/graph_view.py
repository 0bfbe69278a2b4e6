from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPaintEngine,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolTip, QWidget

from app.actions import action
from app.layout.folded import MOST_BOXES, Box, Folding, GraphLayout, GroupFrame, Opened
from app.layout.rows import LEGIBLE, Rows, most_columns
from app.models.undo import UndoCommands
from app.presenters.memory_curve import largest_op, live_bytes, locked_shares, repeats_and_first
from app.presenters.view_tables import ViewTable, ops_table
from app.presenters.wording import NameCut, short_name
from app.state.constraint_targets import ConstraintKind, ConstraintTarget, layer_target, op_target
from app.views.common.painting import ink, smooth
from app.views.common.view_models import ViewModels
from app.views.graph.graph_legend import OVERVIEW_WIDTH, paint_legend, paint_overview
from app.views.graph.kept_parts import KeptParts, PartPlace, StillPicture
from app.views.graph.paint import GraphPainter, Part, PlayheadState
from checkmate.units import format_bytes, plural

_LEGEND = 34.0
_RING = 4.0  # margin around a box that is scrolled into view
_MOVES = {  # along the row, and down
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}
_CLOSE = 1.4  # the least scale after a search has found a box
_DEEPEST = 4  # the most nested frames that are opened without being asked
_ZOOM_STRIDE = 1.25  # the factor of one click on a zoom button
_OPENS, _OPENED_AT = 2.0, 1.25  # zooming in opens a box from this scale on; the scale afterwards
_FOLDS, _FOLDED_AT = 0.8, 1.5  # zooming out folds it from this scale on; the scale afterwards


class GraphView(QWidget):
    """Shows the folded graph, and pans, zooms, selects, opens and folds it. Drag pans, the wheel zooms at the
    pointer. A click selects, a double-click opens or folds a group, and a right-click opens the menu of
    constraints. Signal ``changed``: the zoom or the open groups are others."""

    changed = Signal()

    def __init__(self, models: ViewModels, what_ifs: UndoCommands | None) -> None:
        super().__init__()
        self._what_ifs, self._theme = what_ifs, models.theme
        exploration = self._exploration = models.exploration
        self._playhead, self._selection, self._span = models.playhead, models.selection, models.span
        self._folding: Folding | None = None
        self._layout: GraphLayout | None = None
        self._names, self._longest = NameCut(), 0.0
        self._opened: Opened = frozenset()
        self._chosen = False  # the user has opened or closed groups
        self._pointed = -1  # the box of the op under the pointer
        self._seen = False  # the open groups were shown once, so they are not changed automatically
        self._zoomed = list[Opened]()  # the groups that zooming opened each time
        self._rows = Rows(1, 1, 0)
        self._scale, self._offset = 1.0, QPointF(0, 0)
        self._fitted = True
        self._still, self._legend = StillPicture(), StillPicture()
        self._edges, self._boxes = KeptParts(), KeptParts()
        self._drag: QPointF | None = None
        self._moved = False
        self._live = self._repeats = self._locked = np.zeros(0)
        self._first = np.zeros(0, np.int64)
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # the panel below need not be painted
        self.setMinimumHeight(180)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Training graph")
        exploration.graph_changed.connect(self._on_graph)
        exploration.shown_changed.connect(self._on_shown)
        exploration.constraints_changed.connect(self._on_constraints)
        self._playhead.moved.connect(self._on_step)
        self._selection.changed.connect(self._on_selection)
        self._span.pointed_changed.connect(self._on_pointed)

    def view_table(self) -> ViewTable | None:
        shown = self._exploration.shown
        return None if shown is None else ops_table(shown)

    @property
    def zoom_percent(self) -> int:
        return round(100 * self._scale)

    @property
    def layout_shown(self) -> GraphLayout | None:
        return self._layout

    @property
    def _room(self) -> tuple[float, float]:
        return float(self.width()), self.height() - _LEGEND

    @property
    def _hides(self) -> bool:
        """Whether a part of the graph is out of view."""
        area = self._painter().area
        shown = QRectF(area.topLeft() * self._scale + self._offset, area.size() * self._scale)
        return not QRectF(0, 0, *self._room).adjusted(-1, -1, 1, 1).contains(shown)

    def fit(self) -> None:
        if self._layout is None:
            return
        layout = self._layout
        self._rows = Rows.fitting(layout.columns, layout.frames_deep, self._room, self._longest)
        room, (width, height) = self._room, self._rows.size
        self._scale = self._rows.scale(room)
        left = (room[0] - width * self._scale) / 2
        spare = max(0.0, room[1] - height * self._scale) / 2
        self._offset = QPointF(left, spare + self._rows.above * self._scale)
        self._fitted = True
        self.changed.emit()
        self.update()

    def zoom(self, factor: float, at: QPointF | None = None) -> None:
        """Zoom at ``at``, else at the selected box, or the one in the middle. Zooming in far opens the box
        there, and zooming out folds it again."""
        if self._layout is None:
            return
        at = self._usual_place() if at is None else at
        scale = min(4.0, max(0.05, self._scale * factor))
        self._offset = at - (at - self._offset) * (scale / self._scale)
        self._scale, self._fitted = scale, False
        self.changed.emit()
        self.update()
        if factor > 1 and scale >= _OPENS:
            self._open_at(at)
        elif factor < 1 and scale <= _FOLDS:
            self._fold_at(at)

    def _usual_place(self) -> QPointF:
        assert self._layout is not None
        width, height = self._room
        at, selected = QPointF(width / 2, height / 2), self._selected()
        box = self._nearest(at) if selected < 0 else self._layout.boxes[selected]
        return self._painter().rect(box).center() * self._scale + self._offset

    def zoom_in(self) -> None:
        self.zoom(_ZOOM_STRIDE)

    def zoom_out(self) -> None:
        self.zoom(1 / _ZOOM_STRIDE)

    def zoom_reset(self) -> None:
        self.zoom(100 / max(1, self.zoom_percent))

    def zoom_to(self, op: int) -> None:
        if self._folding is None or self._layout is None or not 0 <= op < len(self._layout.box_of):
            return
        around = self._folding.groups_around(op)
        if not around <= self._opened:
            self._chosen = True
            self._lay_out(self._opened | around)
        width, height = self._room
        self._bring(op, QPointF(width / 2, height / 2), max(self._scale, _CLOSE))

    def _bring(self, op: int, at: QPointF, scale: float) -> None:
        assert self._layout is not None
        box = self._layout.boxes[self._layout.box_of[op]]
        self._scale, self._fitted = scale, False
        self._offset = at - self._painter().rect(box).center() * scale
        self.changed.emit()
        self.update()

    def _open_at(self, at: QPointF) -> None:
        """Open the box at ``at``, and put its selected or middle op there."""
        box, folding = self._box_at(at), self._folding
        if folding is None or box is None or not box.can_open:
            return
        first, ops = 0 if box.copies > 1 else len(box.ops) // 2, box.ops
        op = self._selection.op if self._selection.op in ops else ops[first]
        opened = folding.opening(self._opened, box, op, every=False)
        self._zoomed.append(opened - self._opened)
        self._chosen = True
        self._lay_out(opened)
        self._bring(op, at, _OPENED_AT)

    def _fold_at(self, at: QPointF) -> None:
        """Fold what zooming opened last, and put the box nearest to ``at`` there."""
        while self._zoomed and self._layout is not None:
            groups = self._zoomed.pop()
            if groups <= self._opened:
                op = self._nearest(at).ops[0]
                self._lay_out(self._opened - groups)
                self._bring(op, at, _FOLDED_AT)
                return

    def _on_selection(self, op: int) -> None:
        selected = self._selected()
        if selected >= 0 and self._layout is not None:
            shape = self._painter().rect(self._layout.boxes[selected]).adjusted(-_RING, -_RING, _RING, _RING)
            corner = shape.topLeft() * self._scale + self._offset
            size = shape.size() * self._scale
            right, bottom = self.width() - size.width(), self.height() - _LEGEND - size.height()
            inside = QPointF(max(0.0, min(right, corner.x())), max(0.0, min(bottom, corner.y())))
            if inside != corner:
                self._offset, self._fitted = self._offset + inside - corner, False
        self.update()

    def _on_pointed(self) -> None:
        before, self._pointed = self._pointed, self._box_of(self._span.pointed_op)
        if self._pointed != before:
            self.update()

    def _on_graph(self) -> None:
        drawn, before = self._exploration.unconstrained, self._folding
        self._folding = None if drawn is None else drawn.folding
        if before is not None and self._folding is not None and before.root == self._folding.root:
            # The same layers, now with measured costs: the view stays where it is.
            self._lay_out(self._opened)
            return
        self._chosen = self._seen = False
        self._zoomed.clear()
        self._open_what_fits()

    def _open_what_fits(self) -> None:
        if self._folding is None:
            return
        for depth in range(1, _DEEPEST):  # frames inside each other take room, so fewer boxes fit
            most = most_columns(MOST_BOXES // 2, depth, self._room)
            opened = self._folding.opened_by_default(most)
            if self._folding.layout(opened).frames_deep <= depth:
                break
        self._open(opened)

    def _open(self, opened: Opened) -> None:
        self._lay_out(opened)
        self.fit()

    def _lay_out(self, opened: Opened) -> None:
        assert self._folding is not None
        self._opened = opened
        self._layout = self._folding.layout(opened)
        names = {box.name for box in self._layout.boxes}
        self._names = NameCut([*names, *(frame.name for frame in self._layout.frames)])
        width = QFontMetricsF(self._painter().name_font).horizontalAdvance
        self._longest = max(map(width, names))
        self._rows = replace(self._rows, columns=self._layout.columns, depth=self._layout.frames_deep)
        self._pointed = -1
        self._on_constraints()
        self._on_shown()

    def open_box(self, box: Box, *, every: bool = False) -> None:
        """Of equal blocks, open the block of the selected op, or ``every`` one."""
        if self._folding is not None and box.can_open:
            op = self._selection.op
            self._open_by_hand(self._folding.opening(self._opened, box, op, every=every))

    def fold(self, frame: GroupFrame | None) -> None:
        if self._folding is not None and frame is not None:
            self._open_by_hand(self._folding.folding(self._opened, frame.key))

    def toggle_blocks(self) -> None:
        if self._folding is not None:
            self._open_by_hand(self._folding.turning_blocks(self._opened))

    def _open_by_hand(self, opened: Opened) -> None:
        if opened != self._opened:
            self._chosen = True
            self._open(opened)

    def open_as(self, other: GraphView) -> None:
        if other._chosen:
            self._open_by_hand(other._opened)

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        if shown is None or self._layout is None or len(self._layout.box_of) != shown.graph.n:
            return
        self._repeats, self._first = repeats_and_first(self._layout, shown)
        self._on_step(self._playhead.step)

    def _on_constraints(self) -> None:
        what_if = self._exploration.what_if
        if what_if is None or self._layout is None or len(self._layout.box_of) != what_if.graph.n:
            return
        self._locked = locked_shares(self._layout, what_if.constrained.locked)
        self.update()

    def _on_step(self, step: int) -> None:
        shown = self._exploration.shown
        if shown is None or self._layout is None or len(self._layout.box_of) != shown.graph.n:
            return
        self._live = live_bytes(self._layout, shown, step)
        self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        if self._fitted:
            self.fit()
        if not self._chosen and (not self._seen or (self._fitted and self._scale < LEGIBLE)):
            self._open_what_fits()
        super().resizeEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.zoom(1.0015 ** event.angleDelta().y(), event.position())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, boxes = Qt.Key(event.key()), () if self._layout is None else self._layout.boxes
        box = boxes[max(0, self._selected())] if boxes else None
        if box is not None and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.open_box(box, every=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        elif box is not None and key == Qt.Key.Key_Backspace:
            self.fold(self._frame_of(box.column + 0.5))
        elif box is not None and key in _MOVES:
            wanted = self._rows.beside(box, *_MOVES[key])
            for other in boxes:
                if (other.column, other.backward) == wanted:
                    self._select(other)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
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
        QToolTip.showText(
            event.globalPosition().toPoint(), self._tooltip(box) if box is not None else "", self
        )

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if not self._moved and self._drag is not None:
            box = self._box_at(event.position())
            if box is not None:
                self._select(box)
            else:
                self._selection.select(-1)
        self._drag = None

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        box = self._box_at(QPointF(event.pos()))
        if box is not None:
            self._select(box)
            menu = self.menu_of(box)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            menu.popup(event.globalPos())

    def menu_of(self, box: Box) -> QMenu:
        """Its constraints are on all of the box, or on its op that writes most."""
        graph = self._exploration.graph
        assert graph is not None and self._what_ifs is not None
        menu, op, layer = QMenu(self), largest_op(graph, box), box.full_name.strip("_/ ")
        op_name = short_name(graph.ops[op].name)
        for target, name in (
            (layer_target(graph, box.ops), layer),
            (op_target(graph, op, op_name), op_name),
        ):
            if target is not None:
                menu.addSeparator()
                _add_switches(menu, target, name, self._what_ifs)
        menu.addSeparator()
        clear = menu.addAction(action("edit.clear").words, self._what_ifs.clear)
        clear.setEnabled(not self._exploration.constraints.is_empty)
        menu.addSeparator()
        if box.copies > 1:
            menu.addAction("Open one block", partial(self.open_box, box))
            menu.addAction(f"Open all {box.copies} blocks", partial(self.open_box, box, every=True))
        elif box.can_open:
            menu.addAction(f"Open {layer}", partial(self.open_box, box))
        frame = self._frame_of(box.column + 0.5)
        if frame is not None:
            menu.addAction(f"Fold {frame.name}", partial(self.fold, frame))
        return menu

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        box, frame = self._box_at(event.position()), self._frame_at(event.position())
        if box is not None and box.can_open:
            self.open_box(box, every=bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier))
        elif box is None and frame is not None:
            self.fold(frame)
        elif box is None:
            self.fit()

    def _select(self, box: Box) -> None:
        graph = self._exploration.graph
        assert graph is not None
        if box.copies > 1 and self._selection.op in box.ops:
            return  # the block of the selected op is the one that is opened
        self._selection.select(largest_op(graph, box))

    def _painter(self) -> GraphPainter:
        assert self._layout is not None
        return GraphPainter(self._theme.now, self._layout, self._rows, self.font(), self._names)

    def _box_at(self, position: QPointF) -> Box | None:
        if self._layout is None:
            return None
        point, painter = (position - self._offset) / self._scale, self._painter()
        return next((box for box in self._layout.boxes if painter.rect(box).contains(point)), None)

    def _nearest(self, position: QPointF) -> Box:
        assert self._layout is not None
        point, rect = (position - self._offset) / self._scale, self._painter().rect
        return min(self._layout.boxes, key=lambda box: (rect(box).center() - point).manhattanLength())

    def _frame_at(self, position: QPointF) -> GroupFrame | None:
        if self._layout is None:
            return None
        point = (position - self._offset) / self._scale
        return self._frame_of(self._rows.column_at(point.x(), point.y()))

    def _frame_of(self, column: float) -> GroupFrame | None:
        assert self._layout is not None
        around = [frame for frame in self._layout.frames if frame.first <= column < frame.last + 1]
        return max(around, key=lambda frame: frame.depth, default=None)

    def _tooltip(self, box: Box) -> str:
        assert self._layout is not None
        number = self._layout.boxes.index(box)
        repeats, live = int(self._repeats[number]), self._live[number]
        where = "backward" if box.backward else "forward"
        writers = "1 op writes" if len(box.ops) == 1 else f"{len(box.ops)} ops write"
        more = "\nDouble-click opens it." if box.can_open else ""
        if box.copies > 1:
            more = f"\nDouble-click opens one block, with Shift all {box.copies}."
        locked = round(float(self._locked[number]) * len(box.ops))
        more = (f"\n{locked} of {len(box.ops)} ops locked by constraints" if locked else "") + more
        return (
            f"{box.full_name} ({where})\n{format_bytes(live)} in memory now, predicted\n"
            f"{writers} {format_bytes(box.bytes)} in all, {plural(repeats, 'recomputation')}{more}"
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth(self)
        if painter.paintEngine().type() == QPaintEngine.Type.Raster:
            painter.fillRect(event.rect(), self._theme.color("panel"))
        if self._layout is not None and len(self._live) == len(self._layout.boxes) == len(self._repeats):
            self._seen = True
            # A saved picture is sharper than the screen.
            ratio = painter.deviceTransform().m11()
            self._paint_graph(painter, PartPlace.sharp(self._offset, self._scale, self.size(), ratio))
            beside = OVERVIEW_WIDTH + 8 if self._hides else 0.0
            self._paint_legend(painter, QRectF(2, 0, self.width() - 4 - beside, self.height() - 2), ratio)
            if self._hides:
                seen = QRectF(-self._offset / self._scale, QSizeF(self.size()) / self._scale)
                corner = QPointF(self.width() - 4, self.height() - 2)
                paint_overview(painter, self._theme.now, self._layout, self._rows, self._live, corner, seen)
        if self.hasFocus():
            ink(painter, QPen(self._theme.color("accent"), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
        painter.end()

    def _paint_graph(self, painter: QPainter, placed: PartPlace) -> None:
        drawn, moment = self._painter(), self._moment()
        on_screen = painter.paintEngine().type() == QPaintEngine.Type.Raster
        detail = self._scale if on_screen else 1.0  # in a file, small words can be enlarged
        marked = {moment.running, moment.pointed, moment.selected} - {-1}
        boxes = [number for number in drawn.boxes_in(placed.seen) if number not in marked]

        def paint(parts: Iterable[Part], kept: KeptParts) -> None:
            if on_screen:
                kept.paint(painter, parts, placed)
            else:
                for part in parts:
                    placed.draw(painter, part.draw)

        still, scale, origin = drawn.still_part(), placed.scale, replace(placed, offset=QPointF())
        self._still.paint(
            painter,
            lambda inside: origin.draw(inside, still.draw),
            of=(*still.looks, scale),
            whole=QRectF(still.area.topLeft() * scale, still.area.size() * scale),
            placed=placed,
        )
        paint(drawn.across_parts(moment, placed.seen), self._edges)
        placed.draw(painter, partial(drawn.paint_focused_edges, moment=moment))
        paint((drawn.box_part(number, moment, detail) for number in boxes), self._boxes)
        for number in marked:
            placed.draw(painter, partial(drawn.paint_box, number=number, moment=moment, scale=detail))
        placed.draw(painter, partial(drawn.paint_tag, moment=moment))

    def _paint_legend(self, painter: QPainter, area: QRectF, ratio: float) -> None:
        locks, theme = bool(self._locked.any()), self._theme.now
        self._legend.paint(
            painter,
            lambda inside: paint_legend(inside, theme, self.font(), area, locks),
            of=(theme, locks, area.getRect()),
            whole=area.adjusted(-2, area.height() - _LEGEND, 2, 2),
            placed=PartPlace(QPointF(), 1.0, self.size(), ratio),
        )

    def _moment(self) -> PlayheadState:
        step = self._playhead.step
        now = self._live, self._repeats, self._first, self._locked, step
        boxes = self._running(), self._selected(), self._pointed
        return PlayheadState(*now, *boxes, f"step {step + 1} computing")

    def _running(self) -> int:
        shown = self._exploration.shown
        if shown is None or self._playhead.step >= len(shown.schedule.steps):
            return -1
        return self._box_of(int(shown.schedule.steps[self._playhead.step]))

    def _selected(self) -> int:
        return self._box_of(self._selection.op)

    def _box_of(self, op: int) -> int:
        layout = self._layout
        return layout.box_of[op] if layout is not None and 0 <= op < len(layout.box_of) else -1


def _add_switches(menu: QMenu, target: ConstraintTarget, name: str, what_ifs: UndoCommands) -> None:
    title = f"layer {name}" if target.layers and len(target.layers) == 1 else name
    title = f"all of {name}" if len(target.layers) > 1 else title
    for kind, text in (
        (ConstraintKind.KEEP, f"Keep {title} always"),
        (ConstraintKind.ONCE, f"Never recompute {title}"),
    ):
        named = replace(target, title=title)
        switch = menu.addAction(text)
        switch.setCheckable(True)
        switch.setChecked(what_ifs.is_set(kind, named))
        switch.setEnabled(bool(named.names(kind)))
        switch.triggered.connect(lambda _=False, k=kind, t=named: what_ifs.switch(k, t))
