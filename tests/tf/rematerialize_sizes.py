"""Test that inputs of open size, and steps with sizes known only when they run, train by schedules."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import checkmate
from tests.tf.rematerialized import FAST, plans, recomputations, sentences, within

UNITS, BATCH, STEPS = 256, 512, 3


def deep(inputs: Any, body: Any) -> Any:
    for _ in range(8):
        body = layers.Dense(UNITS, activation="tanh")(body)
    model = keras.Model(inputs, layers.Dense(4)(body))
    model.compile("sgd", "mse")
    return model


def of_sparse_words() -> tuple[Any, Any]:
    inputs = keras.Input((300,), sparse=True)
    random = np.random.default_rng(0).random((STEPS * BATCH, 300))
    share = np.linspace(0.99, 0.995, STEPS * BATCH)[:, None]  # each batch has fewer words
    return deep(inputs, inputs), tf.sparse.from_dense(np.float32(random > share))


def of_text() -> tuple[Any, Any]:
    inputs = keras.Input((), dtype="string")
    words = layers.TextVectorization(output_sequence_length=4, vocabulary=["a", "b", "c"])(inputs)
    body = layers.Flatten()(layers.Embedding(5, 32)(words))
    return deep(inputs, body), np.array(["a b c", "c a", "b"] * (STEPS * BATCH // 3))


class MeanOfWords(keras.Model):  # type: ignore[misc]
    """The mean of the embedded words of each text; the words are a ragged tensor. ``swish`` has a gradient of
    its own, which reads its input through an ``IdentityN``."""

    def __init__(self) -> None:
        super().__init__()
        self.table = layers.Embedding(50, UNITS)
        self.body = [
            layers.Dense(UNITS, activation="swish" if number == 3 else "tanh") for number in range(6)
        ]

    def call(self, words: Any) -> Any:
        vectors = self.table(words.values)
        for layer in self.body:
            vectors = layer(vectors)
        return tf.math.segment_mean(vectors, words.value_rowids())[:, :4]


def of_ragged_words(grown: int = 1) -> tuple[Any, Any]:
    """``grown``: how much longer the texts of all batches but the first are."""
    random = np.random.default_rng(1)
    lengths = [(1 + number % 7) * (1 if number < BATCH else grown) for number in range(STEPS * BATCH)]
    words = tf.ragged.constant([random.integers(0, 50, length).tolist() for length in lengths], tf.int32)
    model = MeanOfWords()
    model.compile("sgd", "mse")  # it is built by its first batch
    return model, words


class Repeated(layers.Layer):  # type: ignore[misc]
    """The mean of each row, computed as often as a number of the batch says: nothing bounds that."""

    def build(self, shape: Any) -> None:
        self.body = [layers.Dense(UNITS, activation="tanh") for _ in range(6)]
        for layer in self.body:
            layer.build((None, UNITS))

    def call(self, images: Any) -> Any:
        counts = tf.cast(images[:, 0] > 0.5, tf.int32) * 2 + 1
        rows = tf.repeat(images, counts, axis=0)
        for layer in self.body:
            rows = layer(rows)
        return tf.math.segment_mean(rows, tf.repeat(tf.range(BATCH), counts))


def of_repeated_rows() -> tuple[Any, Any]:
    inputs = keras.Input((UNITS,), batch_size=BATCH)
    model = keras.Model(inputs, layers.Dense(4)(Repeated()(inputs)))
    model.compile("sgd", "mse")
    numbers = np.random.default_rng(2).random((STEPS * BATCH, UNITS), np.float32)
    numbers[BATCH:] *= 0.8  # so that the first batch has the most rows
    return model, numbers


PROGRAMS = (of_sparse_words, of_text, of_ragged_words, of_repeated_rows)


def trained(make: Callable[[], tuple[Any, Any]], budget: str | None = None) -> tuple[Any, list[int]]:
    """Return the trained model, and what the allocator held in each step."""
    keras.utils.set_random_seed(5)
    model, x = make()
    y = np.random.default_rng(3).random((STEPS * BATCH, 4)).astype("float32")
    if budget is not None:
        within(model, budget, on_miss="raise")
    peaks: list[int] = []
    for batch in list(tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)) * 2:
        tf.config.experimental.reset_memory_stats("CPU:0")
        model.train_on_batch(*batch)
        peaks.append(tf.config.experimental.get_memory_info("CPU:0")["peak"])
    return model, peaks


@pytest.mark.parametrize("make", PROGRAMS)
def test_it_trains_by_one_schedule_to_the_same_bits(make: Callable[[], tuple[Any, Any]]) -> None:
    plain, _ = trained(make)
    model, peaks = trained(make, "85%")
    (plan,) = plans(model)  # batches of other sizes are of the same layout
    assert recomputations(model) > 0
    assert max(peaks[1:]) <= model.train_function.training.planner.watched_bytes(plan.layout)
    for found, expected in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_batch_that_is_over_the_budget_is_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said = sentences(monkeypatch)
    _, most = trained(lambda: of_ragged_words(4))
    assert max(most[1:]) > 1.5 * most[0]
    budget = int(0.75 * max(most))
    model, peaks = trained(lambda: of_ragged_words(4), f"{budget}")
    how, first, over, *_ = said
    assert how == "sizes that are known only when the step runs count as in one run"
    assert "it fits, and trains as before" in first and "looking for a schedule that takes less" in over
    assert recomputations(model) > 0
    assert max(peaks[2:]) <= budget


def words_of(most: int) -> tf.RaggedTensor:
    random = np.random.default_rng(most)
    return tf.ragged.constant([random.integers(0, 50, most).tolist() for _ in range(64)], tf.int32)


def step_on_words() -> tuple[Any, list[tf.Variable]]:
    random = np.random.default_rng(1)
    table, *kernels = (
        tf.Variable(random.normal(0, 0.3, (rows, 16)), dtype=tf.float32) for rows in (50, *[16] * 6)
    )

    def step(words: tf.RaggedTensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            body = tf.gather(table, words.values)
            for kernel in kernels:
                body = tf.tanh(body @ kernel)
            loss = tf.reduce_mean(tf.square(body))
        for kernel, gradient in zip(kernels, tape.gradient(loss, kernels), strict=True):
            kernel.assign_sub(0.1 * gradient)
        return loss

    return step, kernels


def test_a_step_that_began_with_small_tensors_is_planned_for_a_larger_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches, said = [words_of(most) for most in (1, 1, 200, 200, 1)], sentences(monkeypatch)
    (plain, expected), (step, found) = step_on_words(), step_on_words()
    planned = checkmate.rematerialize_function(step, "80%", options=FAST, quiet=True, cache=False)
    for words in batches:
        tf.function(plain)(words)
        planned(words)
    small, how, then = said
    assert small == "batch of 64: nothing big enough to recompute; it trains as before"
    assert how == "sizes that are known only when the step runs count as in one run"
    assert re.search(r"\d recomputations?, .* peak", then)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value.numpy(), wanted.numpy())
