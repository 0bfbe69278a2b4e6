"""Test what is read of XLA's memory, on steps of which it is known."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from checkmate.errors import NotCompiledError
from checkmate.tf.xla.compiled import compile_step

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
