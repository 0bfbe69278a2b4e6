from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from app.presenters.sizes import (
    AT_ANY_COST,
    COLUMNS,
    BatchAnswer,
    BatchQuestion,
    answer_cells,
    details,
    stairs,
)
from checkmate.formats.graph import graph_from_json
from checkmate.largest.batch import max_batch
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.check import check
from checkmate.solvers.problem import SolveOptions
from tests.app.windows import at_four, larger

pytestmark = pytest.mark.heavy  # batches are searched in processes


def question(budget: int = 2**26, overhead: float | None = None) -> BatchQuestion:
    return BatchQuestion(at_four(), budget, overhead, 5.0)


def test_the_status_says_how_sure_it_is() -> None:
    asked = question()
    found = BatchAnswer(asked, 12, 10, 12)
    assert found.status == "largest, proved"
    assert dataclasses.replace(found, upper_batch=20).status == "none above 20, proved"
    stopped = dataclasses.replace(found, upper_batch=20, cancelled=True)
    assert stopped.status.startswith("stopped") and stopped.status.endswith("none above 20, proved")
    assert BatchAnswer(asked, problem="why").status == "none was found"
    assert BatchAnswer(asked, proved_none=True).status == "not even one example fits, proved"


def test_rows_and_details_say_what_was_found() -> None:
    asked = question(2**30, AT_ANY_COST)
    found = BatchAnswer(asked, 12, 2**29, 13, 8, {"chen": 10}, ((8, 0.0), (12, 0.125)), note="scaled")
    ((budget, cost, batch, extra, peak, _),) = answer_cells([found])
    texts = [cell.text for cell in (budget, cost, batch, extra, peak)]
    assert texts == ["1.00 GiB", "any", "12", "+12.5 %", "512 MiB"] and len(COLUMNS) == 6
    assert details(found) == "Keep everything: 8; chen: 10. Scaled."
    x, y = stairs(found)
    assert x.tolist() == [0, 8, 8, 12] and y.tolist() == [0, 0, 12.5, 12.5]
    none = BatchAnswer(asked, problem="too small")
    assert details(none) == "too small" and {cell.text for cell in answer_cells([none])[0][2:5]} == {"–"}


@pytest.mark.parametrize("overhead", [None, 0.3, math.inf])
def test_choices_rise_and_end_with_the_best(overhead: float | None) -> None:
    graph = at_four()
    budget = check(graph, list(range(graph.n))).peak_bytes * 3 // 2
    found = max_batch(graph, budget, max_overhead=overhead, options=SolveOptions(time_limit_s=2.0))
    batches, costs = zip(*found.choices, strict=True)
    assert list(batches) == sorted(set(batches)) and list(costs) == sorted(costs)
    assert batches[0] == found.plain_batch and costs[0] == pytest.approx(0)
    assert batches[-1] == found.batch
    assert costs[-1] <= found.result.overhead + 1e-9 or costs[-1] == pytest.approx(found.result.overhead)


@pytest.fixture
def dialog(window, qtbot):
    with qtbot.waitSignal(window.session.exploration.known_changed, timeout=20_000):
        window.session.use_graph(at_four())
    window.commands["solve.batch"].trigger()
    made = window.batches.dialog
    made.seconds.setValue(2)
    return made


def searched(dialog, qtbot) -> BatchAnswer:
    count = len(dialog.search.answers)
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert dialog.start.text() == "Stop here"
    qtbot.waitUntil(lambda: len(dialog.search.answers) > count, timeout=60_000)
    return dialog.search.answers[-1]


