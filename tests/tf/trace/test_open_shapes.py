"""Test steps with tensors whose shape depends on the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.sizes import most_elements, tensor_bytes
from checkmate.errors import DynamicShapeError
from checkmate.ir import Phase
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


def repeated(kernels: list[tf.Variable], x: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    rows = tf.repeat(x, counts, axis=0)
    for kernel in kernels:
        rows = tf.tanh(rows @ kernel)
    return tf.reduce_mean(tf.square(rows))


def chosen_boxes(kernels: list[tf.Variable], x: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    best = tf.image.non_max_suppression(tf.sigmoid(x[:, :4]), x[:, 4], tf.reduce_max(counts) * 8, 0.3)
    return repeated(kernels, tf.gather(x, best), tf.gather(counts, best))


def by_example(kernels: list[tf.Variable], x: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        sums = tf.reduce_sum(tf.tanh(x @ kernels[0]), axis=1)
    return repeated(kernels, tf.reduce_mean(tape.jacobian(sums, x), axis=0), counts)


def ragged_map(kernels: list[tf.Variable], x: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    spec = tf.RaggedTensorSpec((None, UNITS), tf.float32, ragged_rank=0)
    rows = tf.map_fn(lambda each: tf.repeat(each[0][None], each[1], 0), (x, counts), fn_output_signature=spec)
    return repeated(kernels, rows.values, tf.ones([tf.shape(rows.values)[0]], tf.int32))


def turned(kernels: list[tf.Variable], x: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    def turn(i: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.tanh(tf.tanh(rows @ kernels[0]) @ kernels[1])

    most = tf.reduce_max(counts) + 4
    turns, rows = tf.while_loop(lambda i, rows: i < most, turn, (0, x))
    return tf.reduce_sum(tf.square(rows @ kernels[2])) / tf.cast(turns, tf.float32)


@pytest.mark.parametrize("loss_of", [repeated, chosen_boxes, by_example, ragged_map, turned])
def test_a_schedule_for_sizes_of_one_run_computes_the_same_at_others(loss_of: Any) -> None:
    random = np.random.default_rng(5)
    kernels = [tf.Variable(random.normal(0, 0.1, (UNITS, UNITS)).astype("float32")) for _ in range(3)]
    batches = [
        (tf.constant(random.normal(size=(32, UNITS)), tf.float32), tf.constant(random.integers(1, most, 32)))
        for most in (5, 9, 2)
    ]
    batches = [(x, tf.cast(counts, tf.int32)) for x, counts in batches]
    start = [kernel.numpy() for kernel in kernels]

    def step(x: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(kernels, x, counts)
        for kernel, gradient in zip(kernels, tape.gradient(loss, kernels), strict=True):
            kernel.assign_sub(0.1 * gradient)
        return loss

    layout, tensors = flatten_arguments((batches[0], {}))
    found = any_step(step, ModelLike("step"), layout, tensors)
    assert found.folded.traced.sizes_seen
    assert all((kernel.numpy() == value).all() for kernel, value in zip(kernels, start, strict=True))
    schedule = recompute_forward(found.graph)
    assert schedule.recomputations > 0
    if loss_of is repeated:
        rows = int(tf.reduce_sum(batches[0][1]))
        assert {value.bytes for value in found.graph.values if "Tanh:0" in value.name} == {rows * UNITS * 4}
    elif loss_of is turned:
        parts = {op.name for op in found.graph.ops if op.phase is Phase.FORWARD and "While" in op.type}
        assert parts == {"while_1_of_3", "while_2_of_3", "while_3_of_3"}  # of 8 iterations
    emit = ordered_step(found.folded, schedule)

    def after(body: Any) -> list[np.ndarray]:
        function = tf.function(body, autograph=False).get_concrete_function(*layout.specs)
        with restored(kernels):
            losses = [np.asarray(function(*batch)) for batch in batches]
            return [*losses, *(kernel.numpy() for kernel in kernels)]

    plain, scheduled = after(step), after(lambda *given: emit(*given).predictions[0])
    for expected, value in zip(plain, scheduled, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-7)


def test_what_nothing_bounds_has_no_size() -> None:
    @tf.function
    def body(count: tf.Tensor) -> tf.Tensor:
        repeated.append(tf.fill([count * 2], 1.0))
        return repeated[0]

    repeated: list[tf.Tensor] = []
    body.get_concrete_function(tf.TensorSpec((), tf.int32))
    with pytest.raises(DynamicShapeError, match="not known before it runs"):
        tensor_bytes(repeated[0])
