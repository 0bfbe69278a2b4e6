from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication

from app.presenters.axes import StepAxis
from app.presenters.range_rows import COLUMNS, COST, LAYER, NAME, NO_STEPS, PRICE, range_rows
from checkmate.ir import Schedule
from checkmate.memory.check import check
from checkmate.memory.hotspot import moment
from checkmate.memory.suggestions import recomputed
from tests.app.windows import exploration_of, open_chain, smaller, training_chain

BYTES = COLUMNS.index("Bytes")
LEAST_NAME = 180  # pixels, in which names of 25 letters fit
pytestmark = pytest.mark.heavy  # further windows, without a screen


def test_rows_are_those_of_a_replay_step_by_step() -> None:
    exploration = exploration_of(training_chain())
    shown = smaller(exploration)
    graph, steps = shown.graph, shown.schedule.steps.tolist()
    axis = StepAxis.of(graph, shown.schedule, by_cost=False)
    for first, last in ((0, len(steps) - 1), (5, 5), (4, 13), (len(steps) - 3, len(steps) - 1)):
        wanted: dict[int, list[float]] = {}
        for step in range(first, last + 1):
            for buffer in shown.timeline.alive_at(step):
                entry = wanted.setdefault(buffer.value, [0, 0.0])
                entry[0] += 1
                entry[1] += buffer.bytes * graph.ops[steps[step]].cost
        rows = range_rows(shown, axis, (first, last))
        assert {row.value: row.steps for row in rows} == {value: entry[0] for value, entry in wanted.items()}
        for row in rows:
            assert row.byte_cost == pytest.approx(wanted[row.value][1])
            ops = [graph.ops[op] for op in steps[first : last + 1]]
            touched = any(row.value in (*op.inputs, *op.outputs) for op in ops)
            assert row.waits is not touched
        assert sum(row.share for row in rows) == pytest.approx(1.0)
        assert [row.byte_cost for row in rows] == sorted((row.byte_cost for row in rows), reverse=True)


@pytest.fixture
def table(window, qtbot):
    """Return the table of steps 8 to 16, opened with the mouse."""
    open_chain(window, qtbot)
    window.explorer.span.choose((7, 15))
    qtbot.mouseClick(window.explorer.span_bar.table, Qt.MouseButton.LeftButton)
    made = window.explorer.open_range()
    assert made.isVisible()
    qtbot.waitUntil(lambda: not made.prices.busy, timeout=20_000)
    return made


def test_without_a_selection_the_table_is_of_the_whole_step(window, qtbot) -> None:
    open_chain(window, qtbot)
    window.commands["view.range_table"].trigger()
    table = window.explorer.open_range()
    steps = len(window.session.exploration.shown.schedule.steps)
    assert table.isVisible() and window.explorer.span.chosen == (0, steps - 1)
    assert len(table.rows) >= window.session.exploration.graph.n // 2


def cells(table, column: int) -> list[str]:
    model = table.table.model()
    return [model.index(row, column).data() for row in range(model.rowCount())]


def test_prices_are_those_of_a_replay(window, table) -> None:
    shown = window.session.exploration.shown
    highest = 7 + int(np.argmax(shown.timeline.live_bytes[7:16]))
    at = moment(shown.graph, shown.schedule, shown.timeline, highest)
    tried = 0
    for buffer in at.live:
        row = next(one for one in table.rows if one.value == buffer.value)
        if not row.waits or buffer.next_read is None:
            continue
        price = recomputed(shown.graph, shown.schedule, shown.timeline, at, buffer, shown.constrained.once)
        found = table.prices.by_value.get(buffer.value)
        assert (price is None) == (found is None)
        if price is not None:
            tried += 1
            assert (found.freed_bytes, found.cost) == (price.freed_bytes, price.cost)
            new = check(shown.graph, found.steps.tolist(), budget_bytes=shown.peak_bytes)
            assert new.ok and Schedule.of(shown.graph, found.steps).recomputations >= 1
    assert tried and sum(text.startswith("−") for text in cells(table, PRICE)) == tried


def test_names_keep_their_room_and_the_layers_can_be_widened(qtbot, table) -> None:
    header = table.table.horizontalHeader()
    for width in (700, 1000):
        table.resize(width, table.height())
        qtbot.waitUntil(lambda: header.sectionSize(NAME) >= LEAST_NAME)
    before = header.sectionSize(LAYER)
    edge = header.sectionViewportPosition(LAYER) + before
    qtbot.mousePress(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(edge - 1, 8))
    qtbot.mouseMove(header.viewport(), pos=QPoint(edge + 39, 8))
    qtbot.mouseRelease(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(edge + 39, 8))
    assert header.sectionSize(LAYER) > before


def test_a_click_selects_and_a_heading_sorts(window, qtbot, table) -> None:
    view = table.table
    place = view.visualRect(view.model().index(2, NAME)).center()
    assert window.selection.op == -1  # nothing is selected by opening the table
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    name = view.model().index(2, NAME).data(Qt.ItemDataRole.ToolTipRole)
    selection, graph = window.selection, window.session.exploration.graph
    assert graph.values[selection.value].name == name and graph.producer[selection.value] == selection.op
    header = view.horizontalHeader()
    middle = header.sectionViewportPosition(BYTES) + header.sectionSize(BYTES) // 2
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(middle, 8))
    model = view.model()
    sizes = [model.index(row, BYTES).data(Qt.ItemDataRole.UserRole) for row in range(model.rowCount())]
    assert sizes in (sorted(sizes), sorted(sizes, reverse=True)) and len(set(sizes)) > 1


def test_the_table_is_copied_whole(window, qtbot, table) -> None:
    qtbot.mouseClick(table.copy, Qt.MouseButton.LeftButton)
    rows = list(csv.DictReader(io.StringIO(QGuiApplication.clipboard().text())))
    assert [row["value"] for row in rows] == [row.name for row in table.rows]
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1.0)
    assert any(row["saved if recomputed, bytes"] for row in rows)


def test_it_follows_the_selected_steps_and_the_schedule(window, qtbot, table) -> None:
    before = len(table.rows)
    window.explorer.span.choose((0, 1))
    qtbot.waitUntil(lambda: table.words.text().startswith("Steps 1 to 2:"))
    assert len(table.rows) < before
    assert cells(table, COST) == ["–"] * len(table.rows)  # units are no time
    window.explorer.span.choose(None)
    qtbot.waitUntil(lambda: table.words.text() == NO_STEPS)
    assert table.rows == () and not table.copy.isEnabled()
    window.explorer.span.choose((3, 9))
    qtbot.waitUntil(lambda: table.words.text().startswith("Steps 4 to 10:"))
    smaller(window.session.exploration)  # the selection goes with the schedule
    qtbot.waitUntil(lambda: table.words.text() == NO_STEPS)
    assert window.explorer.span.chosen is None
    qtbot.keyClick(table, Qt.Key.Key_Escape)
    assert not table.isVisible() and not table.prices.busy
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    assert table.isVisible()
