"""Test views that wait for ops, and ops that wait for views, as those of ``tf.recompute_grad`` do."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.ir import Schedule
from checkmate.training.any_step import any_step
from tests.tf.orders import random_steps

UNITS = 64


def waiting_step(kernels: list[tf.Variable]) -> Any:
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            first, second, third = (tf.tanh(x @ kernel) for kernel in kernels[:3])
            with tf.control_dependencies([third]):
                shown = tf.identity_n([first, second])
            with tf.control_dependencies([shown[0]]):
                fourth = tf.nn.elu(tf.tanh(x) @ kernels[3])
            loss = tf.reduce_mean(tf.square(shown[0])) + tf.reduce_mean(tf.square(fourth) * shown[1] * third)
        for kernel, gradient in zip(kernels, tape.gradient(loss, kernels), strict=True):
            kernel.assign_sub(0.1 * gradient)
        return loss

    return step


@pytest.mark.parametrize("emit", [ordered_step, tied_step])
def test_every_order_is_emitted_and_computes_the_same(emit: Any) -> None:
    random = np.random.default_rng(3)
    kernels = [tf.Variable(random.normal(0, 0.1, (UNITS, UNITS)).astype("float32")) for _ in range(4)]
    layout, tensors = flatten_arguments(((random.random((1024, UNITS), dtype=np.float32),), {}))
    step = waiting_step(kernels)
    found = any_step(lambda *given: step(*layout.pack(given)[0]), ModelLike("step"), layout)

    def after(body: Any) -> list[np.ndarray]:
        with restored(kernels):
            loss = tf.function(body, autograph=False)(*tensors)
            return [np.asarray(loss), *(kernel.numpy() for kernel in kernels)]

    plain = after(lambda *given: step(*layout.pack(given)[0]))
    for seed in range(8):
        emitted = emit(found.folded, Schedule.of(found.graph, random_steps(found.graph, Random(seed))))
        scheduled = after(lambda *given, emitted=emitted: emitted(*given).predictions[0])
        for expected, value in zip(plain, scheduled, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
