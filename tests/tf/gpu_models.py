"""Build compiled models whose step differs on a GPU.

Tests load them as ``gpu_models.py:name``."""

import keras
from keras import layers


def _compiled(inputs, x):
    model = keras.Model(inputs, layers.Dense(10)(x))
    model.compile("adam", "mse")
    return model


def lstm():
    inputs = keras.Input((32, 64))
    return _compiled(inputs, layers.LSTM(128)(layers.LSTM(128, return_sequences=True)(inputs)))


def gru():
    inputs = keras.Input((32, 64))
    return _compiled(inputs, layers.GRU(128)(layers.GRU(128, return_sequences=True)(inputs)))


def bidirectional():
    inputs = keras.Input((32, 64))
    x = layers.Bidirectional(layers.LSTM(128, return_sequences=True))(inputs)
    return _compiled(inputs, layers.Bidirectional(layers.GRU(128))(x))


def masked():
    tokens = keras.Input((32,), dtype="int32")
    x = layers.LSTM(128, return_sequences=True)(layers.Embedding(1000, 64, mask_zero=True)(tokens))
    return _compiled(tokens, layers.GRU(128)(x))


def half():
    policy = keras.DTypePolicy("mixed_float16")
    inputs = keras.Input((32, 64))
    return _compiled(
        inputs, layers.LSTM(128, dtype=policy)(layers.LSTM(128, return_sequences=True, dtype=policy)(inputs))
    )


class Counted(layers.Layer):
    """Add whole numbers that are made on the way. ``kind`` is their type. They are read as floats only when
    small."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def call(self, x):
        numbers = keras.ops.arange(0, 32768, dtype=self.kind)
        doubled = keras.ops.add(numbers, keras.ops.cast(keras.ops.sum(keras.ops.cast(x, "int32")), self.kind))
        return x + keras.ops.cast(keras.ops.max(doubled), "float32")


def counted():
    inputs = keras.Input((512,))
    return _compiled(inputs, Counted("int32")(layers.Dense(512)(inputs)))
