"""Test how much room is left for what is beside a step in training."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.training.any_step import any_step
from checkmate.training.plan import foreseen, read_ahead


@pytest.mark.parametrize(("kept", "room"), [("copy", 2 * 2**20), ("average", 0), ("nothing", 0)])
def test_room_is_left_for_the_chunk_of_an_assigned_variable(kept: str, room: int) -> None:
    """Leave none for a variable that is updated in place, as an average is."""
    weight, beside = tf.Variable(tf.ones((512, 1024))), tf.Variable(tf.ones((512, 1024)))

    def step(batch: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(tf.matmul(batch, weight)))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        if kept == "copy":
            beside.assign(tf.tanh(weight))
        elif kept == "average":
            beside.assign(0.9 * beside + 0.1 * weight)
        return loss

    layout, _ = flatten_arguments([np.ones((256, 512), np.float32)])
    found = any_step(step, ModelLike("step"), layout)
    assert foreseen(found, 0) == read_ahead(found.graph) + room
    assert foreseen(found, 2**30) == 2**30 + room
