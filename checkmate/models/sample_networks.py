"""Build the bundled samples: real networks that two CPU cores can train, without any download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from checkmate.errors import UsageError
from checkmate.models.error_text import reason

Shape = tuple[int, ...]


def build_sample(name: str, input_shape: Shape) -> Any:
    builder, loss, hint = _BUILDERS[name]
    try:
        model: Any = builder(input_shape)
    except (ValueError, TypeError) as error:
        shown = ",".join(map(str, input_shape))
        raise UsageError(
            f"the sample {name!r} cannot be built on {shown}: {reason(error)}", hint=hint
        ) from error
    model.compile(optimizer="adam", loss=loss, jit_compile=False)
    return model


def _conv(x: Any, filters: int, name: str, *, stride: int = 1) -> Any:
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False, name=f"{name}_conv")(x)
    return layers.ReLU(name=f"{name}_relu")(layers.BatchNormalization(name=f"{name}_norm")(x))


def unet(input_shape: Shape) -> Any:
    """Return a U-Net with four levels and a sigmoid mask."""
    inputs = keras.Input(input_shape)
    x, skips = inputs, []
    for level, filters in enumerate((32, 64, 128), 1):
        x = _conv(_conv(x, filters, f"down{level}a"), filters, f"down{level}b")
        skips.append(x)
        x = layers.MaxPooling2D(name=f"down{level}_pool")(x)
    x = layers.Dropout(0.2, name="bottom_dropout")(_conv(_conv(x, 256, "bottom_a"), 256, "bottom_b"))
    for level, filters in ((3, 128), (2, 64), (1, 32)):
        x = layers.Conv2DTranspose(filters, 2, strides=2, padding="same", name=f"up{level}_transpose")(x)
        x = layers.Concatenate(name=f"up{level}_join")([x, skips[level - 1]])
        x = _conv(_conv(x, filters, f"up{level}a"), filters, f"up{level}b")
    return keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid", name="mask")(x), name="unet")


def resnet(input_shape: Shape) -> Any:
    """Return a network with three stages of four residual blocks."""
    inputs = keras.Input(input_shape)
    x = _conv(inputs, 32, "stem")
    for stage, filters in enumerate((32, 64, 128), 1):
        for block in range(1, 5):
            name = f"stage{stage}_block{block}"
            stride = 2 if stage > 1 and block == 1 else 1
            shortcut = x
            if stride > 1:
                shortcut = layers.Conv2D(filters, 1, strides=stride, name=f"{name}_shortcut")(x)
            y = _conv(x, filters, f"{name}a", stride=stride)
            y = layers.Conv2D(filters, 3, padding="same", use_bias=False, name=f"{name}b_conv")(y)
            y = layers.BatchNormalization(name=f"{name}b_norm")(y)
            x = layers.ReLU(name=f"{name}_relu")(layers.Add(name=f"{name}_add")([y, shortcut]))
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax", name="classes")(x), name="resnet")


def mobilenet(input_shape: Shape) -> Any:
    """Return depthwise separable blocks as in MobileNet, at width 1."""
    inputs = keras.Input(input_shape)

    def norm(x: Any, name: str) -> Any:
        return layers.ReLU(6.0, name=f"{name}_relu6")(layers.BatchNormalization(name=f"{name}_norm")(x))

    x = norm(
        layers.Conv2D(32, 3, strides=2, padding="same", use_bias=False, name="stem_conv")(inputs), "stem"
    )
    blocks = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1))
    for number, (filters, stride) in enumerate(blocks, 1):
        deep, point = f"block{number}_depthwise", f"block{number}_pointwise"
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False, name=f"{deep}_conv")(x)
        x = norm(x, deep)
        x = norm(layers.Conv2D(filters, 1, use_bias=False, name=f"{point}_conv")(x), point)
    x = layers.Dropout(0.1, name="dropout")(layers.GlobalAveragePooling2D(name="pool")(x))
    return keras.Model(inputs, layers.Dense(100, activation="softmax", name="classes")(x), name="mobilenet")


class Positions(layers.Layer):  # type: ignore[misc]  # Keras is untyped here
    """Add a learned vector per position."""

    def build(self, input_shape: Shape) -> None:
        self.table = self.add_weight(shape=tuple(input_shape[1:]), initializer="uniform", name="table")

    def call(self, x: Any) -> Any:
        return x + self.table


def transformer(input_shape: Shape) -> Any:
    """Return a Transformer encoder with dropout that classifies embedded tokens and positions."""
    tokens = keras.Input(input_shape, dtype="int32")
    width, heads = 256, 4
    x = Positions(name="positions")(layers.Embedding(2000, width, name="tokens")(tokens))
    x = layers.Dropout(0.1, name="tokens_dropout")(x)
    for block in range(1, 7):
        name = f"block{block}"
        y = layers.MultiHeadAttention(heads, width // heads, dropout=0.1, name=f"{name}_attention")(x, x)
        y = layers.Dropout(0.1, name=f"{name}_attention_dropout")(y)
        x = layers.LayerNormalization(name=f"{name}_attention_norm")(
            layers.Add(name=f"{name}_attention_add")([x, y])
        )
        y = layers.Dense(4 * width, activation="gelu", name=f"{name}_wide")(x)
        y = layers.Dropout(0.1, name=f"{name}_dropout")(layers.Dense(width, name=f"{name}_narrow")(y))
        x = layers.LayerNormalization(name=f"{name}_norm")(layers.Add(name=f"{name}_add")([x, y]))
    x = layers.GlobalAveragePooling1D(name="pool")(x)
    return keras.Model(tokens, layers.Dense(10, activation="softmax", name="classes")(x), name="transformer")


def lstm(input_shape: Shape) -> Any:
    """Return two convolutions and two LSTM layers, as in speech models, with a label for every time step."""
    inputs = x = keras.Input(input_shape)
    for number in (1, 2):
        x = layers.Conv1D(256, 5, padding="same", use_bias=False, name=f"conv{number}")(x)
        x = layers.ReLU(name=f"conv{number}_relu")(layers.BatchNormalization(name=f"conv{number}_norm")(x))
    for number in (1, 2):
        x = layers.LSTM(128, return_sequences=True, name=f"lstm{number}")(x)
        x = layers.Dropout(0.2, name=f"lstm{number}_dropout")(
            layers.LayerNormalization(name=f"lstm{number}_norm")(x)
        )
    x = layers.Dropout(0.2, name="wide_dropout")(layers.Dense(512, activation="relu", name="wide")(x))
    return keras.Model(inputs, layers.Dense(32, activation="softmax", name="labels")(x), name="lstm")


_CLASSES = "sparse_categorical_crossentropy"
_IMAGE = 'give height, width and channels, e.g. input_shape="96,96,3"'
_STAGES = 'give height, width (multiples of 8) and channels, e.g. input_shape="96,96,3"'
_TOKENS = 'give the number of tokens, e.g. input_shape="128"'
_SOUND = 'give time steps and features, e.g. input_shape="256,64"'
# Each sample's loss, and what to do where it cannot be built on a shape.
_BUILDERS: dict[str, tuple[Callable[[Shape], Any], str, str]] = {
    "unet": (unet, "binary_crossentropy", _STAGES),
    "resnet": (resnet, _CLASSES, _IMAGE),
    "mobilenet": (mobilenet, _CLASSES, _IMAGE),
    "transformer": (transformer, _CLASSES, _TOKENS),
    "lstm": (lstm, _CLASSES, _SOUND),
}
