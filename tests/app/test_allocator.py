from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtWidgets import QApplication, QToolTip

from app.models.exploration import Exploration
from app.models.span import Scale
from app.presenters.bands import NOTHING, ON_CPU, ORIGIN, Bands, Grouping, PlacedBlocks
from app.workers.client import DIED
from checkmate.ir import Device, GraphBuilder
from checkmate.memory.placement import FIXED, place
from checkmate.processes.messages import JobFailed
from checkmate.units import format_bytes
from tests.app.test_timeline import drag, drawn, move, on_curve, opened, turn
from tests.app.windows import cursor_line, exploration_of
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph

pytestmark = pytest.mark.heavy  # buffers are placed in a process
CARD = Device("card", "gpu", 1 << 34)


def placed(shown, grouping: Grouping = Grouping.KIND) -> PlacedBlocks:
    placement = place(shown.graph, shown.schedule, shown.timeline)
    assert placement is not None
    return PlacedBlocks.of(Bands.of(shown, grouping), placement)


@pytest.mark.parametrize("grouping", list(Grouping))
def test_each_pixel_is_the_block_at_its_address(grouping: Grouping) -> None:
    exploration, checked = Exploration(), 0
    for seed in range(30):
        exploration.set_graph(replace(random_graph(Random(seed)), device=CARD if seed % 2 else None))
        blocks = placed(exploration.shown, grouping)
        place, steps = blocks.placement, np.arange(len(exploration.shown.schedule.steps))
        if not place.top:
            continue
        top = 256 * 8  # so that every pixel is 256 bytes; regions are far larger
        owners = blocks.owners(steps, 8, float(top))
        for (step, row), owner in np.ndenumerate(owners):
            begins, ends = place.address[blocks.order], (place.address + place.chunk)[blocks.order]
            here = (begins <= 256 * row) & (ends >= 256 * (row + 1))
            here &= (place.born[blocks.order] <= step) & (step <= place.last[blocks.order])
            assert np.flatnonzero(here).tolist() == ([] if owner == NOTHING else [owner])
            checked += owner != NOTHING
            if owner != NOTHING and blocks.value_of(owner) >= 0:
                buffer = int(blocks.buffer[owner])
                band = int(np.flatnonzero(blocks.bands.buffer == buffer)[0])
                assert blocks.group[owner] == blocks.bands.group[band]
    assert checked > 100


def test_small_blocks_are_drawn_by_how_full_the_memory_is() -> None:
    exploration = exploration_of(replace(training_dag(3, 500), device=CARD))
    blocks = placed(exploration.shown)
    steps, height = np.arange(0, len(exploration.shown.schedule.steps), 5), 30
    owners = blocks.owners(steps, height, float(blocks.placement.top))
    filled = (owners != NOTHING).mean(axis=1)
    share = blocks.placement.allocated[steps] / blocks.placement.top
    assert np.abs(filled - share).mean() < 0.1
    assert (owners >= blocks.count).any()
    # Zoomed in, the same place shows single blocks.
    part = blocks.owners(steps, height, blocks.placement.top / 20)
    assert ((part >= 0) & (part < blocks.count)).sum() > ((owners >= 0) & (owners < blocks.count)).sum()


def test_blocks_of_a_graph_without_values_are_listed_and_selected(window) -> None:
    builder = GraphBuilder("no values")
    builder.op("log", [], [], workspace_bytes=1 << 20)
    exploration = exploration_of(builder.build(fixed_bytes=1 << 20))
    blocks = placed(exploration.shown)
    assert {row[0] for row in blocks.table().rows} == {"workspace", "fixed"}
    item = window.explorer.allocator.bands
    item._bands = blocks
    item.select(0)
    assert not item._is_selected(blocks).any()


def with_addresses(window, qtbot):
    exploration, explorer = opened(window, qtbot)
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    settle(window, qtbot)
    return exploration, explorer


def settle(window, qtbot) -> None:
    drawn(window, qtbot)
    placing, later = window.explorer.placing, window.explorer.allocator._later
    qtbot.waitUntil(lambda: not placing.busy and not later.isActive(), timeout=20000)
    drawn(window, qtbot)


