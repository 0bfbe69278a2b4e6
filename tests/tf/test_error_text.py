"""Test that errors of Keras are cut down to what went wrong."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from checkmate.models.error_text import first_line


class OfOneSize(keras.layers.Layer):  # type: ignore[misc]
    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [50, 4])


def test_what_a_layer_could_not_do_is_named() -> None:
    """Say more than which layer was called, and nothing of its arguments."""
    model = keras.Sequential([OfOneSize()])
    with pytest.raises(ValueError, match="Exception encountered when calling") as raised:
        tf.function(model).get_concrete_function(tf.TensorSpec((32, 4)))
    line = first_line(raised.value)
    assert line.startswith("Cannot reshape a tensor with 128 elements to shape [50,4]")
    assert "\x1b" not in line and "Arguments received" not in line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            'in user code:\n\n    File "a.py", line 3\n\n    ValueError: no such axis\n',
            "ValueError: no such axis",
        ),
        ("shapes differ\nin the second input", "shapes differ"),
        ("Exception encountered when calling A.call().", "Exception encountered when calling A.call()."),
        ("", "ValueError"),
    ],
)
def test_the_first_line_or_the_last_of_users_code(text: str, line: str) -> None:
    assert first_line(ValueError(text)) == line
