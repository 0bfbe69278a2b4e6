from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QFontMetrics

from app.presenters.search import COMMAND, PaletteEntry, search
from app.presenters.wording import NameCut
from app.views.panels.bar_rows import DETAIL, FIGURE
from checkmate.ir import Graph, GraphBuilder, Phase
from checkmate.units import format_bytes
from tests.app.windows import training_chain

pytestmark = pytest.mark.heavy  # many windows, a second each

MIB = 2**20
RESNET = [
    f"conv{stage}_block{block}_{part}_{what}"
    for stage in range(2, 6)
    for block in range(1, 4)
    for part in range(1, 4)
    for what in ("conv", "bn", "relu")
]


def normed(layers: int = 9) -> Graph:
    """Return a graph whose ops are called alike in every layer. Those of batch normalization are."""
    builder = GraphBuilder("net")
    last: list[int] = []
    for number in range(layers):
        for part in ("moments/mean", "batchnorm/mul_1"):
            value = builder.value(f"{part}{number}", MIB * (1 + number))
            builder.op(f"net_1/norm{number}_1/{part}", last, [value], cost=1.0, group=f"norm{number}")
            last = [value]
    for number in reversed(range(layers)):
        value = builder.value(f"g{number}", 2 * MIB * (layers - number), keep=number == 0)
        name = f"gradient_tape/net_1/norm{number}_1/batchnorm/mul_1/Mul"
        builder.op(name, last, [value], cost=1.0, phase=Phase.BACKWARD, group=f"norm{number}")
        last = [value]
    return builder.build()


def open_normed(window, qtbot) -> None:
    with qtbot.waitSignal(window.session.exploration.known_changed, timeout=20000):
        window.session.use_graph(normed())


def listed(window) -> list[str]:
    rows = window.explorer.layers._list.model()
    return [rows.index(row, 0).data() for row in range(rows.rowCount())]


def typed(window, qtbot, text: str) -> list[str]:
    field = window.explorer.layers._filter
    window.explorer.layers.focus_filter()
    qtbot.keyClick(field, Qt.Key.Key_Backspace)
    qtbot.keyClicks(field, text)
    return listed(window)


def test_layers_are_sorted_by_size_or_stand_in_order(window, qtbot, chain_open) -> None:
    panel = window.explorer.layers
    rows = panel._list.model()
    sizes = [rows.index(row, 0).data(FIGURE) for row in range(rows.rowCount())]
    assert sizes == [format_bytes(MIB * size) for size in (3, 2, 1) for _ in range(4)]
    assert panel.order.text() == "By activation size"
    qtbot.mouseClick(panel.order, Qt.MouseButton.LeftButton)
    assert listed(window) == [f"layer{i}" for i in range(12)] and panel.order.text() == "In order of the step"


def test_the_filter_knows_sizes_phases_and_what_is_recomputed(window, exploration, qtbot) -> None:
    open_normed(window, qtbot)
    assert typed(window, qtbot, "size>12M") == [f"norm{i}" for i in (8, 7, 6)]
    assert typed(window, qtbot, "size>12M norm7") == ["norm7"]
    backward = typed(window, qtbot, "phase:backward")
    assert backward == [f"norm{i}" for i in range(9)]
    first = window.explorer.layers._list.model().index(0, 0)
    assert first.data(FIGURE) == "18.0 MiB" and "backward" in first.data(Qt.ItemDataRole.ToolTipRole)
    assert typed(window, qtbot, "recomputed") == []
    assert window.explorer.layers.said.text() == "No layer matches."
    plain = exploration.plain.schedule.steps.tolist()
    again = [*plain[:-1], 1, 3, 5, plain[-1]]
    exploration.show(exploration.what_if.listed(again, budget_bytes=2**40, solver="test", seconds=0.0))
    assert set(listed(window)) == {"norm0", "norm1", "norm2"}
    assert not window.explorer.layers.said.isVisible()


def test_the_filter_says_what_it_does_not_understand(window, qtbot) -> None:
    open_normed(window, qtbot)
    said = window.explorer.layers.said
    for text in ("size>", "phase:", "size>1"):
        assert len(typed(window, qtbot, text)) == 9 and not said.isVisible()
    assert len(typed(window, qtbot, "phase:sideways")) == 9
    assert said.isVisible() and "“sideways” is no phase" in said.text()
    typed(window, qtbot, "size>big")
    assert said.isVisible() and "“big” is no size" in said.text()


