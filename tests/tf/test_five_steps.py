"""Test that five steps of ``fit`` under a schedule keep the plain state.

The schedule recomputes the forward pass; every bit of state is compared with plain training."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checkmate.backends.tf.environment import EXACT
from tests.programs import run_python
from tests.quick_start import QUICK

HERE = Path(__file__).parent
SMALL = ("batch_norm", "random_layers", "metrics", "statics", "accumulated", "half_precision")


def _all_models() -> tuple[str, ...]:
    spec = importlib.util.spec_from_file_location("tf_models_of_five_steps", HERE / "models.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tuple(module.ALL)


def train(names: tuple[str, ...], folder: Path) -> dict[str, Any]:
    answer = folder / "answer.json"
    run_python(HERE / "five_steps.py", answer, *names, **EXACT, **QUICK)
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    return train(SMALL, tmp_path_factory.mktemp("five"))


def assert_same(found: Mapping[str, Any]) -> None:
    """Check that all bits are the same. Every assignment must be there once, and one plan must have been
    announced."""
    assert found["different"] == []
    expected, got = found["history"]
    assert got == expected
    in_trace, emitted = found["assigned"]
    assert emitted == in_trace > 0
    assert len(found["told"]) == 1


def changed(found: Mapping[str, Any], *parts: str) -> list[str]:
    return [name for name in found["changed"] if any(part in name for part in parts)]


@pytest.mark.heavy
def test_statistics_of_batch_norm(answers: Mapping[str, Any]) -> None:
    found = answers["batch_norm"]
    assert_same(found)
    assert {"Conv2D", "Mean", "SquaredDifference"} <= set(found["recomputed"])
    assert len(changed(found, "moving_")) == 4  # the third layer is frozen
    assert len([name for name in found["state"] if "moving_" in name]) == 6


@pytest.mark.heavy
def test_masks_noise_and_seed_generators(answers: Mapping[str, Any]) -> None:
    found = answers["random_layers"]
    assert_same(found)
    assert {"StatelessRandomUniformV2", "StatelessRandomNormalV2"} <= set(found["recomputed"])
    assert len(changed(found, "seed_generator_state")) == 5


@pytest.mark.heavy
def test_metrics(answers: Mapping[str, Any]) -> None:
    found = answers["metrics"]
    assert_same(found)
    assert {"Conv2D", "BiasAdd"} <= set(found["recomputed"])
    shown = found["history"][1]
    assert set(shown) == {
        "loss", "mask_loss", "kind_loss", "mask_iou", "mask_auc", "kind_accuracy", "kind_mean_squared_error"
    }  # fmt: skip
    assert any("auc/true_positives" in name for name in found["state"])
    # 40 examples in all, although tensors were computed several times.
    assert found["examples"] == 40


@pytest.mark.heavy
def test_counters_big_assignments_and_metrics_inside_layers(answers: Mapping[str, Any]) -> None:
    found = answers["statics"]
    assert_same(found)
    assert {"Relu", "Tanh", "Sub"} <= set(found["recomputed"])
    assert {"MatMul", "BatchMatMulV2"} & set(found["recomputed"])  # which of them depends on Keras's release
    assert len(changed(found, "/average", "/calls")) == 4
    assert set(found["counts"].values()) == {5}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("model", "slots"),
    [("accumulated", ("momentum", "gradient_accumulator")), ("half_precision", ("velocity", "step_counter"))],
)
def test_slots_of_the_optimizer(model: str, slots: tuple[str, ...], answers: Mapping[str, Any]) -> None:
    found = answers[model]
    assert_same(found)
    assert set(found["recomputed"]) & {"Conv2D", "DepthwiseConv2dNative"}
    for slot in slots:
        assert changed(found, slot), found["changed"]


@pytest.mark.long
@pytest.mark.parametrize("name", _all_models())
def test_every_kind_of_model(name: str, tmp_path: Path) -> None:
    assert_same(train((name,), tmp_path)[name])
