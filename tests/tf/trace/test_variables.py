"""Test that a step is traced once though it creates variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.trace.trace import tracing_once
from tests.tf.conftest import dense_model

BATCH = tf.TensorSpec((4, 8))


def traces_of(body: Callable[[Any], Any]) -> tuple[int, Any]:
    """Trace ``body``; return how often it was traced, and the function."""
    count = 0

    def counted(x: Any) -> Any:
        nonlocal count
        count += 1
        return body(x)

    function = tf.function(tracing_once(counted), autograph=False).get_concrete_function(BATCH)
    return count, function


def step_of(optimizer: str) -> Callable[[Any], Any]:
    keras.utils.set_random_seed(1)
    model = dense_model(optimizer=optimizer, loss="mse", metrics=["mae"])

    def step(x: Any) -> Any:
        y = tf.zeros((4, 4))
        with tf.GradientTape() as tape:
            answer = model(x, training=True)
            loss = model.compute_loss(x, y, answer)
        weights = model.trainable_variables
        gradients = tape.gradient(loss, [weight.value for weight in weights])
        model.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return [loss, *model.compute_metrics(x, y, answer).values(), *model.optimizer.variables]

    return step


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "rmsprop", "lion", "adafactor"])
def test_slots_and_sums_are_created_outside(optimizer: str) -> None:
    count, function = traces_of(step_of(optimizer))
    plain = tf.function(step_of(optimizer), autograph=False).get_concrete_function(BATCH)
    assert count == 1
    for k in range(3):
        batch = tf.fill(BATCH.shape, 1.0 + k)
        found, expected = function(batch), plain(batch)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert float(found[0]) > 0


class Made:
    """A step that makes a variable when it is first traced."""

    def __init__(self, initial: Callable[[Any], Any]) -> None:
        self.initial = initial
        self.variable: Any = None

    def __call__(self, x: Any) -> Any:
        if self.variable is None:
            self.variable = tf.Variable(lambda: self.initial(x))
        return tf.reduce_sum(x) + tf.cast(self.variable, tf.float32)


@pytest.mark.parametrize(
    "initial",
    [
        lambda x: tf.random.normal((3,)),
        lambda x: tf.random.stateless_normal((3,), seed=(1, 2)),
        lambda x: tf.reduce_sum(x) * tf.ones((3,)),
    ],
    ids=["drawn", "drawn without a state", "read from the batch"],
)
def test_what_begins_otherwise_is_left_to_tensorflow(initial: Callable[[Any], Any]) -> None:
    batch = tf.fill(BATCH.shape, 2.0)
    keras.utils.set_random_seed(7)
    expected = tf.function(Made(initial), autograph=False)(batch)
    keras.utils.set_random_seed(7)
    found = tf.function(tracing_once(Made(initial).__call__), autograph=False)(batch)
    assert np.array_equal(found, expected)
    assert len(set(found.numpy())) > 1 or float(found[0]) == 2 * 64


def test_numbers_that_python_draws_are_drawn_once() -> None:
    numbers, expected = np.random.default_rng(3), np.random.default_rng(3)
    step = Made(lambda _: numbers.normal(size=3))
    count, _ = traces_of(step)
    assert count == 1
    assert np.array_equal(step.variable.numpy(), expected.normal(size=3))
    assert numbers.normal() == expected.normal()


def test_a_large_constant_is_made_where_the_variable_is() -> None:
    count, function = traces_of(Made(lambda _: tf.ones((1000, 100))))
    assert count == 1
    assert np.all(function(tf.zeros(BATCH.shape)).numpy() == 1)
    assert not any(len(op.node_def.SerializeToString()) > 10_000 for op in function.graph.get_operations())
