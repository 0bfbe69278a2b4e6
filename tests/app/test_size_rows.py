from __future__ import annotations

import dataclasses
import json

import pytest
from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app.models.scales import InputScale
from app.state.constraint_targets import ConstraintKind
from app.state.solve import BudgetStanding
from checkmate.formats.graph import graph_to_json
from checkmate.graphs.layers import training_graph
from checkmate.graphs.paper import find_network
from checkmate.largest.reach import InputLevels
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.check import check
from checkmate.request import ModelRequest
from tests.app.windows import at_four, training_chain

PATIENCE_MS = 60_000


@pytest.fixture
def row(window, exploration, qtbot):
    window.session.use_graph(at_four())
    row = window.explorer.batch
    qtbot.waitUntil(lambda: row.isEnabled() and len(exploration.known) > 3, timeout=PATIENCE_MS)
    assert row.isVisible()
    return row


def explored(window, qtbot, batch: int) -> None:
    qtbot.waitUntil(lambda: window.session.exploration.graph.batch_size == batch, timeout=PATIENCE_MS)


@pytest.mark.heavy
def test_another_batch_is_said_at_once_and_then_explored_within_the_same_budget(window, qtbot, row) -> None:
    exploration = window.session.exploration
    own, budget = exploration.graph, exploration.plain.peak_bytes
    row.slider.setValue(8)
    assert row.spin.value() == 8 and "Batch 8: " in row.words.whole and "estimated" in row.words.whole
    assert exploration.graph is own  # the views follow later
    explored(window, qtbot, 8)
    assert exploration.graph.fingerprint == BatchScaling(own).at(8).fingerprint
    assert exploration.budget_bytes == budget < exploration.plain.peak_bytes
    assert len(exploration.known) > 2  # what was known at batch 4 is known here
    for found in exploration.known:
        report = check(exploration.graph, found.schedule.steps.tolist())
        assert not report.violations and report.peak_bytes == found.peak_bytes
    assert "scaled from 4, estimated" in window._facts.text() and "measured" not in window._facts.text()
    assert not window.notice.isVisible()
    qtbot.waitUntil(
        lambda: exploration.solve is not None and not exploration.solve.running, timeout=PATIENCE_MS
    )
    assert exploration.standing.fit is BudgetStanding.BEST and exploration.shown.peak_bytes <= budget
    assert not window._export.isEnabled() and "scaled" in window._export.toolTip()


@pytest.mark.heavy
def test_one_click_leads_back_to_all_that_was_known(window, exploration, qtbot, row) -> None:
    exploration.set_budget(int(0.8 * exploration.plain.peak_bytes))
    own, budget, known = exploration.graph, exploration.budget_bytes, len(exploration.known)
    row.spin.setValue(7)
    explored(window, qtbot, 7)
    row.spin.setValue(12)
    explored(window, qtbot, 12)
    assert row.back.text() == "Back to 4" and row.back.isVisible()
    qtbot.mouseClick(row.back, Qt.MouseButton.LeftButton)
    explored(window, qtbot, 4)
    assert exploration.graph is own and exploration.budget_bytes == budget
    assert len(exploration.known) >= known and not row.back.isVisible() and row.spin.value() == 4


@pytest.mark.heavy
def test_a_budget_holds_for_all_batches_and_constraints_stay(window, exploration, qtbot, row) -> None:
    window.selection.select(2)
    window.what_ifs.switch(ConstraintKind.KEEP)
    constraints, plain = exploration.constraints, exploration.plain.peak_bytes
    row.spin.setValue(2)
    explored(window, qtbot, 2)
    assert exploration.budget_bytes == exploration.plain.peak_bytes < plain  # more is never needed here
    assert exploration.constraints == constraints and not constraints.is_empty
    row.spin.setValue(6)
    explored(window, qtbot, 6)
    assert exploration.budget_bytes == plain


@pytest.mark.heavy
def test_the_slider_goes_past_the_batch_that_fits(window, exploration, qtbot, row) -> None:
    reach = window.batch_scale.reach
    budget = exploration.budget_bytes
    fits = reach.fits(budget)
    assert reach.kept(budget) == 4 <= fits < row.slider.maximum()
    row.spin.setValue(5 * row.slider.maximum())
    explored(window, qtbot, row.spin.value())
    qtbot.waitUntil(lambda: "fits only up to" in row.words.whole, timeout=PATIENCE_MS)
    assert exploration.shown.peak_bytes > budget


def test_the_model_is_profiled_at_the_batch(window, qtbot, monkeypatch) -> None:
    asked = []
    told = {"model": "unet", "batch_size": 4}
    window.session.use_graph(at_four(metadata={"request": told}))
    row = window.explorer.batch
    qtbot.waitUntil(row.isEnabled, timeout=PATIENCE_MS)
    row.spin.setValue(9)
    explored(window, qtbot, 9)
    monkeypatch.setattr(window.session, "profile", asked.append)
    qtbot.mouseClick(row.profile, Qt.MouseButton.LeftButton)
    assert (asked[0].model, asked[0].batch_size) == ("unet", 9)


def test_without_a_batch_there_is_no_slider(window, qtbot) -> None:
    window.session.use_graph(training_chain())
    qtbot.waitUntil(lambda: len(window.session.exploration.known) > 3, timeout=PATIENCE_MS)
    assert not window.explorer.batch.isVisible()


