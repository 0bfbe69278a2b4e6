"""The bundled sample models: real networks of a size that trains on two CPU cores, built without any download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

Shape = tuple[int, ...]


def build_sample(name: str, input_shape: Shape) -> Any:
    """The compiled model of sample ``name``.

    Raises:
        KeyError: there is no such sample.
    """
    builder, loss = _BUILDERS[name]
    model: Any = builder(input_shape)
    model.compile(optimizer="adam", loss=loss)
    return model


def _conv(x: Any, filters: int, *, stride: int = 1, size: int = 3) -> Any:
    x = layers.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def unet(input_shape: Shape) -> Any:
    """U-Net with four levels and a sigmoid mask."""
    inputs = keras.Input(input_shape)
    x, skips = inputs, []
    for filters in (32, 64, 128):
        x = _conv(_conv(x, filters), filters)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dropout(0.2)(_conv(_conv(x, 256), 256))
    for filters, skip in zip((128, 64, 32), reversed(skips), strict=True):
        x = layers.Conv2DTranspose(filters, 2, strides=2, padding="same")(x)
        x = _conv(_conv(layers.Concatenate()([x, skip]), filters), filters)
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x), name="unet")


def resnet(input_shape: Shape) -> Any:
    """Three stages of four residual blocks."""
    inputs = keras.Input(input_shape)
    x = _conv(inputs, 32)
    for stage, filters in enumerate((32, 64, 128)):
        for block in range(4):
            stride = 2 if stage > 0 and block == 0 else 1
            shortcut = x if stride == 1 else layers.Conv2D(filters, 1, strides=stride)(x)
            y = _conv(x, filters, stride=stride)
            y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y))
            x = layers.ReLU()(layers.Add()([y, shortcut]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="resnet")


def mobilenet(input_shape: Shape) -> Any:
    """Depthwise separable blocks as in MobileNet, at width 1."""
    inputs = keras.Input(input_shape)

    def norm(x: Any) -> Any:
        return layers.ReLU(6.0)(layers.BatchNormalization()(x))

    x = norm(layers.Conv2D(32, 3, strides=2, padding="same", use_bias=False)(inputs))
    for filters, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1)):
        x = norm(layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(x))
        x = norm(layers.Conv2D(filters, 1, use_bias=False)(x))
    x = layers.Dropout(0.1)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, layers.Dense(100, activation="softmax")(x), name="mobilenet")


def transformer(input_shape: Shape) -> Any:
    """Encoder blocks with dropout over token embeddings, for classification."""
    tokens = keras.Input(input_shape, dtype="int32")
    width, heads = 256, 4
    x = layers.Embedding(2000, width)(tokens)
    for _ in range(6):
        attended = layers.MultiHeadAttention(heads, width // heads, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(attended)]))
        y = layers.Dense(width)(layers.Dense(4 * width, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(y)]))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, layers.Dense(10, activation="softmax")(x), name="transformer")


def lstm(input_shape: Shape) -> Any:
    """Two LSTM layers with dropout between them."""
    inputs = keras.Input(input_shape)
    x = layers.LSTM(256, return_sequences=True)(inputs)
    x = layers.LSTM(256)(layers.Dropout(0.2)(x))
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="lstm")


_BUILDERS: dict[str, tuple[Callable[[Shape], Any], str]] = {
    "unet": (unet, "binary_crossentropy"),
    "resnet": (resnet, "sparse_categorical_crossentropy"),
    "mobilenet": (mobilenet, "sparse_categorical_crossentropy"),
    "transformer": (transformer, "sparse_categorical_crossentropy"),
    "lstm": (lstm, "sparse_categorical_crossentropy"),
}
