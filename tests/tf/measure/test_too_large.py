"""Test that a step too large to be run gets estimated costs, and that the profile says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from checkmate.backends.protocol import CostsWanted
from checkmate.backends.tf import memory_check
from checkmate.backends.tf.backend import TensorflowBackend
from checkmate.backends.tf.costs import fresh, profile
from checkmate.backends.tf.costs.known import CostOptions
from checkmate.cli.step_report import profile_text
from checkmate.errors import StepTooLargeError
from checkmate.ir import CostOrigin
from checkmate.progress import Progress, never, silent
from tests.tf.prepared import prepared, request_of

REQUEST = request_of("small_models", "convnet", 4)


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("the step is run")


def measured() -> None:
    fresh.with_costs(prepared(REQUEST), CostOptions("measured"), report=silent, cancelled=never)


def test_a_step_known_to_need_too_much_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "free_bytes", lambda kind: 1000)
    monkeypatch.setattr(profile, "measure_nodes", refuse)
    with pytest.raises(StepTooLargeError, match=r"the plain step needs .* are free") as error:
        measured()
    assert "smaller batch" in error.value.hint


def test_running_out_of_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> float:
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor\nmore")

    monkeypatch.setattr(profile._Runs, "run", exhausted)
    with pytest.raises(
        StepTooLargeError, match=r"(?m)does not fit the device's memory: OOM when allocating tensor$"
    ):
        measured()


def test_a_step_is_tried_if_free_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_check, "free_bytes", lambda kind: None)
    monkeypatch.setattr(profile, "measure_nodes", refuse)
    with pytest.raises(AssertionError, match="is run"):
        measured()


def test_a_profile_has_estimated_costs_if_the_step_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object, **__: object) -> None:
        raise StepTooLargeError("the plain step needs 3 GiB beside its parameters, and 1 GiB are free")

    monkeypatch.setattr(fresh, "run_task", too_large)
    graph = TensorflowBackend().profile(REQUEST, CostsWanted(), report=silent, cancelled=never)
    assert graph.cost_origin is CostOrigin.ANALYTIC and graph.base_cost > 0
    said = profile_text(graph, Path("g.json"))
    assert "costs are estimated, not measured: the plain step needs" in said and "are free" in said


@pytest.mark.heavy
def test_a_profile_measures_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "measure_nodes", refuse)
    told: list[Progress] = []
    graph = TensorflowBackend().profile(REQUEST, CostsWanted(), report=told.append, cancelled=never)
    assert graph.cost_origin is CostOrigin.MEASURED and graph.metadata["profile"]["runs"] >= 3
    assert any(progress.message.startswith("run ") for progress in told), "the process reported no progress"
