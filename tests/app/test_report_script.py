"""Test that the report's script shows what the program computes.

It is tested on a step and on a cell.
"""

from __future__ import annotations

import json
import math
import random
import re
from datetime import datetime

import pytest
from PySide6.QtQml import QJSEngine

from app.models.exploration import Exploration
from app.presenters.report_page import MOST_STEPS, html_report, scrub_data
from checkmate.catalog.bundled import resource
from checkmate.units import format_bytes
from tests.app.test_compare import smaller
from tests.app.windows import training_chain

WHEN = datetime(2026, 1, 2, 3, 4)


@pytest.fixture
def explored() -> Exploration:
    exploration = Exploration()
    exploration.set_graph(training_chain())
    smaller(exploration)
    return exploration


@pytest.fixture
def call(qapp, explored):
    """Return what calls a function of the script with the page's own data."""
    engine = QJSEngine()
    assert not engine.evaluate(resource("report", "scrub.js").read_text("utf-8")).isError()
    text = html_report(explored.reported(), WHEN)
    written = re.search(r'<script type="application/json" id="scrub-data">(.*?)</script>', text, re.DOTALL)
    assert written is not None and json.loads(written.group(1)) == scrub_data(explored.shown)
    engine.globalObject().setProperty("text", written.group(1))
    assert not engine.evaluate("var data = JSON.parse(text)").isError()

    def run(expression: str):
        found = engine.evaluate(f"JSON.stringify({expression})")
        assert not found.isError(), found.toString()
        return json.loads(found.toString())

    return run


def test_bytes_are_written_as_on_the_rest_of_the_page(call) -> None:
    draw = random.Random(7)
    sizes = [0, 1, 999, 1000, 1023, 12_845_056, 2**40 * 1500] + [
        2**20 * quarter // 4 for quarter in range(400)
    ]
    sizes += [int(math.exp(draw.uniform(0, 32))) for _ in range(2000)]
    assert call(f"{sizes}.map(bytesText)") == [format_bytes(size) for size in sizes]


def test_every_step_says_what_the_timeline_says(call, explored) -> None:
    shown = explored.shown
    graph, timeline, steps = shown.graph, shown.timeline, shown.schedule.steps.tolist()
    assert max(steps.count(op) for op in steps) > 1  # something is computed again
    for step, op in enumerate(steps):
        said = call(f"stepText(data, {step})")
        again = " again" if op in steps[:step] else ""
        wanted = f"Step {step + 1} of {len(steps)}: {graph.ops[op].name}{again}, "
        assert said == wanted + f"{format_bytes(int(timeline.live_bytes[step]))} live"
        rows = call(f"alive(data, {step})")
        buffers = timeline.alive_at(step)
        assert rows[0]["bytes"] == timeline.fixed_bytes
        assert sorted(
            (row["name"], row["bytes"]) for row in rows[1:] if row["name"] != "workspace"
        ) == sorted((graph.values[one.value].name, one.bytes) for one in buffers)
        assert [row["bytes"] for row in rows[1:]] == sorted((row["bytes"] for row in rows[1:]), reverse=True)


def test_every_cell_says_what_r_and_s_say(call, explored) -> None:
    matrices, graph = explored.shown.matrices, explored.shown.graph
    for which, cells in (("R", matrices.R), ("S", matrices.S)):
        row = f'data.order.map((_, column) => cellText(data, "{which}", stage, column))'
        said = call(f"data.order.map((_, stage) => {row})")
        assert [[bool(text) for text in row] for row in said] == cells.tolist()
        stage, column = map(int, (cells.nonzero()[0][-1], cells.nonzero()[1][-1]))
        name = graph.ops[int(matrices.order[column])].name
        assert said[stage][column].startswith(f"{which}, stage {stage + 1}: {name} is ")


def test_a_place_in_the_picture_is_a_step_and_back(call, explored) -> None:
    count = len(explored.shown.schedule.steps)
    assert call(f"[...Array({count}).keys()].map((s) => stepAt(data, shareOf(data, s)))") == list(
        range(count)
    )
    assert call("[stepAt(data, -1), stepAt(data, 0), stepAt(data, 1), stepAt(data, 2)]") == [
        0,
        0,
        count - 1,
        count - 1,
    ]


def test_names_from_a_file_cannot_leave_the_data() -> None:
    from dataclasses import replace

    graph = training_chain(5)
    name = "</script><script>alert('x')</script><!--"
    exploration = Exploration()
    exploration.set_graph(
        replace(graph, ops=tuple(replace(op, name=f"{name}{i}") for i, op in enumerate(graph.ops)))
    )
    text = html_report(exploration.reported(), WHEN)
    assert text.count("<script") == text.count("</script>") == 2 and "alert('x')</script>" not in text
    written = re.search(r'id="scrub-data">(.*?)</script>', text, re.DOTALL)
    assert written is not None and json.loads(written.group(1))["ops"][0] == f"{name}0"


def test_the_page_forbids_to_fetch(explored) -> None:
    text = html_report(explored.reported(), WHEN)
    assert "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:" in text


def test_a_step_that_is_too_long_to_move_through_has_no_script(explored, monkeypatch) -> None:
    assert MOST_STEPS > 20_000
    monkeypatch.setattr("app.presenters.report_page.MOST_STEPS", 5)
    text = html_report(explored.reported(), WHEN)
    assert "<script" not in text and 'id="step"' not in text and "script-src" not in text