def test_a_click_selects_the_largest_op_and_enter_zooms_to_it(window, qtbot, chain_open) -> None:
    typed(window, qtbot, "layer10")
    panel, graph, view = window.explorer.layers, window.session.exploration.graph, window.explorer.graph_view
    qtbot.keyClick(panel._filter, Qt.Key.Key_Return)
    assert graph.ops[window.selection.op].name == "f10"
    box = view.layout_shown.boxes[view.layout_shown.box_of[window.selection.op]]
    assert view.zoom_percent >= 140 and box.full_name == "layer10"
    qtbot.keyClick(panel._filter, Qt.Key.Key_Down)
    assert panel._list.hasFocus()


def test_rows_of_the_search_differ_and_say_layer_phase_and_size(window, qtbot) -> None:
    open_normed(window, qtbot)
    palette = window.open_palette()
    qtbot.keyClicks(palette.field, "batchno")
    rows = [palette.list.item(row) for row in range(palette.list.count())]
    assert len(rows) == 18 and len({row.text() for row in rows}) == 18
    largest = rows[0]
    assert largest.text() == "∂ norm0_1/batchnorm/mul_1/Mul" and largest.data(FIGURE) == "18.0 MiB"
    assert largest.data(DETAIL) == "op · norm0 · backward"
    qtbot.keyClicks(palette.field, " phase:forward size>8M")
    assert [entry.title for entry in palette.found] == ["norm8_1/batchnorm/mul_1"]
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    view, graph = window.explorer.graph_view, window.session.exploration.graph
    assert graph.ops[window.selection.op].name == "net_1/norm8_1/batchnorm/mul_1"
    box = view.layout_shown.boxes[view.layout_shown.box_of[window.selection.op]]
    middle = view._painter().rect(box).center() * view._scale + view._offset
    assert (middle - QPointF(view.width() / 2, view.height() / 2)).manhattanLength() < 60
    assert box.full_name == "norm8" and view.hasFocus()


def test_names_are_cut_so_that_figures_stay_on_screen(window, qtbot) -> None:
    window.resize(1000, 640)
    open_normed(window, qtbot)
    palette = window.open_palette()
    qtbot.keyClicks(palette.field, "batchno")
    assert palette.list.horizontalScrollBar().maximum() == 0
    palette.list.item(0).setText("a name that is as long as those of layers in layers " * 4)
    qtbot.wait(10)
    row = palette.list.visualItemRect(palette.list.item(0))
    assert palette.list.horizontalScrollBar().maximum() == 0
    assert row.right() <= palette.list.viewport().width()


def test_a_search_without_a_match_says_so(window, qtbot) -> None:
    open_normed(window, qtbot)
    window.explorer.layers._list.setFocus()
    palette = window.open_palette()
    qtbot.keyClicks(palette.field, "zzqqx")
    assert palette.found == [] and not palette.list.isVisible()
    assert palette.said.isVisible() and "Nothing matches “zzqqx”" in palette.said.text()
    assert palette.height() < 150
    qtbot.keyClick(palette.field, Qt.Key.Key_Escape)
    assert window.explorer.layers._list.hasFocus()


def test_a_search_with_many_matches_says_how_many(window, qtbot) -> None:
    with qtbot.waitSignal(window.session.exploration.known_changed, timeout=20000):
        window.session.use_graph(training_chain(60))
    palette = window.open_palette()
    qtbot.keyClicks(palette.field, "f")
    assert len(palette.found) == 40 and "40 of" in palette.said.text()
    palette.close()
    assert search("layer59", []).said.startswith("Nothing matches")


def test_a_word_counts_more_than_a_part_of_one() -> None:
    titles = ("reapply", "re apple", "see app")
    found = search("app", [PaletteEntry(COMMAND, title, "", lambda: None) for title in titles]).entries
    assert [entry.title for entry in found] == ["see app", "re apple", "reapply"]


@pytest.mark.parametrize("room", [112, 128, 140])
def test_cut_names_can_be_told_apart(window, room: int) -> None:
    width = QFontMetrics(window.font()).horizontalAdvance
    names = NameCut(RESNET)
    cut = [names.cut(name, width, room) for name in RESNET]
    assert all(width(text) <= room for text in cut)
    assert len(set(cut)) == len(RESNET)
    assert names.cut("relu", width, room) == "relu"
