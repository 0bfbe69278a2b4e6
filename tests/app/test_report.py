from __future__ import annotations

import base64
import io
import json
import math
import random
import re
from datetime import datetime
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from PySide6.QtQml import QJSEngine
from PySide6.QtSvg import QSvgRenderer

from app.models.exploration import Exploration
from app.presenters.matrix_image import computed_image, held_image
from app.presenters.report_page import MOST_STEPS, html_report, scrub_data
from checkmate.catalog.bundled import resource
from checkmate.units import format_bytes
from tests.app.windows import exploration_of, smaller, training_chain
from tests.safety.test_names import NAMES, Tags, named

WHEN = datetime(2026, 1, 2, 3, 4)
EMPTY = {"meta", "img", "circle", "rect", "line", "polyline", "polygon", "i", "br", "link", "input"}


class Balanced(HTMLParser):
    """Check that every tag is closed, in order; keep text and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag) -> None:
        if tag not in EMPTY:
            assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data) -> None:
        self.text.append(data)


def page(exploration: Exploration) -> tuple[str, Balanced]:
    text, parsed = html_report(exploration.reported(), WHEN), Balanced()
    parsed.feed(text)
    parsed.close()
    assert parsed.open == []
    return text, parsed


def explored() -> Exploration:
    exploration = exploration_of(training_chain())
    smaller(exploration)
    return exploration


def test_page_is_whole_and_fetches_nothing() -> None:
    text, parsed = page(explored())
    assert parsed.addresses
    assert all(address.startswith("data:image/png;base64,") for address in parsed.addresses)
    assert "http:" not in text and "https:" not in text and "@import" not in text
    assert text.count("<script") == text.count("</script>") == 2  # the data, and what shows them
    assert "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:" in text


def test_figures_are_those_of_the_exploration() -> None:
    exploration = explored()
    shown, plain = exploration.shown, exploration.plain
    words = " ".join(page(exploration)[1].text)
    sizes = format_bytes(shown.peak_bytes), format_bytes(plain.peak_bytes)
    assert all(figure in words for figure in (*sizes, f"+{100 * shown.overhead:.1f} %"))
    assert f"{shown.schedule.recomputations} of them recomputed" in words
    assert exploration.graph.fingerprint in words and "2026-01-02 03:04" in words
    assert "for the backward pass" in words and "Recompute: " in words
    assert words.count("keep everything") >= 2


def test_pictures_can_be_drawn() -> None:
    text, _ = page(explored())
    charts = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    assert len(charts) == 2
    for chart in charts:
        whole = chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        assert QSvgRenderer(whole.encode()).isValid()
        numbers = [float(x) for x in re.findall(r'(?:points|cx|cy|x1|y1)="([\d.]+)', chart)]
        assert numbers and all(-1 <= number <= 641 for number in numbers)


def test_matrices_are_in_the_page_cell_by_cell() -> None:
    exploration = explored()
    shown = exploration.shown
    pictures = [base64.b64decode(address.partition(",")[2]) for address in page(exploration)[1].addresses]
    for data, image in zip(pictures, (computed_image, held_image), strict=True):
        drawn = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
        assert np.array_equal(drawn[:, :, 3] > 0, image(shown.graph, shown.matrices, 360) > 0)


def test_window_writes_it_beside_its_work(window, qtbot, tmp_path) -> None:
    session, said = window.session, []
    session.failed.connect(lambda sentence, hint: said.append(sentence))
    assert not session.report(tmp_path / "early.html") and "nothing to report" in said[0]
    session.exploration.set_graph(training_chain())
    with qtbot.waitSignals([session.noticed, session.noticed], timeout=20000):
        assert session.report(tmp_path / "chain.html")
    qtbot.waitUntil(lambda: "Saved" in window.statusBar().currentMessage(), timeout=20000)
    assert (tmp_path / "chain.html").read_text().startswith("<!DOCTYPE html>")
    with qtbot.waitSignal(session.failed, timeout=20000):
        session.report(tmp_path / "nowhere" / "chain.html")
    assert "cannot write" in said[-1]


@pytest.fixture
def script_explored() -> Exploration:
    return explored()


@pytest.fixture
def call(qapp, script_explored):
    engine = QJSEngine()
    assert not engine.evaluate(resource("report", "scrub.js").read_text("utf-8")).isError()
    text = html_report(script_explored.reported(), WHEN)
    written = re.search(r'<script type="application/json" id="scrub-data">(.*?)</script>', text, re.DOTALL)
    assert written is not None and json.loads(written.group(1)) == scrub_data(script_explored.shown)
    engine.globalObject().setProperty("text", written.group(1))
    assert not engine.evaluate("var data = JSON.parse(text)").isError()

    def run(expression: str):
        found = engine.evaluate(f"JSON.stringify({expression})")
        assert not found.isError(), found.toString()
        return json.loads(found.toString())

    return run


def test_bytes_are_written_as_on_the_rest_of_the_page(call) -> None:
    draw = random.Random(7)
    sizes = [0, 1, 999, 1000, 1023, 12_845_056, 2**40 * 1500]
    sizes += [2**20 * quarter // 4 for quarter in range(400)]
    sizes += [int(math.exp(draw.uniform(0, 32))) for _ in range(2000)]
    assert call(f"{sizes}.map(bytesText)") == [format_bytes(size) for size in sizes]


def test_every_step_says_what_the_timeline_says(call, script_explored) -> None:
    shown = script_explored.shown
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
        listed = sorted((row["name"], row["bytes"]) for row in rows[1:] if row["name"] != "workspace")
        assert listed == sorted((graph.values[one.value].name, one.bytes) for one in buffers)
        assert [row["bytes"] for row in rows[1:]] == sorted((row["bytes"] for row in rows[1:]), reverse=True)


def test_every_cell_says_what_r_and_s_say(call, script_explored) -> None:
    matrices, graph = script_explored.shown.matrices, script_explored.shown.graph
    for which, cells in (("R", matrices.R), ("S", matrices.S)):
        row = f'data.order.map((_, column) => cellText(data, "{which}", stage, column))'
        said = call(f"data.order.map((_, stage) => {row})")
        assert [[bool(text) for text in row] for row in said] == cells.tolist()
        stage, column = map(int, (cells.nonzero()[0][-1], cells.nonzero()[1][-1]))
        name = graph.ops[int(matrices.order[column])].name
        assert said[stage][column].startswith(f"{which}, stage {stage + 1}: {name} is ")


def test_a_place_in_the_picture_is_a_step_and_back(call, script_explored) -> None:
    count = len(script_explored.shown.schedule.steps)
    found = call(f"[...Array({count}).keys()].map((s) => stepAt(data, shareOf(data, s)))")
    assert found == list(range(count))
    ends = call("[stepAt(data, -1), stepAt(data, 0), stepAt(data, 1), stepAt(data, 2)]")
    assert ends == [0, 0, count - 1, count - 1]


def test_a_step_that_is_too_long_to_move_through_has_no_script(script_explored, monkeypatch) -> None:
    assert MOST_STEPS > 20_000
    monkeypatch.setattr("app.presenters.report_page.MOST_STEPS", 5)
    text = html_report(script_explored.reported(), WHEN)
    assert "<script" not in text and 'id="step"' not in text and "script-src" not in text


@pytest.mark.parametrize("name", NAMES)
def test_the_page_that_is_shared(name: str, qapp) -> None:
    texts = [html_report(exploration_of(named(each)).reported(), WHEN) for each in ("plain", name)]
    written = re.search(r'id="scrub-data">(.*?)</script>', texts[1], re.DOTALL)
    assert written is not None and json.loads(written.group(1))["ops"][0] == f"{name}0"
    expected, page = map(Tags, texts)
    assert page.odd == expected.odd == []
    assert page.tags.count("script") == expected.tags.count("script")
    assert sorted(set(page.tags)) == sorted(set(expected.tags))
