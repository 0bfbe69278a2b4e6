from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from app.models import opening
from app.models.recovery import Recent, Recovery
from checkmate.formats.graph import graph_to_json, write_graph
from checkmate.ir import Graph
from checkmate.processes.messages import Cancel, JobCancelled, JobProgress, Message
from checkmate.progress import Progress
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from checkmate.workers.window_messages import ProfiledGraph
from tests.app.windows import training_chain

pytestmark = pytest.mark.heavy  # costs are measured in processes

LAYERS = 8


def model(factor: float = 1.0, layers: int = LAYERS) -> Graph:
    """Return a step whose costs are ``factor`` times those of another profile."""
    graph = training_chain(layers)
    ops = tuple(replace(op, cost=factor * op.cost * (1 + at % 3)) for at, op in enumerate(graph.ops))
    return replace(graph, name="model", ops=ops, metadata={"request": ModelRequest("unet").to_json()})


class Device:
    """Act as the device process: say what the test chooses, send nothing."""

    def __init__(self, window: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.session, self.sent, self.stops = window.session, [], 0
        monkeypatch.setattr(self.session.device, "send", self.sent.append)
        monkeypatch.setattr(self.session.device.process, "stop", self._stop)

    def _stop(self) -> None:
        self.stops += 1

    def says(self, kind: type[Message], graph: Graph | None = None, **facts: Any) -> None:
        if graph is not None:
            facts = {"estimated": False, **facts, "graph": json.dumps(graph_to_json(graph)).encode()}
        self.session.device._on_received(kind(job=self.sent[-1].job, **facts))


@pytest.fixture
def device(window, monkeypatch) -> Device:
    return Device(window, monkeypatch)


def estimated(window, qtbot, device: Device) -> None:
    window.open("unet")
    with qtbot.waitSignal(window.session.exploration.passing_changed, timeout=20000):
        device.says(ProfiledGraph, model(), estimated=True)


def test_estimates_are_explored_until_the_measured_costs_come(window, qtbot, device: Device) -> None:
    exploration = window.session.exploration
    estimated(window, qtbot, device)
    assert window.explorer.isVisible() and window.measuring.isVisible() and not window._export.isEnabled()
    assert "estimates" in window.measuring._words.text() and "wait" in window.explorer.solving._status.text()
    device.says(JobProgress, progress=Progress("measure", 3.0, 11.0, "run 2"))
    assert "run 2" in window.measuring._words.text()
    with qtbot.waitSignal(exploration.graph_changed, timeout=20000):
        device.says(ProfiledGraph, model(2.0))
    assert exploration.graph.base_cost == model(2.0).base_cost and not exploration.passing
    assert window.measuring.isHidden() and window._export.isEnabled() and not window.session.device_busy
    assert "Move the budget" in window.explorer.solving._status.text()


def test_a_measurement_comes_before_questions(window, exploration, qtbot, device: Device, chain_open) -> None:
    window.session.solve()
    assert exploration.solve.running
    window.open("unet")
    assert not exploration.solve.running and not window.session.solver.running
    with qtbot.waitSignal(exploration.passing_changed, timeout=20000):
        device.says(ProfiledGraph, model(), estimated=True)
    budget = int(0.7 * exploration.plain.peak_bytes)
    window.explorer.budget.choose(budget)
    window.session.constrain(Constraints(recompute_gradients=False))
    window.session.solve()
    assert exploration.solve is None and not window.session.solver.running
    with qtbot.waitSignal(window.session.settled, timeout=60000):
        device.says(ProfiledGraph, model(2.0))
    assert exploration.budget_bytes == budget and exploration.shown.peak_bytes <= budget
    assert exploration.shown.graph.base_cost == model(2.0).base_cost
    assert exploration.constraints == Constraints(recompute_gradients=False)


def test_estimates_can_be_kept(window, exploration, qtbot, device: Device) -> None:
    estimated(window, qtbot, device)
    window.explorer.budget.choose(int(0.7 * exploration.plain.peak_bytes))
    window.measuring.keep.click()
    assert isinstance(device.sent[-1], Cancel)
    with qtbot.waitSignal(window.session.settled, timeout=60000):  # of what was asked meanwhile
        device.says(JobCancelled)
    assert exploration.graph.name == "model" and not exploration.passing and window.measuring.isHidden()
    assert exploration.shown.peak_bytes <= exploration.budget_bytes < exploration.plain.peak_bytes
    assert window._export.isEnabled()


def test_reading_of_measured_costs_can_be_abandoned(window, exploration, qtbot, device: Device) -> None:
    estimated(window, qtbot, device)
    device.says(ProfiledGraph, model(2.0))
    window.session.cancel_device()
    assert not exploration.passing and not window.session.device_busy and window.measuring.isHidden()
    qtbot.wait(200)
    assert exploration.graph.base_cost == model().base_cost


def test_a_device_process_that_dies_leaves_the_estimates(window, qtbot, device: Device) -> None:
    estimated(window, qtbot, device)
    window.session.device._on_died("The worker process ended (signal 9). Nothing was lost.")
    assert window.explorer.isVisible() and not window.session.exploration.passing
    assert "signal 9" in window.notice.text and not window.session.device_busy


def test_an_opened_file_takes_the_place_of_a_profile(window, exploration, qtbot, device, tmp_path) -> None:
    estimated(window, qtbot, device)
    job = device.sent[-1].job
    write_graph(tmp_path / "other.json", training_chain(5))
    window.open(str(tmp_path / "other.json"))
    assert exploration.graph.n == training_chain(5).n and not exploration.passing and device.stops == 1
    body = json.dumps(graph_to_json(model(2.0))).encode()
    window.session.device._on_received(ProfiledGraph(job, False, body))  # sent before it was stopped
    qtbot.wait(200)
    assert exploration.graph.n == training_chain(5).n and window.measuring.isHidden()


def test_a_file_that_does_not_open_leaves_the_profile_alone(window, qtbot, device, tmp_path) -> None:
    estimated(window, qtbot, device)
    (tmp_path / "bad.json").write_text("{}")
    window.open(str(tmp_path / "bad.json"))
    assert window.session.exploration.passing and device.stops == 0 and window.measuring.isVisible()
    with qtbot.waitSignal(window.session.device_ended, timeout=20000):
        device.says(ProfiledGraph, model(2.0))
    assert window.session.exploration.graph.base_cost == model(2.0).base_cost


def test_a_file_being_read_is_wanted_last(window, exploration, qtbot, device, tmp_path, monkeypatch) -> None:
    estimated(window, qtbot, device)
    write_graph(tmp_path / "other.json", training_chain(5))
    monkeypatch.setattr(opening, "LARGE_BYTES", 0)
    with qtbot.waitSignal(exploration.graph_changed, timeout=20000):
        window.open(str(tmp_path / "other.json"))
        device.says(ProfiledGraph, model(2.0))
        assert not window.session.device_busy and exploration.graph.name == "model"
    assert exploration.graph.n == training_chain(5).n and not exploration.passing
    qtbot.wait(200)
    assert exploration.graph.n == training_chain(5).n


def test_a_second_profile_ends_the_first(window, exploration, qtbot, device: Device) -> None:
    estimated(window, qtbot, device)
    window.open("resnet")
    assert device.stops == 1 and not exploration.passing and window._start.isVisible()
    with qtbot.waitSignal(exploration.passing_changed, timeout=20000):
        device.says(ProfiledGraph, model(layers=5), estimated=True)
    assert exploration.graph.n == model(layers=5).n


def test_the_view_stays_when_measured_costs_arrive(window, qtbot, device: Device) -> None:
    estimated(window, qtbot, device)
    view = window.explorer.graph_view
    view.zoom(1.7)
    percent, offset = view.zoom_percent, view._offset
    with qtbot.waitSignal(window.session.device_ended, timeout=20000):
        device.says(ProfiledGraph, model(2.0))
    assert (view.zoom_percent, view._offset) == (percent, offset)


def test_replaced_estimates_are_not_listed_as_recent(window, exploration, qtbot, device, tmp_path) -> None:
    recent = Recent(tmp_path / "recent")
    recovery = Recovery(exploration, tmp_path / "sessions", recent=recent)
    estimated(window, qtbot, device)
    with qtbot.waitSignal(recovery.saved, timeout=20000):
        recovery._save()
    with qtbot.waitSignal(window.session.device_ended, timeout=20000):
        device.says(ProfiledGraph, model(2.0))
    assert not recent.entries()
    with qtbot.waitSignal(recovery.saved, timeout=20000):
        recovery._save()
    recovery.close()
    assert [entry.name for entry in recent.entries()] == ["model"]
