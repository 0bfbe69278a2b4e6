"""Test that a fully recomputed step equals the plain one bit by bit.

Both run the same kernels, and the new state is compared too.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.progress import never, silent
from checkmate.request import ModelRequest
from tests.tf.task_process import TaskProcess

HERE = Path(__file__).parents[1]


def _module(name: str):
    spec = importlib.util.spec_from_file_location(f"tf_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = sorted(_module("models").ALL)


def compare_exactly(name: str, process: TaskProcess) -> dict:
    request = ModelRequest(f"{HERE / 'models.py'}:{name}", batch_size=8, device="cpu", allow_code=True)
    folded = trace_request(request, report=silent, cancelled=never)
    steps = _module("schedules").recompute_forward(folded.graph).steps.tolist()
    task = {"do": "compare", "request": request.to_json(), "steps": steps, "exact": True}
    return process.ask(task)


def assert_same(found: dict) -> None:
    assert found["gradients"] > 0
    assert found["bitwise"], found["worst"]
    assert found["state_bitwise"]
    assert found["loss"]["plain"] == found["loss"]["optimized"]


@pytest.mark.heavy
def test_dropout_and_noise_are_bitwise_the_same(process: TaskProcess) -> None:
    assert_same(compare_exactly("random_layers", process))


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_model_is_bitwise_the_same(name: str, process: TaskProcess) -> None:
    assert_same(compare_exactly(name, process))
