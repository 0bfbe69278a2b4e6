from __future__ import annotations

import dataclasses
import time
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import Qt

from app.presenters.bands import Grouping
from app.presenters.hotspot_rows import View, help_rows, share_rows
from app.presenters.op_page import facts, made, read, readers, value_words
from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_graph
from checkmate.ir import CostOrigin, CostUnit, Device, GraphBuilder, Value
from checkmate.memory.check import check
from checkmate.memory.hotspot import moment
from checkmate.memory.suggestions import SuggestionKind
from checkmate.units import format_bytes
from tests.app.windows import link_texts, open_chain, training_chain

pytestmark = pytest.mark.heavy  # many windows, a second each

LEFT = Qt.MouseButton.LeftButton


def shown_of(window, graph):
    window.session.exploration.set_graph(graph)
    return window.session.exploration.shown


def test_the_page_says_all_that_the_graph_says(window) -> None:
    graph = read_graph(find_graph("unet-b8.graph"))
    shown = shown_of(window, graph)
    for op in range(0, graph.n, 7):
        entry, said = graph.ops[op], dict(facts(shown, op))
        assert said["type"].replace(" + ", "+") == entry.type and said["cost"].endswith("(measured)")
        assert said.get("layer") == (entry.group or "none")
        assert ("workspace" in said) == (entry.workspace_bytes > 0)
        assert graph.device.name in said["device"] and "oneDNN" in said["device"]
        assert ("writes over" in said) == bool(entry.takes_over)
        outputs = sorted(graph.values[value].name for value in entry.outputs)
        assert sorted(link.name for link in made(graph, op)) == outputs
        for link in read(graph, op):
            value = next(value for value in graph.values if value.name == link.name)
            assert link.figure == format_bytes(value.bytes) and link.detail.startswith(value_words(value))
        links = readers(shown, op, now=shown.schedule.steps.tolist().index(op))
        assert all(link.figure in ("next", "") for link in links)


def test_what_is_not_known_is_left_out(window) -> None:
    builder = GraphBuilder("bare")
    value = builder.value("a", 4)
    builder.op("one", [], [value])
    builder.op("two", [value], [], recomputable=False)
    shown = shown_of(window, builder.build())
    assert [name for name, _ in facts(shown, 0)] == ["layer", "cost", "computed"]
    assert dict(facts(shown, 1))["locked"] == "runs once in any case"
    assert [link.detail for link in made(shown.graph, 0)] == [""]
    gpu = replace(
        builder.build(),
        device=Device("", "gpu"),
        cost_unit=CostUnit.SECONDS,
        cost_origin=CostOrigin.ANALYTIC,
        metadata={"kernels": ["what"]},
    )
    said = dict(facts(shown_of(window, gpu), 0))
    assert said["device"] == "GPU" and said["cost"].endswith("(estimated (operations and bytes))")
    assert value_words(Value("a", 4, (), "int32", alias_of=0)) == "scalar int32 · a view"


def test_links_lead_to_producers_and_readers_and_back(window, qtbot, chain_open) -> None:
    graph, inspector = window.session.exploration.graph, window.explorer.inspector
    window.selection.select(5)
    inputs = sorted(graph.ops[5].inputs, key=lambda value: -graph.values[value].bytes)
    assert [text[1] for text in link_texts(inspector.read)] == [graph.values[value].name for value in inputs]
    first = inspector.read.links[0]
    window.explorer.area.docks["inspector"].setFloating(True)
    window.explorer.area.docks["inspector"].resize(380, 900)
    qtbot.wait(100)
    qtbot.mouseClick(inspector.read.lines[0].name, LEFT)
    assert (window.selection.op, window.selection.value) == (first.op, first.value)
    assert graph.producer[first.value] == first.op and first.value in graph.ops[5].inputs
    marked = [line.name for line in inspector.made.lines if line.name.isChecked()]
    assert [button.whole for button in marked] == [graph.values[first.value].name]
    number = next(place for place, link in enumerate(inspector.readers.links) if link.op == 5)
    for key in (Qt.Key.Key_Space, Qt.Key.Key_Return):
        window.selection.select(first.op)
        inspector.readers.lines[number].name.setFocus()
        qtbot.keyClick(inspector.readers.lines[number].name, key)
        assert window.selection.op == 5 and not window.playhead.playing
    assert window.explorer.layers._list.currentIndex().data() == graph.ops[5].group
    window.explorer.area.docks["inspector"].setFloating(False)


