"""Test the input's size as a slider.

Test what it says between traced sizes, what is explored at one, and the way back. No model is loaded here:
the steps of one of the paper's networks take the place of traces.
"""

from __future__ import annotations

import dataclasses
import json

import pytest
from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app.models.sizes import InputScale
from checkmate.formats.graph import graph_to_json
from checkmate.graphs.layers import training_graph
from checkmate.graphs.paper import find_network
from checkmate.largest.reach import InputLevels
from checkmate.memory.check import check
from checkmate.request import ModelRequest

PATIENCE_MS = 60_000
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


def explored(window, qtbot, level: int) -> None:
    """Wait until the model is explored at this level."""
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
def test_another_size_is_said_at_once_and_then_traced_and_explored(window, qtbot, scale) -> None:
    exploration = window.session.exploration
    row = prepared(window, qtbot, scale)
    own, budget = exploration.graph, exploration.plain.peak_bytes
    qtbot.waitUntil(lambda: len(exploration.known) > 2, timeout=PATIENCE_MS)
    row.slider.setValue(7)
    assert row.size_words.text() == "224 × 224" and "all kept, estimated" in row.words.whole
    said = scale.reach.plain.peak(7)
    assert exploration.graph is own  # the views follow later
    explored(window, qtbot, 7)
    assert exploration.plain.peak_bytes == said and exploration.budget_bytes == budget < said
    assert len(exploration.known) > 2  # what was known is known here
    for found in exploration.known:
        report = check(exploration.graph, found.schedule.steps.tolist())
        assert not report.violations and report.peak_bytes == found.peak_bytes
    assert row.back.isVisible() and row.slider.value() == 7
    qtbot.waitUntil(lambda: exploration.solve is not None, timeout=PATIENCE_MS)  # for the budget there
    qtbot.mouseClick(row.back, Qt.MouseButton.LeftButton)
    explored(window, qtbot, 4)
    assert exploration.graph is own and not row.back.isVisible() and row.slider.value() == 4


def test_what_cannot_be_traced_is_said(window, qtbot, scale) -> None:
    row = prepared(window, qtbot, scale)
    own = window.session.exploration.graph
    scale._tracer.refusal = "the input is too small"
    row.slider.setValue(1)
    qtbot.waitUntil(lambda: row.words.whole == "the input is too small", timeout=PATIENCE_MS)
    assert window.session.exploration.graph is own
