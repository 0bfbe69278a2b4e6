"""Test that gradients of pooling and embeddings that other ops make are XLA's, to the bit."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from checkmate.backends.tf.live.trace import live_step
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.xla.cpu_help import Ties, added_late, can_add_late, pooling_slope, windows_of
from checkmate.ir import Schedule
from tests.tf.xla.networks import NETWORKS
from tests.tf.xla.steps import emitted_types


@pytest.mark.heavy
@settings(max_examples=20, deadline=None, phases=[Phase.generate], database=None)
@given(st.data())
def test_late_sums_have_the_bits_of_sums_by_segments(data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=2))
    width = data.draw(st.lists(st.integers(1, 5), max_size=2))
    words = data.draw(st.integers(1, 7))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = tf.constant(random.integers(-1, words, shape), tf.int32)  # -1 is left out
    slopes = tf.constant(
        random.normal(size=[*shape, *width]), data.draw(st.sampled_from([tf.float32, tf.float64]))
    )

    def both(slopes: tf.Tensor, rows: tf.Tensor) -> list[tf.Tensor]:
        usual = tf.math.unsorted_segment_sum(slopes, rows, words)
        assert can_add_late(usual.op)
        ties = Ties()
        return [usual, added_late(ties, usual.shape, slopes, rows)]

    usual, late = tf.function(both, autograph=False, jit_compile=True)(slopes, rows)
    np.testing.assert_array_equal(usual.numpy(), late.numpy())


@pytest.mark.parametrize("compiled", [True, False])
def test_zeros_of_an_embedding_are_made_of_slopes_where_it_is_compiled(compiled: bool) -> None:
    model, batch = NETWORKS["transformer"](optimizer=keras.optimizers.SGD(0.01, momentum=0.9))
    step = live_step(model, flatten(batch)[0])
    count = emitted_types(step, Schedule.plain(step.graph), compiled=compiled).count
    assert (count("UnsortedSegmentSum"), count("TensorScatterAdd")) == ((0, 1) if compiled else (1, 0))


def _slopes(
    value: np.ndarray, slope: np.ndarray, size: int | list[int], strides: int | list[int], padding: str
) -> list[np.ndarray]:
    def both(x: tf.Tensor, dy: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.max_pool(x, size, strides, padding)
        usual = tape.gradient(y, x, output_gradients=dy)
        windows = windows_of(usual.op)
        assert windows is not None
        return [usual, pooling_slope(windows, x, dy, Ties(), "test")]

    body = tf.function(both, autograph=False, jit_compile=True)
    return [each.numpy() for each in body(tf.constant(value), tf.constant(slope))]


@pytest.mark.heavy
@settings(max_examples=25, deadline=None, phases=[Phase.generate], database=None)
@given(st.data())
def test_the_slope_has_the_bits_of_xlas_scatter(data: Any) -> None:
    size = [data.draw(st.integers(1, 4)) for _ in range(2)]
    strides = [data.draw(st.integers(1, 4)) for _ in range(2)]
    padding = data.draw(st.sampled_from(["SAME", "VALID"]))
    shape = [2, *(data.draw(st.integers(each, 9)) for each in size), 3]
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    value = random.integers(-2, 3, shape).astype(dtype)  # many are equal
    made = tf.nn.max_pool(tf.constant(value), size, strides, padding).shape
    slope = random.normal(size=made.as_list()).astype(dtype)
    usual, compared = _slopes(value, slope, size, strides, padding)
    np.testing.assert_array_equal(usual, compared)


def test_what_is_no_pooling_or_has_large_windows_is_left() -> None:
    @tf.function(autograph=False)
    def gradient(x: tf.Tensor, size: int) -> tf.Tensor:
        return tf.gradients(tf.nn.max_pool(x, size, 1, "SAME"), x)[0]

    spec = tf.TensorSpec((1, 9, 9, 1))
    small, large, open_ = (
        gradient.get_concrete_function(each, size).graph.get_operations()
        for each, size in ((spec, 8), (spec, 9), (tf.TensorSpec((None, 9, 9, 1)), 2))
    )
    assert [op.type for op in small if windows_of(op)] == ["MaxPoolGrad"]
    assert not any(map(windows_of, large))
    assert not any(map(windows_of, open_))
