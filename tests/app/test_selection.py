from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QMouseEvent
from PySide6.QtWidgets import QApplication

from app.presenters.bands import Grouping
from app.presenters.hotspot_rows import View
from app.presenters.memory_curve import largest_op
from app.theme import DARK, LIGHT, ThemeChoice
from tests.app.windows import cell_place, click_op, cursor_line, open_chain, pixels

pytestmark = pytest.mark.heavy  # every view in both themes

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def opened(window, qtbot):
    """Return a window on 40 layers, more than the list has room for."""
    window.session.exploration.listing.fill(False)
    open_chain(window, qtbot, 40)
    window.explorer.turns.finish()
    with qtbot.waitActive(window):
        window.activateWindow()
    qtbot.wait(50)
    return window


def in_color(found: np.ndarray, name: str) -> np.ndarray:
    parts = found[..., None] >> np.array([16, 8, 0], np.uint32) & np.uint32(0xFF)
    wanted = np.array(QColor(name).getRgb()[:3], np.int64)
    return (abs(parts.astype(np.int64) - wanted) < 24).all(axis=-1)


def click_box(window, qtbot, op: int) -> int:
    view = window.explorer.graph_view
    box = view.layout_shown.boxes[view.layout_shown.box_of[op]]
    middle = view._painter().rect(box).center() * view._scale + view._offset
    qtbot.mouseClick(view, LEFT, pos=middle.toPoint())
    return largest_op(window.session.exploration.graph, box)


def click_layer(window, qtbot, name: str) -> None:
    listed = window.explorer.layers._list
    index = window.explorer.layers.place_of(name)
    listed.scrollTo(index)
    qtbot.mouseClick(listed.viewport(), LEFT, pos=listed.visualRect(index).center())


def click_band(window, qtbot, op: int) -> None:
    curve, shown = window.explorer.curve, window.session.exploration.shown
    curve._span.group_by(Grouping.LAYER)
    qtbot.wait(50)
    bands = curve.answering
    rows, columns = np.nonzero(curve.bands._owners >= 0)
    mine = [
        (row, column)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        if bands.op_of(int(curve.bands._owners[row, column])) == op
    ]
    row, column = mine[len(mine) // 2]
    height, width = curve.bands._owners.shape
    place = curve.bands._place
    size = place.width() / width, place.height() / height
    at = place.topLeft() + QPointF((column + 0.5) * size[0], (row + 0.5) * size[1])
    scene = curve.getPlotItem().vb.mapViewToScene(at)
    qtbot.mouseClick(curve.viewport(), LEFT, pos=curve.mapFromScene(scene))
    assert shown is window.session.exploration.shown


def search(window, qtbot, name: str) -> None:
    palette = window.open_palette()
    qtbot.keyClicks(palette.field, name)
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)


def check_marked(window, qtbot, op: int) -> None:
    qtbot.wait(100)
    window.explorer.turns.finish()
    explorer, theme = window.explorer, window.theme.now
    graph, shown = window.session.exploration.graph, window.session.exploration.shown
    assert window.selection.op == op
    view = explorer.graph_view
    box = view.layout_shown.boxes[view.layout_shown.box_of[op]]
    rect = view._painter().rect(box)
    ring = QPointF(rect.center().x(), rect.top() - 5) * view._scale + view._offset
    found = pixels(view)
    around = found[max(0, round(ring.y()) - 2) : round(ring.y()) + 3, round(ring.x())]
    assert in_color(around, theme.tokens["accent"]).any(), "the graph does not mark it"
    listed = explorer.layers._list
    index = explorer.layers.place_of(graph.ops[op].group)
    assert listed.currentIndex() == index, "another layer is marked"
    place = listed.visualRect(index)
    assert listed.viewport().rect().contains(place), "the layer is out of sight"
    row = pixels(listed.viewport())[place.top() : place.bottom(), :6]
    assert in_color(row, theme.tokens["accent"]).any()
    for matrix in explorer.matrices:
        y = cell_place(matrix, 0, op).y()
        assert in_color(pixels(matrix)[y - 2 : y + 3], theme.tokens["accent"]).any(axis=0).sum() > 30
    curve = explorer.curve
    for step in np.flatnonzero(shown.schedule.steps == op).tolist():
        if step != window.playhead.step:  # whose own line lies above
            x = round(cursor_line(curve, step).x1())
            assert in_color(pixels(curve)[:, x - 2 : x + 3], theme.tokens["accent"]).any(axis=1).sum() > 30
    assert explorer.inspector.back.isVisible() and graph.ops[op].name in explorer.inspector._name.text()


WAYS = {
    "graph": lambda w, q: click_box(w, q, 25),
    "layers": lambda w, q: (click_layer(w, q, "layer3"), 3)[1],
    "R": lambda w, q: (click_op(w, q, 17), 17)[1],
    "S": lambda w, q: (click_op(w, q, 60, 1), 60)[1],
    "bands": lambda w, q: (click_band(w, q, 8), 8)[1],
    "search": lambda w, q: (search(w, q, "layer12"), 12)[1],
}


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_selected_in_a_view_is_marked_in_all(opened, qtbot, way: str, theme) -> None:
    opened.theme.choose(ThemeChoice(theme.name))
    try:
        check_marked(opened, qtbot, WAYS[way](opened, qtbot))
    finally:
        opened.theme.choose(ThemeChoice.LIGHT)