def test_a_value_that_is_made_can_be_selected_as_a_band(window, qtbot) -> None:
    window.explorer.span.group_by(Grouping.LAYER)
    open_chain(window, qtbot)
    window.selection.select(4)
    inspector, graph = window.explorer.inspector, window.session.exploration.graph
    qtbot.mouseClick(inspector.made.lines[0].name, LEFT)
    assert (window.selection.op, window.selection.value) == (4, graph.ops[4].outputs[0])
    assert inspector.made.lines[0].name.isChecked()
    qtbot.wait(100)
    bands = window.explorer.curve.answering
    chosen = np.flatnonzero(window.explorer.curve.bands._is_selected(bands))
    assert {bands.value_of(int(band)) for band in chosen} == {graph.ops[4].outputs[0]}


def test_readers_are_done_now_and_next(window) -> None:
    shown = shown_of(window, training_chain())
    steps = shown.schedule.steps.tolist()
    readings = readers(shown, 3, now=0)
    at = steps.index(readings[0].op)
    assert readers(shown, 3, now=at)[0].figure == "now"
    assert readers(shown, 3, now=len(steps))[0].figure == "done"


def opened(window, layers: int = 12):
    """Open a graph without a solver process; put the playhead on its peak. Nothing else moves then."""
    window.session.exploration.set_graph(training_chain(layers))
    window.explorer.transport.go_to_peak()
    return window.session.exploration, window.explorer.inspector


def test_rows_of_every_view_add_up_and_the_first_is_the_largest(window) -> None:
    exploration, _ = opened(window)
    shown = exploration.shown
    now = moment(shown.graph, shown.schedule, shown.timeline, shown.timeline.peak_step)
    for view, shares in (
        (View.VALUES, now.by_value()),
        (View.LAYERS, now.by_layer()),
        (View.REASONS, now.by_reason()),
    ):
        rows = share_rows(now, view)
        assert sum(share.bytes for share in shares) == shown.peak_bytes
        assert len(rows) == len(shares) and rows[0].share == 1.0
        assert [row.figure for row in rows] == [format_bytes(share.bytes) for share in shares]
    assert share_rows(now, View.REASONS)[0].name.startswith("for the backward pass (")


def test_views_follow_the_playhead_and_a_row_selects_its_op(window, qtbot) -> None:
    _, inspector = opened(window)
    page = inspector.memory
    assert page.isVisible() and "· peak" in inspector.note.text()
    for view in (View.VALUES, View.LAYERS, View.REASONS):
        qtbot.mouseClick(page.tabs[view], Qt.MouseButton.LeftButton)
        assert page.view is view and page._list.model().rowCount() == len(page.rows) > 2
    before = [row.figure for row in page.rows]
    window.playhead.seek(2)
    assert [row.figure for row in page.rows] != before and "· peak" not in inspector.note.text()
    page.show_view(View.VALUES)
    at = next(i for i, row in enumerate(page.rows) if row.op >= 0)
    page._list.clicked.emit(page._list.model().index(at, 0))
    assert window.selection.op == page.rows[at].op and not page.isVisible() and inspector.back.isVisible()
    qtbot.mouseClick(inspector.back, Qt.MouseButton.LeftButton)
    assert window.selection.op == -1 and page.isVisible()