def find(view, wanted) -> QPoint:
    area = view.getPlotItem().vb.sceneBoundingRect()
    for y in np.arange(area.top() + 2, area.bottom(), 3):
        for x in np.arange(area.left() + 2, area.right(), 5):
            at = view.mapFromScene(QPointF(x, y))
            if wanted(view.owner_at(QPointF(at))):
                return at
    raise AssertionError("no such block is on screen")


def test_the_view_comes_and_goes_by_key_menu_and_button(window, qtbot) -> None:
    _, explorer = opened(window, qtbot)
    curve, view = explorer.curve, explorer.allocator
    assert not view.isVisible() and view.placed is None and not explorer.placing.busy
    before = curve.height()
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    settle(window, qtbot)
    assert view.isVisible() and view.placed is not None and curve.height() < before
    assert view.mapTo(window, QPoint(0, 0)).y() > curve.mapTo(window, QPoint(0, 0)).y()
    bar = explorer.span_bar
    qtbot.mouseClick(bar.ways, Qt.MouseButton.LeftButton)
    assert bar.addresses.isChecked()
    bar.menu.setActiveAction(bar.addresses)
    qtbot.keyClick(bar.menu, Qt.Key.Key_Return)
    drawn(window, qtbot)
    assert not view.isVisible() and curve.height() == before


def test_steps_are_below_each_other_and_zoom_together(window, qtbot) -> None:
    _, explorer = with_addresses(window, qtbot)
    curve, view, span = explorer.curve, explorer.allocator, explorer.span
    for step in (3, 40, 70):
        assert abs(cursor_line(curve, step).x1() - cursor_line(view, step).x1()) <= 1
    at = on_curve(view, 40)
    for _ in range(3):
        turn(view, at, 1)
    settle(window, qtbot)
    assert 0 < span.begin < 40 < span.end < span.count
    assert curve.getPlotItem().vb.viewRange()[0] == view.getPlotItem().vb.viewRange()[0]
    view.setFocus()
    begin = span.begin
    qtbot.keyClick(view, Qt.Key.Key_D)
    assert span.begin > begin
    qtbot.keyClick(view, Qt.Key.Key_Home)
    assert span.is_whole
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_T)
    settle(window, qtbot)
    assert view.getPlotItem().getAxis("bottom").labelText == "cost"
    assert abs(cursor_line(curve, 40).x1() - cursor_line(view, 40).x1()) <= 1
    drag(view, on_curve(view, 20), on_curve(view, 30))
    assert span.chosen == (20, 30) and view._chosen.isVisible() and curve._chosen.isVisible()
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert span.chosen is None and not view._chosen.isVisible()
    window.playhead.seek(33)
    assert view._line.value() == curve._line.value()


def test_a_block_says_what_it_is_and_a_click_selects_its_op(window, qtbot) -> None:
    exploration, explorer = with_addresses(window, qtbot)
    view, shown, timeline = explorer.allocator, exploration.shown, exploration.shown.timeline
    blocks = view.placed
    at = find(view, lambda owner: blocks.value_of(owner) >= 0)
    owner = view.owner_at(QPointF(at))
    block, value = int(blocks.order[owner]), blocks.value_of(owner)
    buffer = int(blocks.placement.buffer[block])
    move(view.viewport(), at)
    words = QToolTip.text()
    assert shown.graph.values[value].name in words
    assert f"at address {format_bytes(int(blocks.placement.address[block]))}" in words
    assert format_bytes(int(timeline.buffer_bytes[buffer])) in words
    assert f"made in step {int(timeline.buffer_born[buffer]) + 1}" in words
    assert f"freed after step {int(timeline.buffer_last[buffer]) + 1}" in words
    before = view.grab().toImage()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=at)
    assert window.selection.op == shown.graph.producer[value] and window.selection.value == value
    assert window.playhead.step == view.step_at(QPointF(at))
    settle(window, qtbot)
    assert view.grab().toImage() != before
    before = view.grab().toImage()
    window.selection.select(-1)
    assert view.grab().toImage() != before


