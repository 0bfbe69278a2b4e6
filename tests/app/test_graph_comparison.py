from __future__ import annotations

import csv
import dataclasses
import gc
import io
import weakref

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QGuiApplication

from app.models.opening import side_of
from app.presenters.graph_comparison import (
    COLUMNS,
    Side,
    curve_of,
    fact_rows,
    frontier_words,
    layer_cells,
    layer_pairs,
    layer_table,
    memory_words,
    outline_of,
    sentence,
    stairs_of,
    within,
)
from app.state.knowledge import WhatIf
from checkmate.formats.exploration import write_exploration
from checkmate.formats.graph import write_graph
from checkmate.ir import CostUnit, Graph
from checkmate.largest.scaling import BatchScaling
from checkmate.solvers.constraints import Constraints
from tests.app.windows import open_chain, smaller, training_chain

pytestmark = pytest.mark.heavy  # each opens two windows or more


def doubled(graph: Graph) -> Graph:
    """Return the graph at twice its batch, 4."""
    return BatchScaling(dataclasses.replace(graph, batch_size=4)).at(8)


def side(graph: Graph, name: str = "one") -> Side:
    plain = WhatIf(graph, Constraints()).plain
    return Side(name, plain, plain, (plain,))


def test_facts_say_how_they_compare() -> None:
    a, b = side(dataclasses.replace(training_chain(), batch_size=4)), side(doubled(training_chain()))
    rows = {row[0].strip(): row[1:] for row in fact_rows(a, b)}
    assert rows["Batch"] == ("4", "8, scaled from 4, estimated", "× 2")
    assert rows["Ops"] == ("24", "24", "the same") and rows["of it fixed"][2] == "the same"
    assert rows["One step"][2] == "× 2"
    assert 1.8 < b.plain.peak_bytes / a.plain.peak_bytes < 2
    said = sentence(a, b, layer_pairs(a.graph, b.graph))
    assert said.endswith("costs 2 times as much. 12 layers have the same name.")


def test_costs_in_other_units_are_not_compared() -> None:
    graph = training_chain()
    a, b = side(graph), side(dataclasses.replace(graph, cost_unit=CostUnit.FLOP))
    assert {row[0]: row[3] for row in fact_rows(a, b)}["One step"] == "other units"
    assert "costs" not in sentence(a, b, layer_pairs(a.graph, b.graph))
    cells = layer_cells(a.graph, b.graph, layer_pairs(a.graph, b.graph))
    assert {row[-1].text for row in cells} == {"–"}


def test_layers_are_matched_by_name_and_what_is_alone_is_said() -> None:
    a, b = training_chain(12), doubled(training_chain(10))
    pairs = {pair.name: pair for pair in layer_pairs(a, b)}
    for name, pair in pairs.items():
        number = int(name.removeprefix("layer"))
        own = 2**20 * (1 + number % 3)
        assert pair.bytes_a == own and pair.bytes_b == (2 * own if number < 10 else None)
        assert pair.cost_a == 3.0 + number % 2
    assert [pairs[f"layer{at}"].cost_b for at in (10, 11)] == [None, None]
    sizes = [abs(pair.difference) for pair in layer_pairs(a, b)]
    assert sizes == sorted(sizes, reverse=True)
    said = sentence(side(a), side(b), layer_pairs(a, b))
    assert "10 layers have the same name, 2 only in A, 0 only in B" in said
    rows = list(csv.DictReader(io.StringIO(layer_table(a, b, layer_pairs(a, b)).csv())))
    assert sum(int(row["difference, bytes"]) for row in rows) == sum(p.difference for p in pairs.values())


def test_curves_are_columns_of_the_live_bytes() -> None:
    found = side(training_chain()).plain
    live, costs = found.timeline.live_bytes, np.cumsum(found.graph.cost[found.schedule.steps])
    edges, heights = curve_of(found, by_share=True)
    assert (heights == live).all() and edges[0] == 0 and edges[-1] == 100
    assert edges[1:] == pytest.approx(100 * costs / costs[-1])
    steps, _ = curve_of(found, by_share=False)
    assert steps.tolist() == [at + 0.5 for at in range(len(live) + 1)]
    x, y = outline_of((steps, heights))
    assert len(x) == len(y) == 2 * len(live) and (x[1:-1:2] == x[2::2]).all() and (y[::2] == live).all()
    for at in (0, 7, len(live) - 1):
        words = memory_words([(steps, heights)] * 2, at + 1.2, share=False)
        assert words.startswith(f"step {at + 1}\nA {live[at] / 2**20:.2f}"[:12])
    assert memory_words([(steps, heights)] * 2, 1e6, share=False).endswith("B has ended")