def test_suggestions_are_worked_out_in_the_background_and_hold(window, qtbot) -> None:
    exploration, inspector = opened(window, layers=40)
    page, hotspot = inspector.memory, inspector.hotspot
    started = time.perf_counter()
    page.show_view(View.HELPS)
    assert time.perf_counter() - started < 0.25 and hotspot.busy
    qtbot.waitUntil(lambda: not hotspot.busy, timeout=30000)
    shown, found = exploration.shown, [r for r in hotspot.remedies if r.kind is SuggestionKind.RECOMPUTE]
    assert found
    for remedy in found:
        report = check(exploration.graph, remedy.steps.tolist())
        assert report.valid and report.peak_bytes == remedy.peak_bytes < shown.peak_bytes
        assert report.cost == pytest.approx(shown.cost + remedy.cost)
    names = [row.name for row in page.rows]
    assert any(row.detail.startswith("Recompute: ") for row in page.rows)
    assert not any("replaying" in name for name in names)
    assert page.rows == help_rows(exploration.graph, shown, exploration.known, hotspot.remedies)
    window.playhead.seek(0)
    assert hotspot.remedies == []


def test_nothing_is_worked_out_while_the_page_is_hidden(window, qtbot) -> None:
    _, inspector = opened(window)
    inspector.memory.show_view(View.HELPS)
    window.selection.select(3)
    qtbot.wait(300)
    assert not inspector.hotspot.busy and inspector.hotspot.remedies == []
    window.selection.select(-1)
    qtbot.waitUntil(lambda: len(inspector.hotspot.remedies) > 0, timeout=20000)


def test_the_schedules_that_are_offered_are_spread_over_the_frontier(window) -> None:
    exploration, _ = opened(window)
    graph, shown = exploration.graph, exploration.shown

    def offered(*shares: float) -> list[float]:
        known = [
            dataclasses.replace(
                shown,
                point=dataclasses.replace(
                    shown.point, peak_bytes=int(share * shown.peak_bytes), cost=200.0 - share
                ),
            )
            for share in shares
        ]
        return [shares[known.index(row.found)] for row in help_rows(graph, shown, known, [])]

    assert offered(0.995, 0.97, 0.93, 0.88, 0.8, 0.72, 0.69, 0.6, 0.48, 0.3) == [0.88, 0.69, 0.48]
    assert offered(0.995, 0.97, 0.85) == [0.85]  # the lowest, once
    assert offered(0.995) == []


def test_each_row_says_what_the_peak_falls_by(window, qtbot) -> None:
    exploration, inspector = opened(window, layers=40)
    page, hotspot, shown = inspector.memory, inspector.hotspot, exploration.shown
    page.show_view(View.HELPS)
    for step in (shown.timeline.peak_step, shown.timeline.peak_step // 2):
        window.playhead.seek(step)
        qtbot.waitUntil(lambda: not hotspot.busy, timeout=30000)
        assert all(remedy.peak_bytes < shown.peak_bytes for remedy in hotspot.remedies)
        figures = {format_bytes(shown.peak_bytes - remedy.peak_bytes) for remedy in hotspot.remedies}
        assert {row.figure.removeprefix("−") for row in page.rows if row.figure} <= figures
        assert page.rows


def test_known_smaller_schedules_come_first_and_a_click_shows_them(window, qtbot) -> None:
    exploration, inspector = opened(window)
    inspector.memory.show_view(View.HELPS)
    qtbot.waitUntil(lambda: not inspector.hotspot.busy, timeout=20000)
    best = min((r for r in inspector.hotspot.remedies if r.steps is not None), key=lambda r: r.peak_bytes)
    budget = exploration.plain.peak_bytes
    assert exploration.add(best.steps, budget_bytes=budget, solver="by hand", seconds=0.0)
    exploration.show(exploration.plain)
    row = inspector.memory.rows[0]
    assert row.found is exploration.known[0] and "cost" in row.detail
    inspector.memory._list.clicked.emit(inspector.memory._list.model().index(0, 0))
    assert exploration.shown is row.found and exploration.budget_bytes == best.peak_bytes