def test_gaps_say_how_much_is_free_and_how_split_it_is(window, qtbot) -> None:
    _, explorer = with_addresses(window, qtbot)
    view = explorer.allocator
    place = view.placed.placement
    step = int(np.argmax(place.free_chunks))
    assert place.free_chunks[step] > 1
    line = cursor_line(view, step)
    places = [QPoint(round(line.x1()), y) for y in range(math.ceil(line.y1()), math.floor(line.y2()))]
    gaps = [
        at for at in places if view.owner_at(QPointF(at)) == NOTHING and view.step_at(QPointF(at)) == step
    ]
    move(view.viewport(), gaps[len(gaps) // 2])
    free, chunks = format_bytes(place.free_bytes(step)), place.free_chunks[step]
    largest = format_bytes(int(place.largest_free[step]))
    assert f"free but split: {free} in {chunks} chunks, the largest {largest}" in QToolTip.text()
    assert f"{format_bytes(int(place.requested[step]))} requested" in QToolTip.text()
    assert QToolTip.text().startswith("free\n")


def test_lines_are_what_is_requested_and_what_is_taken(window, qtbot) -> None:
    exploration, explorer = with_addresses(window, qtbot)
    view = explorer.allocator
    place, unit = view.placed.placement, view._unit
    assert view._lines[0].yData.max() * unit == pytest.approx(exploration.shown.peak_bytes)
    assert view._lines[1].yData.max() * unit == pytest.approx(place.allocated.max())
    assert view._top.value() * unit == pytest.approx(place.top)
    words = [entry.words for entry in view.legend_entries()]
    assert words[0] == f"requested ≤ {format_bytes(exploration.shown.peak_bytes)}"
    assert words[1] == f"chunks ≤ {format_bytes(int(place.allocated.max()))}"
    assert view._top.label.toPlainText() == f"top {format_bytes(place.top)}"
    assert {"activations", "gradients"} <= set(words)
    move(view.viewport(), QPoint(30, 5))
    assert QToolTip.text().startswith(f"{ORIGIN}\n{ON_CPU}\n")
    assert view.accessibleDescription() == f"{ORIGIN}. {ON_CPU}"
    assert (place.buffer == FIXED).sum() == 1


def test_another_schedule_is_placed_and_the_old_picture_stays_meanwhile(window, qtbot) -> None:
    exploration, explorer = with_addresses(window, qtbot)
    view, first = explorer.allocator, explorer.allocator.placed
    image = view.bands._image.copy()
    exploration.show(exploration.plain)
    assert explorer.placing.busy and view.placed is first
    QApplication.processEvents()
    view._draw()
    assert view.bands._image == image
    assert view._words.isVisible() and view._words.toPlainText() == "of the schedule before"
    assert next(one for one in explorer.saver.views if one.name == "Addresses").data.view_table() is None
    settle(window, qtbot)
    assert not view._words.isVisible()
    assert view.placed.shown is exploration.plain and view.bands._image != image
    exploration.show(exploration.known[0])
    assert not explorer.placing.busy  # it is known already
    settle(window, qtbot)
    assert view.placed.shown is exploration.known[0]


def test_what_went_wrong_with_a_schedule_is_not_said_of_the_next(window, qtbot) -> None:
    exploration, explorer = with_addresses(window, qtbot)
    placing, view = explorer.placing, explorer.allocator
    exploration.show(exploration.plain)
    placing._on_failed(JobFailed(1, DIED, "the placer process ended", ""))
    view._draw()
    assert view._words.toPlainText() == "the placer process ended\nof the schedule before"
    told: list[str] = []
    placing.changed.connect(lambda: told.append(placing.problem))
    exploration.show(exploration.plain)  # asks again
    assert placing.busy and told == [""]
    view._draw()
    assert view._words.toPlainText() == "of the schedule before"
    settle(window, qtbot)
    assert not view._words.isVisible() and view.placed.shown is exploration.plain


def test_bytes_zoom_with_ctrl_and_keys_and_all_come_back(window, qtbot) -> None:
    _, explorer = with_addresses(window, qtbot)
    span = explorer.span
    explorer.span.group_by(Grouping.LAYER)
    settle(window, qtbot)
    for view, scale in ((explorer.curve, Scale.LIVE), (explorer.allocator, Scale.ADDRESSES)):
        whole, steps = view.getPlotItem().vb.viewRange()[1], (span.begin, span.end)
        at = on_curve(view, 40)
        under = view.getPlotItem().vb.mapSceneToView(view.mapToScene(at)).y()
        for _ in range(4):
            turn(view, at, 1, Qt.KeyboardModifier.ControlModifier)
        settle(window, qtbot)
        low, high = view.getPlotItem().vb.viewRange()[1]
        assert whole[0] < low < under < high < whole[1] and (span.begin, span.end) == steps
        assert high - low == pytest.approx((whole[1] - whole[0]) / 1.3**4)
        assert view.getPlotItem().vb.mapSceneToView(view.mapToScene(at)).y() == pytest.approx(under, rel=0.02)
        item = view.bands
        assert item._place.top() == pytest.approx(low) and item._place.bottom() == pytest.approx(high)
        view.setFocus()
        qtbot.keyClick(view, Qt.Key.Key_Up)
        assert span.heights[scale][0] > low / whole[1]
        qtbot.keyClick(view, Qt.Key.Key_Down)
        qtbot.keyClick(view, Qt.Key.Key_W, Qt.KeyboardModifier.ShiftModifier)
        shown = span.heights[scale]
        assert shown[1] - shown[0] == pytest.approx(1 / 1.3**5)
        qtbot.keyClick(view, Qt.Key.Key_S, Qt.KeyboardModifier.ShiftModifier)
        settle(window, qtbot)
        assert explorer.span_bar.whole.isVisible() and not span.is_whole
        qtbot.mouseDClick(view.viewport(), Qt.MouseButton.LeftButton, pos=at)
        settle(window, qtbot)
        assert span.is_whole and view.getPlotItem().vb.viewRange()[1] == pytest.approx(whole)


def test_ten_thousand_ops_are_placed_beside_the_event_loop(window, exploration, qtbot) -> None:
    """Test it generously: what takes longer would be seen as a stall."""
    explorer = window.explorer
    exploration.set_graph(training_dag(3, 5000))
    drawn(window, qtbot)
    ticks = [time.perf_counter()]
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    while explorer.placing.busy:
        QApplication.processEvents()
        ticks.append(time.perf_counter())
    assert len(ticks) > 5 and np.median(np.diff(ticks)) < 0.1
    settle(window, qtbot)
    at, seconds = on_curve(explorer.allocator, 6000), []
    for notch in (1,) * 8 + (-1,) * 8:
        begun = time.perf_counter()
        turn(explorer.allocator, at, notch)
        settle(window, qtbot)
        seconds.append(time.perf_counter() - begun)
    assert np.median(seconds) < 1.0


def test_work_that_takes_long_says_how_far_it_is_and_stops_for_another_schedule(window, qtbot) -> None:
    exploration, explorer = window.session.exploration, window.explorer
    exploration.set_graph(training_dag(3, 15_000))
    drawn(window, qtbot)
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    words = explorer.allocator._words
    qtbot.waitUntil(lambda: words.isVisible() and "%" in words.toPlainText(), timeout=60000)
    assert 0 <= explorer.placing.share < 1
    exploration.set_graph(training_dag(3, 40))
    settle(window, qtbot)
    assert not words.isVisible() and explorer.allocator.placed.shown is exploration.shown


def test_a_killed_process_is_told_and_the_next_schedule_is_placed(window, qtbot) -> None:
    exploration, explorer = opened(window, qtbot)
    exploration.set_graph(training_dag(3, 15_000))
    drawn(window, qtbot)
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    qtbot.waitUntil(lambda: explorer.placing.client.process.pid > 0)
    os.kill(explorer.placing.client.process.pid, signal.SIGKILL)
    qtbot.waitUntil(lambda: bool(explorer.placing.problem), timeout=20000)
    drawn(window, qtbot)
    qtbot.waitUntil(lambda: "placer process ended" in explorer.allocator._words.toPlainText())
    exploration.set_graph(training_dag(3, 40))
    settle(window, qtbot)
    assert explorer.allocator.placed.shown is exploration.shown and not explorer.placing.problem


def test_nothing_is_placed_for_a_view_that_is_hidden(window, qtbot) -> None:
    exploration, explorer = with_addresses(window, qtbot)
    placing = explorer.placing
    assert placing.client.process.running
    qtbot.keyClick(explorer.graph_view, Qt.Key.Key_V, Qt.KeyboardModifier.ShiftModifier)
    assert not placing.client.process.running
    exploration.set_graph(training_dag(4, 40))
    assert not placing.busy and placing.found is None and not placing.client.process.running
