"""Test what is read of XLA's memory, on steps of which it is known."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.xla.compiled import XlaMemory, compile_step
from checkmate.errors import NotCompiledError

KIB = 2**10


def test_arguments_results_and_temporaries_are_told_apart() -> None:
    def body(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.matmul(x, x), x)  # the first product is a temporary of 256 KiB

    memory = compile_step(body, [tf.TensorSpec((256, 256))]).memory
    assert memory.argument_bytes == 256 * KIB
    assert memory.output_bytes == 256 * KIB
    assert 256 * KIB <= memory.temp_bytes < 512 * KIB
    assert memory.peak_bytes == memory.argument_bytes + memory.output_bytes + memory.temp_bytes
    assert int(memory.curve.max()) <= memory.peak_bytes
    assert int(memory.curve.min()) >= 0


def test_each_step_has_what_xla_holds_as_it_makes_its_buffers() -> None:
    curve = np.asarray([10, 30, 20, 50, 40, 45])
    memory = XlaMemory(100, 5, 60, curve, np.asarray([-1, 0, -1, -1, 2, 7]))
    # A buffer of no step (50) is that of the step before it; step 1 made none; there is no step 7.
    assert memory.live_by_step(4) == (155, 155, 150, 150)
    untold = XlaMemory(100, 5, 60, curve, np.full(6, -1))
    assert untold.live_by_step(4) == ()


def test_xla_names_the_steps_that_make_buffers() -> None:
    def body(x: tf.Tensor) -> tf.Tensor:
        for step in range(3):
            with tf.name_scope(f"step{step}/layer"):
                x = tf.matmul(x, x)
        return x

    memory = compile_step(body, [tf.TensorSpec((256, 256))]).memory
    live = memory.live_by_step(3)
    assert len(live) == 3 and max(live) == memory.peak_bytes - memory.temp_bytes + int(memory.curve.max())
    assert max(live) >= 3 * 256 * KIB  # argument, result, and a product between


def test_a_variable_is_updated_in_place() -> None:
    variable = tf.Variable(tf.ones((256, 256)))

    def body(x: tf.Tensor) -> tf.Tensor:
        variable.assign_add(x)
        return tf.reduce_sum(x)

    memory = compile_step(body, [tf.TensorSpec((256, 256))]).memory
    assert memory.argument_bytes == 512 * KIB
    assert memory.output_bytes < KIB
    np.testing.assert_array_equal(variable.numpy(), np.ones((256, 256)))  # nothing was run


def test_what_xla_cannot_compile_is_said_in_a_sentence() -> None:
    def body(x: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(tf.strings.as_string(x))

    with pytest.raises(NotCompiledError, match=r"XLA cannot compile the step: .+") as caught:
        compile_step(body, [tf.TensorSpec((4,))])
    assert "jit_compile=False" in str(caught.value.hint)
