"""A step that does not fit the memory there is cannot be run to measure it: its costs are estimated, and that is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from checkmate.cli_text import profile_text
from checkmate.errors import StepTooLargeError
from checkmate.ir.graph import CostOrigin
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from checkmate.tf import api, costs, session

MODELS = Path(__file__).with_name("small_models.py")
REQUEST = ModelRequest(f"{MODELS}:convnet", batch_size=4, device="cpu", allow_code=True)


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("the step is run")


def test_what_is_known_to_need_too_much_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "free_bytes", lambda kind: 1000)
    monkeypatch.setattr(costs, "_measured", refuse)
    graph = api.profile(REQUEST, costs="measured", report=silent, cancelled=never)
    assert graph.cost_origin is CostOrigin.ANALYTIC and graph.base_cost > 0
    said = profile_text(graph, Path("g.json"))
    assert "costs are estimated, not measured: the plain step needs" in said and "are free" in said


def test_where_the_device_runs_out_costs_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> float:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\nmore")

    monkeypatch.setattr(costs, "_timed", exhausted)
    graph = api.profile(REQUEST, costs="measured", report=silent, cancelled=never)
    assert graph.cost_origin is CostOrigin.ANALYTIC
    assert graph.metadata["notes"][-1].endswith("does not fit the device's memory: OOM when allocating tensor")


def test_what_needs_measured_costs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "free_bytes", lambda kind: 1000)
    folded = session.prepare(REQUEST, report=silent, cancelled=never)
    with pytest.raises(StepTooLargeError, match="are free") as error:
        session.with_costs(folded, "measured", report=silent, cancelled=never)
    assert "smaller batch" in error.value.hint


def test_where_free_memory_is_not_known_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "free_bytes", lambda kind: None)
    monkeypatch.setattr(costs, "_measured", refuse)
    with pytest.raises(AssertionError, match="is run"):
        api.profile(REQUEST, costs="measured", report=silent, cancelled=never)
