"""Test that a fully recomputed step equals the plain one bit by bit, where both run the same kernels."""

from __future__ import annotations

import pytest

from checkmate.request import ModelRequest
from tests.tf.models import ALL
from tests.tf.prepared import prepared, request_of
from tests.tf.schedules import recompute_forward
from tests.tf.task_process import TaskProcess


def assert_exact(request: ModelRequest, process: TaskProcess) -> None:
    steps = recompute_forward(prepared(request).graph).steps.tolist()
    found = process.ask({"do": "compare", "request": request.to_json(), "steps": steps, "exact": True})
    assert found["gradients"] > 0
    assert found["bitwise"], found["worst"]
    assert found["state_bitwise"]
    assert found["loss"]["plain"] == found["loss"]["optimized"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted({*ALL, "random_layers"}))
def test_every_kind_of_model_is_bitwise_the_same(name: str, process: TaskProcess) -> None:
    assert_exact(request_of("models", name, 8), process)
