"""Share what the tests of ``rematerialize`` train, and show its plans."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import checkmate
from checkmate.planning.plan_request import PlanRequest

FAST = checkmate.SolveOptions(time_limit_s=0.3)


def conv_model(blocks: int = 3, **options: Any) -> Any:
    """Return the same model in each call. Its activations take 1 MiB for a batch of 16."""
    keras.utils.set_random_seed(5)
    inputs = x = keras.Input((32, 32, 3))
    for _ in range(blocks):
        x = layers.Conv2D(16, 3, padding="same")(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Dropout(0.3, seed=9)(layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, layers.Dense(4, activation="softmax")(x), name="conv")
    model.compile(
        **{"optimizer": "adam", "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], **options}
    )
    return model


def reader() -> Any:
    """Return a model of token ids of any length."""
    keras.utils.set_random_seed(3)
    x = inputs = keras.Input((None,), dtype="int32")
    x = layers.Embedding(50, 64)(x)
    for _ in range(8):
        x = layers.Dense(128, activation="tanh")(x)
    model = keras.Model(inputs, layers.Dense(8)(x))
    model.compile("sgd", "mse")
    return model


def data(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    return random.random((count, 32, 32, 3), dtype=np.float32), random.integers(0, 4, count)


def within(model: Any, budget: Any = "75%", **options: Any) -> Any:
    return checkmate.rematerialize(
        model, budget, **{"options": FAST, "solver": "greedy", "quiet": True, "cache": False, **options}
    )


def plans(model: Any) -> list[Any]:
    return list(model.train_function.training.planner.plans)


def recomputations(model: Any) -> int:
    return sum(plan.schedule.recomputations for plan in plans(model) if plan.schedule is not None)


def sentences(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that takes what is told from now on, quiet or not."""
    lines: list[str] = []
    monkeypatch.setattr(PlanRequest, "tell", lambda request, sentence: lines.append(sentence))
    return lines


def assert_close(model: Any, other: Any) -> None:
    """Check that two trainings agree but for rounding.

    Default kernels fuse differently and so round differently. A missed or doubled update differs by far more.
    """
    for found, expected in zip(model.get_weights(), other.get_weights(), strict=True):
        assert np.allclose(found, expected, rtol=1e-2, atol=5e-3)
