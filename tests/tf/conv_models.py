"""Build five small convolutional networks of the usual kinds.

Tests load them as ``conv_models.py:name``."""

from __future__ import annotations

import keras
from keras import layers


def _compiled(inputs, outputs, name):
    model = keras.Model(inputs, layers.Dense(10, dtype="float32")(outputs), name=name)
    model.compile(
        keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(True), jit_compile=False
    )
    return model


def _conv(x, filters, stride=1):
    x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def chain():
    """Return six convolutions with batch normalisation in a row."""
    inputs = x = keras.Input((32, 32, 3))
    for _ in range(6):
        x = _conv(x, 16)
    return _compiled(inputs, layers.GlobalAveragePooling2D()(x), "chain")


def residual():
    """Return a stem and six residual blocks in three stages."""
    inputs = keras.Input((32, 32, 3))
    x = _conv(inputs, 16)
    for stage, filters in enumerate((16, 32, 64)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            shortcut = layers.Conv2D(filters, 1, strides=stride)(x) if stride > 1 else x
            y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(_conv(x, filters, stride))
            x = layers.ReLU()(layers.Add()([layers.BatchNormalization()(y), shortcut]))
    return _compiled(inputs, layers.GlobalAveragePooling2D()(x), "residual")


def separable():
    """Return depthwise and pointwise convolutions, as in MobileNet. They have batch normalisation and
    ReLU6."""
    inputs = keras.Input((32, 32, 3))
    x = _conv(inputs, 16)
    for filters, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        x = layers.DepthwiseConv2D(3, strides=stride, padding="same", use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = layers.Conv2D(filters, 1, use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    return _compiled(inputs, layers.GlobalAveragePooling2D()(x), "separable")


def unet():
    """Return an encoder and a decoder of three levels. They are joined by concatenation."""
    inputs = x = keras.Input((32, 32, 3))
    skips = []
    for filters in (16, 32):
        x = _conv(_conv(x, filters), filters)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = _conv(x, 64)
    for filters in (32, 16):
        x = layers.Conv2DTranspose(filters, 2, strides=2, padding="same")(x)
        x = _conv(_conv(layers.Concatenate()([x, skips.pop()]), filters), filters)
    model = keras.Model(inputs, layers.Conv2D(1, 1, dtype="float32")(x), name="unet")
    model.compile(keras.optimizers.SGD(0.1), keras.losses.BinaryCrossentropy(True), jit_compile=False)
    return model


def vgg():
    """Return convolutions with a bias and max pooling, then dense layers."""
    inputs = x = keras.Input((32, 32, 3))
    for filters in (16, 32, 64):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(64, activation="relu")(layers.Flatten()(x))
    return _compiled(inputs, x, "vgg")


ALL = ("chain", "residual", "separable", "unet", "vgg")