def test_the_frontier_is_stairs(window, exploration) -> None:
    exploration.set_graph(training_chain())
    found = smaller(exploration)
    one = side_of("one", exploration)
    assert one is not None and len(one.known) == 2 and one.shown is exploration.plain
    x, y = stairs_of(one)
    peaks = [found.peak_bytes, exploration.plain.peak_bytes]
    assert x.tolist() == [peaks[0], peaks[1], peaks[1]]
    assert y == pytest.approx([100 * found.overhead, 100 * found.overhead, 0.0])
    assert within(one.known, peaks[0]) is found and within(one.known, 1) is found
    assert within(one.known, peaks[1]) is exploration.plain
    words = frontier_words((one, one), peaks[0] - 1)
    assert words.endswith("A no schedule known\nB no schedule known")
    assert frontier_words((one, one), peaks[1]).endswith("A +0.0 %\nB +0.0 %")


def opened(window, qtbot, path):
    window.comparing.open(path)
    qtbot.waitUntil(lambda: window.comparing.dialog is not None, timeout=20_000)
    dialog = window.comparing.dialog
    qtbot.waitUntil(lambda: bool(dialog.words.text()), timeout=20_000)
    return dialog


@pytest.fixture
def dialog(window, qtbot, tmp_path):
    """Return the comparison of a chain with itself at twice the batch."""
    open_chain(window, qtbot)
    path = tmp_path / "double.json"
    write_graph(path, doubled(training_chain()))
    return opened(window, qtbot, path)


def test_the_other_graph_has_a_frontier_of_its_own(window, exploration, qtbot, dialog) -> None:
    assert dialog.isVisible() and "chain (A) with chain, batch 8 (B)" in dialog.windowTitle()
    assert exploration.graph is not dialog.other.exploration.graph
    qtbot.waitUntil(lambda: len(dialog.sides[1].known) > 2, timeout=60_000)
    qtbot.waitUntil(lambda: "schedules" in dialog.frontier.entries()[1].words)
    assert len(exploration.known) >= 1
    process = dialog.other.solving.process
    assert process.running
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert window.comparing.dialog is None and not process.running


def test_rows_sort_and_are_copied(window, qtbot, dialog) -> None:
    table, place = dialog.table, COLUMNS.index("Bytes B")
    model = table.model()
    heads = [model.headerData(at, Qt.Orientation.Horizontal) for at in range(len(COLUMNS))]
    assert heads[:4] == ["Layer", "Bytes A", "Bytes B", "Difference"]
    header = table.horizontalHeader()
    middle = header.sectionViewportPosition(place) + header.sectionSize(place) // 2
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(middle, 8))
    sizes = [model.index(row, place).data(Qt.ItemDataRole.UserRole) for row in range(model.rowCount())]
    assert sizes in (sorted(sizes), sorted(sizes, reverse=True)) and len(set(sizes)) == 3
    qtbot.mouseClick(dialog.copy, Qt.MouseButton.LeftButton)
    rows = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert [row["layer"] for row in rows] == [pair.name for pair in dialog.pairs]


def test_curves_are_by_share_or_by_step_and_of_either_schedule(window, exploration, qtbot, dialog) -> None:
    x, _ = dialog.memory._pair.lines[0]
    assert x[-1] == 100
    qtbot.mouseClick(dialog.across[1], Qt.MouseButton.LeftButton)
    x, y = dialog.memory._pair.lines[0]
    assert x[-1] == len(exploration.shown.schedule.steps) + 0.5
    before = y.max()
    found = smaller(exploration)
    qtbot.mouseClick(dialog.best, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: dialog.sides[0].shown is found)
    assert dialog.memory._pair.lines[0][1].max() < before
    assert dialog.sides[1].shown.graph is dialog.other.exploration.graph
    exploration.set_budget(found.peak_bytes)
    dialog.other.exploration.listing.fill(False)
    qtbot.waitUntil(lambda: "over the budget" in dialog.memory.entries()[1].words)
    assert "over" not in dialog.memory.entries()[0].words


def test_an_exploration_comes_with_what_was_found(window, exploration, qtbot, tmp_path) -> None:
    exploration.set_graph(training_chain())
    smaller(exploration)
    path = tmp_path / "one.exploration.json.gz"
    write_exploration(path, exploration.saved())
    dialog = opened(window, qtbot, path)
    assert len(dialog.sides[1].known) == 2 and "just as much memory" in dialog.words.text()


def test_a_closed_comparison_is_freed(window, qtbot, qapp, tmp_path, chain_open) -> None:
    path = tmp_path / "double.json"
    write_graph(path, doubled(training_chain()))
    dialog = opened(window, qtbot, path)
    graph, held = weakref.ref(dialog.other.exploration.graph), weakref.ref(dialog)
    del dialog
    gc.collect()
    gc.disable()
    try:  # a collection that looks at all graphs would hold up the window
        window.comparing.close()
        qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        qtbot.waitUntil(lambda: graph() is None, timeout=10_000)
    finally:
        gc.enable()
    gc.collect()
    assert held() is None
    assert window.comparing.dialog is None