@pytest.mark.heavy
def test_what_is_scaled_from_a_scaled_graph_leads_back_to_the_first(window, exploration, qtbot, row) -> None:
    own = exploration.graph
    row.spin.setValue(8)
    explored(window, qtbot, 8)
    window.session.use_graph(BatchScaling(exploration.graph).at(10))  # as the search's answers are
    assert window.batch_scale.base is own and row.spin.value() == 10
    window.batch_scale.way_back()
    explored(window, qtbot, 4)
    assert exploration.graph is own


LEVELS = InputLevels((128, 128, 3), (32, 32))
BASE = ModelRequest("unet", batch_size=2, input_shape=(128, 128, 3))


def traced(request: ModelRequest):
    network = find_network("paper.unet").network(request.input_shape)
    graph = training_graph(network, request.batch_size)
    return dataclasses.replace(graph, metadata={"request": json.loads(json.dumps(request.to_json()))})


class FakeTracer(QObject):
    """Answers with the network's step, or with a refusal, a little later."""

    traced, failed = Signal(bytes), Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[ModelRequest] = []
        self.refusal = ""

    def ask(self, request: ModelRequest) -> None:
        self.asked.append(request)
        QTimer.singleShot(10, self, lambda: self._answer(request))

    def _answer(self, request: ModelRequest) -> None:
        if self.refusal:
            self.failed.emit(self.refusal)
        else:
            self.traced.emit(json.dumps(graph_to_json(traced(request))).encode())

    def forget(self) -> None:
        """Have nothing to forget."""

    def close(self) -> None:
        """Have nothing to close."""


@pytest.fixture
def scale(window, qtbot) -> InputScale:
    made = window.input_scale
    made._tracer.traced.disconnect()
    made._tracer = FakeTracer()
    made._tracer.traced.connect(made._on_traced)
    made._tracer.failed.connect(made._on_failed)
    window.session.use_graph(traced(BASE))
    window.session.stop_solve()
    return made


def prepared(window, qtbot, scale: InputScale):
    row = window.explorer.input_size
    qtbot.waitUntil(row.offer.isEnabled, timeout=PATIENCE_MS)  # with the row that it is in
    qtbot.mouseClick(row.offer, Qt.MouseButton.LeftButton)
    assert not row.offer.isVisible() and "Tracing" in row.words.whole
    qtbot.waitUntil(lambda: scale.reach is not None and not scale.busy, timeout=PATIENCE_MS)
    return row


def input_explored(window, qtbot, level: int) -> None:
    shape = list(LEVELS.at(level))
    exploration = window.session.exploration
    qtbot.waitUntil(
        lambda: exploration.graph.metadata["request"]["input_shape"] == shape, timeout=PATIENCE_MS
    )


def test_nothing_is_traced_until_somebody_asks(window, qtbot, scale) -> None:
    row = window.explorer.input_size
    assert row.offer.isVisible() and not row.isVisible() and scale._tracer.asked == []
    prepared(window, qtbot, scale)
    assert [one.input_shape for one in scale._tracer.asked] == [(160, 160, 3), (192, 192, 3)]
    assert all(one.batch_size == 2 for one in scale._tracer.asked) and row.slider.isVisible()
    assert row.size_words.text() == "128 × 128"
    window.session.use_graph(dataclasses.replace(traced(BASE), metadata={}))
    assert not row.isVisible() and not row.offer.isVisible()  # nobody knows what its input is


@pytest.mark.heavy
def test_another_size_is_said_at_once_and_then_traced_and_explored(window, exploration, qtbot, scale) -> None:
    row = prepared(window, qtbot, scale)
    own, budget = exploration.graph, exploration.plain.peak_bytes
    qtbot.waitUntil(lambda: len(exploration.known) > 2, timeout=PATIENCE_MS)
    row.slider.setValue(7)
    assert row.size_words.text() == "224 × 224" and "all kept, estimated" in row.words.whole
    said = scale.reach.plain.peak(7)
    assert exploration.graph is own  # the views follow later
    input_explored(window, qtbot, 7)
    assert exploration.plain.peak_bytes == said and exploration.budget_bytes == budget < said
    assert len(exploration.known) > 2  # what was known is known here
    for found in exploration.known:
        report = check(exploration.graph, found.schedule.steps.tolist())
        assert not report.violations and report.peak_bytes == found.peak_bytes
    assert row.back.isVisible() and row.slider.value() == 7
    qtbot.waitUntil(lambda: exploration.solve is not None, timeout=PATIENCE_MS)  # for the budget there
    qtbot.mouseClick(row.back, Qt.MouseButton.LeftButton)
    input_explored(window, qtbot, 4)
    assert exploration.graph is own and not row.back.isVisible() and row.slider.value() == 4


def test_what_cannot_be_traced_is_said(window, exploration, qtbot, scale) -> None:
    row = prepared(window, qtbot, scale)
    own = exploration.graph
    scale._tracer.refusal = "the input is too small"
    row.slider.setValue(1)
    qtbot.waitUntil(lambda: row.words.whole == "the input is too small", timeout=PATIENCE_MS)
    assert exploration.graph is own
