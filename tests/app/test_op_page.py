"""Test the page of one op.

It says what the graph says, and leads on to other ops.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import Qt

from app.presenters.bands import Grouping
from app.presenters.op_page import facts, made, read, readers, value_words
from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_graph
from checkmate.ir.graph import CostOrigin, CostUnit, Device, GraphBuilder, Value
from checkmate.units import format_bytes
from tests.app.windows import open_chain, training_chain

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
        assert sorted(link.name for link in made(graph, op)) == sorted(
            graph.values[value].name for value in entry.outputs
        )
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


@pytest.mark.qt_log_ignore("This plugin does not support")  # a floating panel, without a screen
def test_links_lead_to_producers_and_readers_and_back(window, qtbot) -> None:
    open_chain(window, qtbot)
    graph, inspector = window.session.exploration.graph, window.explorer.inspector
    window.selection.select(5)
    assert [text[1] for text in inspector.read.texts] == [
        graph.values[value].name
        for value in sorted(graph.ops[5].inputs, key=lambda v: -graph.values[v].bytes)
    ]
    first = inspector.read.links[0]
    window.explorer.area.docks["inspector"].setFloating(True)
    window.explorer.area.docks["inspector"].resize(380, 900)
    qtbot.wait(100)
    qtbot.mouseClick(inspector.read.buttons[0], LEFT)
    assert (window.selection.op, window.selection.value) == (first.op, first.value)
    assert graph.producer[first.value] == first.op and first.value in graph.ops[5].inputs
    marked = [button for button in inspector.made.buttons if button.isChecked()]
    assert [button.whole for button in marked] == [graph.values[first.value].name]
    number = next(place for place, link in enumerate(inspector.readers.links) if link.op == 5)
    for key in (Qt.Key.Key_Space, Qt.Key.Key_Return):
        window.selection.select(first.op)
        inspector.readers.buttons[number].setFocus()
        qtbot.keyClick(inspector.readers.buttons[number], key)
        assert window.selection.op == 5 and not window.playhead.playing
    assert window.explorer.layers._list.currentIndex().data() == graph.ops[5].group
    window.explorer.area.docks["inspector"].setFloating(False)


def test_a_value_that_is_made_can_be_selected_as_a_band(window, qtbot) -> None:
    window.explorer.span.group_by(Grouping.LAYER)
    open_chain(window, qtbot)
    window.selection.select(4)
    inspector, graph = window.explorer.inspector, window.session.exploration.graph
    qtbot.mouseClick(inspector.made.buttons[0], LEFT)
    assert (window.selection.op, window.selection.value) == (4, graph.ops[4].outputs[0])
    assert inspector.made.buttons[0].isChecked()
    qtbot.wait(100)
    bands = window.explorer.curve._bands[2]
    chosen = np.flatnonzero(window.explorer.curve.bands._is_selected(bands))
    assert {bands.value_of(int(band)) for band in chosen} == {graph.ops[4].outputs[0]}


def test_readers_are_done_now_and_next(window) -> None:
    shown = shown_of(window, training_chain())
    steps = shown.schedule.steps.tolist()
    readings = readers(shown, 3, now=0)
    at = steps.index(readings[0].op)
    assert readers(shown, 3, now=at)[0].figure == "now"
    assert readers(shown, 3, now=len(steps))[0].figure == "done"