def test_escape_selects_nothing_and_then_stops_the_solve(opened, qtbot) -> None:
    op = click_box(opened, qtbot, 25)
    opened.explorer.span.choose((3, 9))
    qtbot.keyClick(opened, Qt.Key.Key_Escape)
    assert opened.explorer.span.chosen is None and opened.selection.op == op
    qtbot.keyClick(opened, Qt.Key.Key_Escape)
    assert opened.selection.op == -1
    assert not opened.explorer.layers._list.currentIndex().isValid()
    assert not opened.explorer.layers._list.selectionModel().hasSelection()
    assert not opened.explorer.inspector.back.isVisible()
    opened.explorer.budget.setFocus()  # the frame of what has the keys is of the same colour
    for view in (opened.explorer.graph_view, *opened.explorer.matrices):
        assert not in_color(pixels(view), LIGHT.tokens["accent"]).any()
    with qtbot.waitSignal(opened.session.settled, timeout=60000):
        exploration = opened.session.exploration
        exploration.set_budget(int(0.55 * exploration.plain.peak_bytes))
        opened.session.solve()
        qtbot.keyClick(opened, Qt.Key.Key_Escape)


def test_a_layer_is_selected_again_by_a_click_on_its_row(opened, qtbot) -> None:
    click_layer(opened, qtbot, "layer3")
    click_op(opened, qtbot, 17)
    click_layer(opened, qtbot, "layer3")
    assert opened.selection.op == 3
    back = opened.session.exploration.graph.n - 1 - 3
    click_op(opened, qtbot, back)  # the layer's gradient: the same row
    assert opened.selection.op == back
    click_layer(opened, qtbot, "layer3")
    assert opened.selection.op == 3


def test_the_mark_stays_while_the_list_is_sorted_and_filtered(opened, qtbot) -> None:
    click_op(opened, qtbot, 17)
    layers = opened.explorer.layers
    qtbot.mouseClick(layers.order, LEFT)
    assert layers._list.currentIndex() == layers.place_of("layer17")
    qtbot.keyClicks(layers._filter, "layer3")
    assert not layers._list.selectionModel().hasSelection() and opened.selection.op == 17
    qtbot.keyClick(layers._filter, Qt.Key.Key_Backspace)
    assert layers._list.currentIndex() == layers.place_of("layer17")


def test_a_selected_value_is_the_only_band_that_is_marked(opened, qtbot) -> None:
    click_band(opened, qtbot, 8)
    value = opened.session.exploration.graph.ops[8].outputs[0]
    assert (opened.selection.op, opened.selection.value) == (8, value)
    opened.selection.select(-1)
    memory = opened.explorer.inspector.memory
    memory.show_view(View.VALUES)
    opened.playhead.seek(20)
    qtbot.waitUntil(lambda: any(row.value >= 0 for row in memory.rows))
    number = next(place for place, row in enumerate(memory.rows) if row.value >= 0)
    place = memory._list.visualRect(memory._list.model().index(number, 0)).center()
    wanted = memory.rows[number]
    qtbot.mouseClick(memory._list.viewport(), LEFT, pos=place)
    assert (opened.selection.op, opened.selection.value) == (wanted.op, wanted.value)


def test_the_graph_moves_to_what_is_selected_elsewhere(opened, qtbot) -> None:
    view = opened.explorer.graph_view
    view.zoom_to(2)
    before = view._offset
    click_op(opened, qtbot, 30)
    box = view.layout_shown.boxes[view.layout_shown.box_of[30]]
    shape = view._painter().rect(box)
    corners = [
        QPoint(*map(int, (at * view._scale + view._offset).toTuple()))
        for at in (shape.topLeft(), shape.bottomRight())
    ]
    assert all(view.rect().contains(corner) for corner in corners)
    assert view._offset != before


def point_at(widget, place) -> None:
    """Move the mouse there, as the window system tells it."""
    for at in (place - QPoint(2, 0), place):
        spot = QPointF(at), QPointF(widget.mapToGlobal(at))
        none = Qt.MouseButton.NoButton, Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
        QApplication.sendEvent(widget, QMouseEvent(QEvent.Type.MouseMove, *spot, *none))


def test_the_op_under_the_pointer_is_lit_in_the_graph(opened, qtbot) -> None:
    explorer, view = opened.explorer, opened.explorer.graph_view
    shown, (r, _) = opened.session.exploration.shown, explorer.matrices
    opened.playhead.seek(79)
    curve, layers = explorer.curve, explorer.layers._list
    row = layers.visualRect(explorer.layers.place_of("layer3")).center()
    on_curve = QPoint(round(cursor_line(curve, 21).x1()), curve.height() // 2)
    memory = explorer.inspector.memory
    memory.show_view(View.VALUES)
    number = next(place for place, one in enumerate(memory.rows) if one.op >= 0)
    value = memory._list.visualRect(memory._list.model().index(number, 0)).center()
    for widget, place, op in (
        (r.viewport(), cell_place(r, 17, 17), 17),
        (curve.viewport(), on_curve, int(shown.schedule.steps[21])),
        (layers.viewport(), row, 3),
        (memory._list.viewport(), value, memory.rows[number].op),
    ):
        before = pixels(view)
        point_at(widget, place)
        box = view.layout_shown.boxes[view.layout_shown.box_of[op]]
        at = view._painter().rect(box).adjusted(-9, -9, 9, 9)
        around = QRectF(at.topLeft() * view._scale + view._offset, at.size() * view._scale).toAlignedRect()
        changed = np.argwhere(pixels(view) != before)
        assert len(changed) > 50 and all(around.contains(int(x), int(y)) for y, x in changed), op
        QApplication.sendEvent(widget.parentWidget(), QEvent(QEvent.Type.Leave))
        assert np.array_equal(pixels(view), before)
