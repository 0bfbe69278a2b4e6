"""Test that ``MemoryReport`` logs what is known elsewhere, and changes no training."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkmate
from checkmate.keras import MemoryReport
from checkmate.training import memory_of_tensorflow
from tests.tf.rematerialized import conv_model, data, plans, within

KEYS = ["memory/activations", "memory/budget", "memory/peak", "memory/recompute_overhead"]
X, Y = data(32)


def fit(model: Any, *callbacks: Any) -> dict[str, list[float]]:
    found: dict[str, list[float]] = model.fit(
        X, Y, batch_size=16, epochs=2, verbose=0, shuffle=False, callbacks=list(callbacks)
    ).history
    return found


@pytest.fixture(scope="module")
def plainly() -> dict[str, list[float]]:
    return fit(conv_model(blocks=1))


def logged(history: dict[str, list[float]]) -> dict[str, Any]:
    return {name: values for name, values in history.items() if name.startswith("memory/")}


def without(history: dict[str, list[float]]) -> dict[str, Any]:
    return {name: values for name, values in history.items() if not name.startswith("memory/")}


def state(model: Any) -> list[np.ndarray]:
    return [np.array(variable) for variable in [*model.variables, *model.optimizer.variables]]


def begin_again(model: Any, values: list[np.ndarray]) -> None:
    for variable, value in zip([*model.variables, *model.optimizer.variables], values, strict=True):
        variable.assign(value)


@pytest.mark.heavy
def test_the_figures_of_a_missed_plan_are_everywhere_and_warned_of_once(tmp_path: Path) -> None:
    model = within(conv_model(blocks=2), 2**20, example=(X[:16], Y[:16]))
    start = state(model)
    expected = fit(model)
    begin_again(model, start)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit(model, MemoryReport(), keras.callbacks.CSVLogger(tmp_path / "log.csv"))
    assert without(found) == expected
    said = [str(each.message) for each in caught if "over its budget of 1.00 MiB" in str(each.message)]
    assert len(said) == 1

    (plan,) = plans(model)
    assert plan.measured and plan.schedule.recomputations > 0
    assert sorted(logged(found)) == KEYS
    seen = 2**20 + plan.over_bytes  # more than was measured, if it was seen over the budget again
    assert found["memory/peak"][-1] == max(plan.peak_bytes, seen) and found["memory/budget"] == [2**20] * 2
    assert found["memory/recompute_overhead"] == [plan.overhead] * 2
    assert 0 < found["memory/activations"][0] < found["memory/peak"][0]

    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [int(row["memory/peak"]) for row in rows] == found["memory/peak"]


def test_a_plain_model_is_told_by_the_meter(plainly: dict[str, list[float]]) -> None:
    found = fit(conv_model(blocks=1), MemoryReport())
    peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    assert logged(found) == {"memory/peak": [found["memory/peak"][0], peak]}
    assert without(found) == plainly


def test_without_a_meter_the_traced_step_is_told(
    monkeypatch: pytest.MonkeyPatch, plainly: dict[str, list[float]]
) -> None:
    monkeypatch.setattr(memory_of_tensorflow, "has_meter", lambda meter: False)
    model = conv_model(blocks=1)
    own = model.make_train_function
    found = fit(model, MemoryReport())
    assert without(found) == plainly and model.make_train_function == own
    traced = checkmate.profile(model, batch_size=16, costs="analytic", quiet=True)
    predicted = checkmate.keep_everything_peak(traced)
    # Here the metrics are a part of the step.
    assert found["memory/peak"] == [pytest.approx(predicted, rel=0.02)] * 2
    assert 2 * 2**20 < found["memory/activations"][0] < predicted


def test_tensorboard_has_the_figures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callbacks = [MemoryReport(), keras.callbacks.TensorBoard(tmp_path)]
    found = model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0, callbacks=callbacks).history
    files = map(str, tmp_path.rglob("events*"))
    events = [event for file in files for event in tf.compat.v1.train.summary_iterator(file)]
    values = [value for event in events for value in event.summary.value]
    (peak,) = [tf.make_ndarray(each.tensor) for each in values if each.tag == "epoch_memory/peak"]
    assert peak == np.float32(found["memory/peak"][0])


@pytest.mark.parametrize("open_part", ["a length", "an own step"])
def test_what_is_not_known_is_left_out(open_part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_of_tensorflow, "has_meter", lambda meter: False)
    x, y = np.ones((8, 6), np.float32), np.ones((8, 1), np.float32)
    if open_part == "a length":
        shapes = tf.TensorSpec((None, None)), tf.TensorSpec((None, 1))
        batches = tf.data.Dataset.from_generator(lambda: [(x, y)], output_signature=shapes)
        inputs = keras.Input((None,))
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.ops.mean(inputs, axis=1, keepdims=True)))
    else:
        batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
        model = OwnStep([keras.Input((6,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert logged(model.fit(batches, verbose=0, callbacks=[MemoryReport()]).history) == {}


class OwnStep(keras.Sequential):
    """It may mean anything by its samples and its loss."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)
