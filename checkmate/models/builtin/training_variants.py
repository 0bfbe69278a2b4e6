"""Build small convolutional networks that are trained in different ways.

What they compute differs little.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

_SIDE = 64


def _features(x: Any, *, norm: bool = True, policy: Any = None, **convolution: Any) -> Any:
    """Return two stages of residual blocks, with 32 and 64 filters."""
    options = {"dtype": policy} if policy is not None else {}
    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", **convolution, **options)(x)
        for _ in range(2):
            y = layers.BatchNormalization(**options)(x) if norm else x
            y = layers.Conv2D(filters, 3, padding="same", activation="relu", **convolution, **options)(y)
            x = layers.Add(**options)([x, y])
        x = layers.MaxPooling2D(**options)(layers.ReLU(**options)(x))
    return layers.GlobalAveragePooling2D(**options)(x)


def _classifier(name: str, optimizer: Any, *, policy: Any = None, **features: Any) -> Any:
    inputs = keras.Input((_SIDE, _SIDE, 3))
    x = _features(inputs, policy=policy, **features)
    outputs = layers.Dense(10, activation="softmax", dtype="float32")(x)
    model = keras.Model(inputs, outputs, name=name)
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=False)
    return model


def two_io() -> Any:
    """Return a model with two inputs and two losses.

    A vector is mixed into the features of an image; the mask and the class each have a loss.
    """
    image, vector = keras.Input((96, 96, 3), name="image"), keras.Input((32,), name="vector")
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(image)
    skip = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    y = layers.MaxPooling2D()(skip)
    scale = layers.Reshape((1, 1, 32))(layers.Dense(32, activation="sigmoid")(vector))
    y = layers.Conv2D(64, 3, padding="same", activation="relu")(layers.Multiply()([y, scale]))
    up = layers.Concatenate()([layers.UpSampling2D()(y), skip])
    mask = layers.Conv2D(1, 3, padding="same", activation="sigmoid", name="mask")(up)
    label = layers.Dense(10, activation="softmax", name="label")(layers.GlobalAveragePooling2D()(y))
    model = keras.Model([image, vector], {"mask": mask, "label": label}, name="two_io")
    model.compile(
        "adam",
        loss={"mask": "binary_crossentropy", "label": "sparse_categorical_crossentropy"},
        loss_weights={"mask": 1.0, "label": 0.3},
        jit_compile=False,
    )
    return model


class Gated(layers.Layer):  # type: ignore[misc]  # Keras is untyped here
    """Multiply a convolution by a gate of its own. An added loss pushes the gate towards zero."""

    def __init__(self, filters: int, **options: Any) -> None:
        super().__init__(**options)
        self.main = layers.Conv2D(filters, 3, padding="same")
        self.gate = layers.Conv2D(filters, 1, activation="sigmoid")
        self.norm = layers.BatchNormalization()

    def call(self, x: Any, training: bool = False) -> Any:
        """Return features of the same height and width."""
        gate = self.gate(x)
        self.add_loss(1e-3 * ops.mean(gate))
        return self.norm(self.main(x) * gate, training=training)


class Subclassed(keras.Model):  # type: ignore[misc]  # Keras is untyped here
    """Hold layers in a list, with an auxiliary loss on the way."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.blocks = [Gated(filters) for filters in (24, 24, 48)]
        self.pool = layers.AveragePooling2D(2)
        self.head = layers.Dense(10)

    def call(self, x: Any, training: bool = False) -> Any:
        for block in self.blocks:
            x = ops.relu(block(x, training=training))
        x = self.pool(x)
        self.add_loss(1e-4 * ops.mean(ops.square(x)))
        return self.head(ops.mean(x, axis=(1, 2)))


def _mean_quartic(y_true: Any, y_pred: Any) -> Any:
    return ops.mean(ops.power(y_true - y_pred, 4), axis=-1)


def subclassed() -> Any:
    """Return a subclassed model with a loss function of its own. It is built by one call."""
    model = Subclassed(name="subclassed")
    model(ops.zeros((1, _SIDE, _SIDE, 3)))
    model.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), _mean_quartic, jit_compile=False)
    return model


def regularized() -> Any:
    """Return a model with every kind of regularizer, and a constraint."""
    return _classifier(
        "regularized",
        keras.optimizers.Adam(),
        kernel_regularizer=keras.regularizers.L1L2(1e-5, 1e-4),
        bias_regularizer="l2",
        activity_regularizer=keras.regularizers.L2(1e-6),
        kernel_constraint=keras.constraints.MaxNorm(3.0),
    )


def mixed_float16() -> Any:
    """Return a model in float16, with loss scaling.

    It has no BatchNorm, whose float16 kernels differ from machine to machine.
    """
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(), initial_scale=256.0)
    return _classifier("mixed_float16", optimizer, norm=False, policy=keras.DTypePolicy("mixed_float16"))


def mixed_bfloat16() -> Any:
    """Return a model in bfloat16; no loss scale is needed."""
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    return _classifier("mixed_bfloat16", optimizer, policy=keras.DTypePolicy("mixed_bfloat16"))


def adamw_clipped() -> Any:
    """Return a model with weight decay, clipping and averaged weights.

    The gradients are clipped by the norm of all of them; the average is a moving one.
    """
    optimizer = keras.optimizers.AdamW(1e-3, weight_decay=1e-2, global_clipnorm=1.0, use_ema=True)
    return _classifier("adamw_clipped", optimizer)


def accumulated() -> Any:
    """Return a model with one update every four steps."""
    return _classifier("accumulated", keras.optimizers.Adam(1e-3, gradient_accumulation_steps=4))


BUILDERS: dict[str, Callable[[], Any]] = {
    "two_io": two_io,
    "subclassed": subclassed,
    "regularized": regularized,
    "mixed_float16": mixed_float16,
    "mixed_bfloat16": mixed_bfloat16,
    "adamw_clipped": adamw_clipped,
    "accumulated": accumulated,
}
