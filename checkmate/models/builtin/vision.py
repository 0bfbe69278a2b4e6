"""Build classifiers of ``keras.applications`` and a vision Transformer.

They have 100 classes each, at sizes for two CPU cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

_CLASSES = 100


def _application(name: str, side: int, optimizer: Callable[[], Any]) -> Callable[[], Any]:
    def build() -> Any:
        model = getattr(keras.applications, name)(weights=None, input_shape=(side, side, 3), classes=_CLASSES)
        model.compile(optimizer(), "sparse_categorical_crossentropy", jit_compile=False)
        return model

    return build


def _momentum() -> Any:
    return keras.optimizers.SGD(0.01, momentum=0.9)


def _nesterov() -> Any:
    return keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True)


class Patches(layers.Layer):  # type: ignore[misc]  # Keras is untyped here
    """Turn images into rows of patches.

    A learned class token stands in front, and each position adds a learned vector.
    """

    def __init__(self, size: int, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.project = layers.Conv2D(width, size, strides=size)
        self.flatten = layers.Reshape((-1, width))
        self.width = width

    def build(self, shape: Any) -> None:
        """Create the weights: one row per patch, and one for the class."""
        self.project.build(shape)
        count = (shape[1] // self.project.strides[0]) * (shape[2] // self.project.strides[1])
        self.token = self.add_weight(shape=(1, 1, self.width), name="token")
        self.positions = self.add_weight(
            shape=(1, count + 1, self.width), initializer="uniform", name="positions"
        )

    def call(self, images: Any) -> Any:
        """Map (batch, height, width, channels) to (batch, patches + 1, features)."""
        patches = self.flatten(self.project(images))
        token = keras.ops.broadcast_to(self.token, (keras.ops.shape(patches)[0], 1, self.width))
        return keras.ops.concatenate([token, patches], axis=1) + self.positions


def vit() -> Any:
    """Return pre-norm blocks of attention and a GELU network. The class token is classified."""
    width, heads = 192, 3
    inputs = keras.Input((128, 128, 3))
    x = layers.Dropout(0.1)(Patches(8, width)(inputs))
    for _ in range(6):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.MultiHeadAttention(heads, width // heads, dropout=0.1)(y, y)
        x = layers.Add()([x, layers.Dropout(0.1)(y)])
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization(epsilon=1e-6)(x))
        x = layers.Add()([x, layers.Dropout(0.1)(layers.Dense(width)(y))])
    x = layers.LayerNormalization(epsilon=1e-6)(x)[:, 0]
    model = keras.Model(inputs, layers.Dense(_CLASSES)(x), name="vit")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-3, weight_decay=0.05), loss, jit_compile=False)
    return model


BUILDERS: dict[str, Callable[[], Any]] = {
    "vgg16": _application("VGG16", 96, _momentum),
    "resnet50": _application("ResNet50", 128, _momentum),
    "resnet50v2": _application("ResNet50V2", 128, keras.optimizers.Adam),
    "mobilenetv2": _application("MobileNetV2", 128, keras.optimizers.RMSprop),
    "densenet121": _application("DenseNet121", 128, _nesterov),
    "efficientnetb0": _application("EfficientNetB0", 128, keras.optimizers.Adam),
    "inceptionv3": _application("InceptionV3", 139, keras.optimizers.Adam),
    "xception": _application("Xception", 128, keras.optimizers.Adam),
    "convnexttiny": _application("ConvNeXtTiny", 128, keras.optimizers.AdamW),
    "vit": vit,
}
