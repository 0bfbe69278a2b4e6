"""Test that max pooling's gradient by comparisons is XLA's, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from checkmate.backends.tf.xla.compiled import compile_step
from checkmate.backends.tf.xla.cpu_help import Ties, pooling_slope, windows_of

_SAME, _VALID = "SAME", "VALID"


def _slopes(
    value: np.ndarray, slope: np.ndarray, size: int | list[int], strides: int | list[int], padding: str
) -> list[np.ndarray]:
    """Return the gradient as XLA has it, and by comparisons."""

    def pooled(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.max_pool(x, size, strides, padding)

    def both(x: tf.Tensor, dy: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = pooled(x)
        usual = tape.gradient(y, x, output_gradients=dy)
        windows = windows_of(usual.op)
        assert windows is not None
        return [usual, pooling_slope(windows, x, dy, Ties(tf.compat.v1.get_default_graph()), "test")]

    body = tf.function(both, autograph=False, jit_compile=True)
    return [each.numpy() for each in body(tf.constant(value), tf.constant(slope))]


@pytest.mark.heavy
@settings(max_examples=25, deadline=None, phases=[Phase.generate], database=None)
@given(st.data())
def test_the_slope_has_the_bits_of_xlas_scatter(data: Any) -> None:
    size = [data.draw(st.integers(1, 4)) for _ in range(2)]
    strides = [data.draw(st.integers(1, 4)) for _ in range(2)]
    padding = data.draw(st.sampled_from([_SAME, _VALID]))
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
        return tf.gradients(tf.nn.max_pool(x, size, 1, _SAME), x)[0]

    spec = tf.TensorSpec((1, 9, 9, 1))
    small, large, open_ = (
        gradient.get_concrete_function(each, size).graph.get_operations()
        for each, size in ((spec, 8), (spec, 9), (tf.TensorSpec((None, 9, 9, 1)), 2))
    )
    assert [op.type for op in small if windows_of(op)] == ["MaxPoolGrad"]
    assert not any(map(windows_of, large))
    assert not any(map(windows_of, open_))


@pytest.mark.heavy
def test_comparing_takes_a_fraction_of_the_memory() -> None:
    spec = tf.TensorSpec((8, 64, 64, 32))

    def usual(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.max_pool(x, 3, 2, _SAME)
        return tape.gradient(y, x, output_gradients=dy)

    def compared(x: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        windows = windows_of(usual(x, dy).op)
        assert windows is not None
        return pooling_slope(windows, x, dy, Ties(tf.compat.v1.get_default_graph()), "test")

    specs = [spec, tf.TensorSpec((8, 32, 32, 32))]
    before, after = (compile_step(body, specs).memory.temp_bytes for body in (usual, compared))
    assert before > 4 * 8 * 64 * 64 * 32 * 4
    assert after < before / 4
