"""Build segmentation networks on a VGG16 encoder.

They are U-Net (large and small), FCN8 and SegNet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

_CLASSES = 12


def _encoder(height: int, width: int) -> tuple[Any, list[Any]]:
    """Return the inputs and outputs of VGG16's five blocks, each pooled."""
    vgg = keras.applications.VGG16(include_top=False, weights=None, input_shape=(height, width, 3))
    return vgg.input, [vgg.get_layer(f"block{number}_pool").output for number in range(1, 6)]


def _conv_norm(x: Any, filters: int) -> Any:
    x = layers.Conv2D(filters, 3, padding="same")(x)
    return layers.ReLU()(layers.BatchNormalization()(x))


def _compiled(inputs: Any, logits: Any, name: str) -> Any:
    model = keras.Model(inputs, layers.Softmax()(logits), name=name)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def _unet(height: int, width: int, name: str) -> Any:
    inputs, (f1, f2, f3, f4, _) = _encoder(height, width)
    x = _conv_norm(f4, 512)
    for skip, filters in ((f3, 256), (f2, 128), (f1, 64)):
        x = _conv_norm(layers.Concatenate()([layers.UpSampling2D()(x), skip]), filters)
    x = _conv_norm(layers.UpSampling2D()(x), 64)
    return _compiled(inputs, layers.Conv2D(_CLASSES, 3, padding="same")(x), name)


def unet_vgg() -> Any:
    """Return the U-Net at the size that published figures are for."""
    return _unet(416, 608, "unet_vgg")


def unet_small() -> Any:
    """Return a U-Net whose step takes about a second."""
    return _unet(128, 128, "unet_small")


def fcn8() -> Any:
    """Return FCN8: the scores of the last three blocks, added on the way up. The upsampling is learned."""
    inputs, (_, _, f3, f4, f5) = _encoder(128, 128)
    x = layers.Dropout(0.5)(layers.Conv2D(512, 7, padding="same", activation="relu")(f5))
    x = layers.Dropout(0.5)(layers.Conv2D(512, 1, activation="relu")(x))
    x = layers.Conv2D(_CLASSES, 1)(x)
    for skip in (f4, f3):
        x = layers.Conv2DTranspose(_CLASSES, 4, strides=2, padding="same", use_bias=False)(x)
        x = layers.Add()([x, layers.Conv2D(_CLASSES, 1)(skip)])
    x = layers.Conv2DTranspose(_CLASSES, 16, strides=8, padding="same", use_bias=False)(x)
    return _compiled(inputs, x, "fcn8")


def segnet() -> Any:
    """Return SegNet: four levels up again, without skips. BatchNorm follows each convolution."""
    inputs, (*_, x, _) = _encoder(128, 128)
    for filters in (512, 256, 128, 64):
        x = _conv_norm(layers.UpSampling2D()(_conv_norm(x, filters)), filters)
    return _compiled(inputs, layers.Conv2D(_CLASSES, 3, padding="same")(x), "segnet")


BUILDERS: dict[str, Callable[[], Any]] = {
    "unet_vgg": unet_vgg,
    "unet_small": unet_small,
    "fcn8": fcn8,
    "segnet": segnet,
}