def test_an_answer_holds_and_opens_as_an_exploration(window, exploration, qtbot, dialog) -> None:
    own, plain = exploration.graph, exploration.plain.peak_bytes
    dialog.budget.setEditText(str(2 * plain))
    answer = searched(dialog, qtbot)
    assert answer.batch > 4 and answer.batch <= answer.upper_batch and dialog.chosen is answer
    assert dialog.start.text() == "Search" and dialog.chart.isVisible()
    body = json.loads(answer.graph_and_schedule)
    graph = graph_from_json(Path("scaled"), body["graph"])
    assert graph.fingerprint == BatchScaling(own).at(answer.batch).fingerprint
    report = check(graph, body["schedule"]["steps"], budget_bytes=2 * plain)
    assert report.ok and report.peak_bytes == answer.peak_bytes
    assert f"batch {answer.batch}" in dialog.open_scaled.text() and not dialog.profile.isEnabled()
    qtbot.mouseClick(dialog.open_scaled, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: exploration.graph.batch_size == answer.batch, timeout=20_000)
    assert exploration.shown.peak_bytes == answer.peak_bytes <= exploration.budget_bytes
    assert "scaled from batch 4" in window.notice.text and "estimated" in window._facts.text()
    assert window.notice.action.text() == "Back to batch 4"
    qtbot.mouseClick(window.notice.action, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: exploration.graph.batch_size == 4, timeout=20_000)
    assert exploration.graph.fingerprint == own.fingerprint and not window.notice.isVisible()


def test_the_searches_for_another_model_are_forgotten(window, exploration, qtbot, dialog) -> None:
    dialog.budget.setEditText(str(2 * exploration.plain.peak_bytes))
    searched(dialog, qtbot)
    qtbot.mouseClick(dialog.open_scaled, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: exploration.graph.batch_size != 4, timeout=20_000)
    assert dialog.search.answers and dialog.table.model().rowCount() == 1  # it is the same model
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    window.session.use_graph(larger(at_four()))
    assert dialog.search.answers == [] and dialog.search.asked is None
    assert dialog.table.model().rowCount() == 0 and not dialog.words.text()
    assert not dialog.open_scaled.isEnabled() and dialog.start.text() == "Search"


def test_a_search_can_be_stopped_and_keeps_the_best_so_far(window, qtbot, dialog) -> None:
    dialog.seconds.setValue(600)
    dialog.budget.setEditText(str(3 * window.session.exploration.plain.peak_bytes))
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "so far" in dialog.words.text() or bool(dialog.search.answers), timeout=60_000)
    if dialog.search.asked is not None:
        qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: dialog.search.asked is None, timeout=30_000)
    assert dialog.search.answers[0].batch >= 4 and dialog.start.text() == "Search"


def test_what_cannot_be_is_said(window, qtbot, dialog) -> None:
    dialog.budget.setEditText("a lot")
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert "cannot read 'a lot'" in dialog.words.text() and dialog.search.asked is None
    dialog.budget.setEditText("")
    qtbot.keyClicks(dialog.budget, "1 MiB")
    count = dialog.budget.count()
    qtbot.keyClick(dialog.budget, Qt.Key.Key_Return)  # searches, and takes no entry in its place
    qtbot.waitUntil(lambda: bool(dialog.search.answers), timeout=60_000)
    answer = dialog.search.answers[0]
    assert dialog.budget.count() == count and answer.question.budget_bytes == 2**20
    assert answer.status == "not even one example fits, proved" and not dialog.open_scaled.isEnabled()
    assert dialog.words.text() == answer.problem and not dialog.chart.isVisible()


def test_the_model_is_profiled_at_that_batch(window, qtbot, dialog, monkeypatch) -> None:
    told = {"model": "unet", "batch_size": 4}
    asked = []
    graph = dataclasses.replace(at_four(), metadata={"request": told})
    window.session.use_graph(graph)
    dialog.budget.setEditText(str(2 * window.session.exploration.plain.peak_bytes))
    answer = searched(dialog, qtbot)
    monkeypatch.setattr(window.session, "profile", asked.append)
    qtbot.mouseClick(dialog.profile, Qt.MouseButton.LeftButton)
    assert asked[0].model == "unet" and asked[0].batch_size == answer.batch
    assert not dialog.isVisible()


def test_closing_the_window_ends_the_search(window, qtbot, dialog) -> None:
    dialog.seconds.setValue(600)
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: dialog.search.client.process.running, timeout=20_000)
    window.batches.close()
    assert not dialog.search.client.process.running and dialog.search.asked is None
