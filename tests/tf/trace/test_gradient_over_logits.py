"""Test that the gradient of a cross-entropy takes its logits' buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from checkmate.training.any_step import any_step

ROWS, WORDS, UNITS = 512, 2048, 16
LOGITS = ROWS * WORDS * 4  # bytes; everything else together takes far less


def peak(loss_of: Any, labels: np.ndarray) -> int:
    weight = tf.Variable(tf.zeros((UNITS, WORDS)))

    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_of(labels, x @ weight))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    layout, _ = flatten_arguments(((np.ones((ROWS, UNITS), np.float32), labels), {}))
    found = any_step(lambda *given: step(*layout.pack(given)[0]), ModelLike("step"), layout)
    return simulate(found.graph, Schedule.plain(found.graph)).peak_bytes


@pytest.mark.parametrize("sparse", [True, False])
def test_logits_and_their_gradient_share_a_buffer(sparse: bool) -> None:
    """Count one: a bound that counts both would prove too much."""
    if sparse:
        found = peak(tf.nn.sparse_softmax_cross_entropy_with_logits, np.zeros(ROWS, "int32"))
        assert LOGITS < found < 1.5 * LOGITS
    else:  # the labels are as large, and are the caller's
        found = peak(tf.nn.softmax_cross_entropy_with_logits, np.ones((ROWS, WORDS), "float32"))
        assert 2 * LOGITS < found < 2.5 * LOGITS


def test_logits_that_are_read_again_stay() -> None:
    def twice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return loss + tf.reduce_sum(tf.square(logits), axis=-1) * 1e-3

    assert peak(twice, np.zeros(ROWS, "int32")) > 2 * LOGITS
