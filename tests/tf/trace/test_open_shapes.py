"""Test steps with tensors whose shape depends on the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.live.measure import restored
from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.trace.sizes import most_elements, tensor_bytes
from checkmate.errors import DynamicShapeError
from checkmate.training.any_step import any_step
from tests.tf.schedules import recompute_forward

BATCH, TIME, UNITS = 8, 12, 64


def masked_step(kernels: list[tf.Variable]) -> Any:
    def step(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            for kernel in kernels:
                x = tf.tanh(x @ kernel)
            sparse = tf.sparse.from_dense(labels)
            length = tf.fill([BATCH], TIME)
            loss = tf.reduce_mean(tf.compat.v1.nn.ctc_loss(sparse, tf.transpose(x, [1, 0, 2]), length))
            kept, wanted = tf.boolean_mask(x[:, :4], labels > 2), tf.boolean_mask(labels, labels > 2)
            loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, kept))
            loss += tf.reduce_mean(tf.square(tf.boolean_mask(x, x > 0.1)))
            kinds, place = tf.unique(tf.reshape(labels, [-1]))
            loss += 0.01 * tf.reduce_sum(tf.gather(tf.cast(kinds, tf.float32), place))
        for kernel, gradient in zip(kernels, tape.gradient(loss, kernels), strict=True):
            kernel.assign_sub(0.1 * gradient)
        return loss

    return step


def test_a_schedule_of_a_step_with_masks_computes_the_same() -> None:
    random = np.random.default_rng(3)
    kernels = [tf.Variable(random.normal(0, 0.1, (UNITS, UNITS)).astype("float32")) for _ in range(3)]
    batch = (
        random.random((BATCH, TIME, UNITS), dtype=np.float32),
        random.integers(0, 9, (BATCH, 4)).astype("int32"),
    )
    layout, tensors = flatten_arguments((batch, {}))
    step = masked_step(kernels)
    found = any_step(lambda *given: step(*layout.pack(given)[0]), ModelLike("step"), layout)
    schedule = recompute_forward(found.graph)
    assert schedule.recomputations > 5
    emit = ordered_step(found.folded, schedule)

    def after(body: Any) -> list[np.ndarray]:
        with restored(kernels):
            loss = tf.function(body, autograph=False)(*tensors)
            return [np.asarray(loss), *(kernel.numpy() for kernel in kernels)]

    plain = after(lambda *given: step(*layout.pack(given)[0]))
    scheduled = after(lambda *given: emit(*given).predictions[0])
    for expected, value in zip(plain, scheduled, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_no_tensor_is_larger_than_its_bound(share: float) -> None:
    made: list[tf.Tensor] = []

    @tf.function
    def body(x: tf.Tensor) -> list[tf.Tensor]:
        chosen = tf.where(x > 0)
        rows = tf.boolean_mask(x, x[:, 0] > 0)
        taken = tf.gather_nd(x, chosen)
        loss = tf.reduce_sum(tf.square(rows)) + tf.reduce_mean(taken)
        squares = tf.gradients(loss, [rows, taken])
        both = tf.concat([rows, rows * 2.0 + 1.0], axis=0)
        made[:] = [
            chosen,
            rows,
            taken,
            *squares,
            both,
            tf.unique(tf.reshape(x, [-1]))[0],
            tf.zeros(tf.shape(taken)),
        ]
        return [tf.size(tensor) for tensor in made]

    x = np.where(np.arange(24).reshape(6, 4) % 24 < 24 * share, 1.0, -1.0).astype("float32")
    sizes = [int(size) for size in body(x)]
    bounds = [most_elements(tensor) for tensor in made]
    assert all(tensor.shape.num_elements() is None for tensor in made)
    assert all(bound is not None and size <= bound for size, bound in zip(sizes, bounds, strict=True))
    if share == 1.0:  # where all is kept, only what is unique is fewer
        assert [size for size, bound in zip(sizes, bounds, strict=True) if size != bound] == [sizes[-2]]


def test_what_nothing_bounds_has_no_size() -> None:
    @tf.function
    def body(count: tf.Tensor) -> tf.Tensor:
        repeated.append(tf.fill([count * 2], 1.0))
        return repeated[0]

    repeated: list[tf.Tensor] = []
    body.get_concrete_function(tf.TensorSpec((), tf.int32))
    with pytest.raises(DynamicShapeError, match="not known before it runs"):
        tensor_bytes(repeated[0])
