"""Build small networks that XLA compiles in seconds, each with a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers

from tests.benchmarks.xla_networks import residual_blocks

Batch = tuple[np.ndarray, np.ndarray]


def dense(**options: Any) -> tuple[Any, Batch]:
    inputs = keras.Input((128,))
    x: Any = inputs
    for _ in range(8):
        x = layers.Activation("gelu")(layers.LayerNormalization()(layers.Dense(128)(x)))
    return _compiled(inputs, x, options), _batch((2048, 128))


def transformer(**options: Any) -> tuple[Any, Batch]:
    """Return two encoder blocks with dropout, on token ids."""
    inputs = keras.Input((64,), dtype="int32")
    x: Any = layers.Embedding(500, 64)(inputs)
    for _ in range(2):
        h = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, 16, dropout=0.1)(h, h)])
        h = layers.Dense(256, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dropout(0.1)(layers.Dense(64)(h))])
    return _compiled(inputs, layers.GlobalAveragePooling1D()(x), options), _batch((16, 64), 500)


def mixer(**options: Any) -> tuple[Any, Batch]:
    inputs = keras.Input((128, 12))
    x: Any = layers.Dense(64)(inputs)
    for _ in range(2):
        h = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        h = layers.Dense(128)(layers.Dense(128, activation="gelu")(h))
        x = layers.Add()([x, layers.Permute((2, 1))(h)])
        h = layers.Dense(256, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(64)(h)])
    return _compiled(inputs, layers.GlobalAveragePooling1D()(x), options), _batch((16, 128, 12))


def normalized(**options: Any) -> tuple[Any, Batch]:
    """Return dense layers with batch norms, whose averages are written once."""
    inputs = keras.Input((128,))
    x: Any = inputs
    for _ in range(4):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Dense(128)(x)))
    return _compiled(inputs, x, options), _batch((2048, 128))


def convolved(**options: Any) -> tuple[Any, Batch]:
    inputs = keras.Input((32, 32, 3))
    x = layers.GlobalAveragePooling2D()(residual_blocks(inputs))
    return _compiled(inputs, x, options), _batch((16, 32, 32, 3))


def pooled(**options: Any) -> tuple[Any, Batch]:
    """Return convolutions with max pooling, whose windows overlap."""
    inputs = keras.Input((32, 32, 3))
    x: Any = inputs
    for channels in (16, 32):
        x = layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same")(x))
        x = layers.MaxPooling2D(3, 2, padding="same")(layers.ReLU()(x))
    return _compiled(inputs, layers.GlobalAveragePooling2D()(x), options), _batch((16, 32, 32, 3))


NETWORKS: dict[str, Callable[..., tuple[Any, Batch]]] = {
    "dense": dense,
    "transformer": transformer,
    "mixer": mixer,
    "normalized": normalized,
    "convolved": convolved,
    "pooled": pooled,
}


def _compiled(inputs: Any, x: Any, options: dict[str, Any]) -> Any:
    model = keras.Model(inputs, layers.Dense(10, dtype="float32")(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    chosen = {
        "optimizer": keras.optimizers.SGD(0.01),
        "metrics": ["accuracy"],
        "jit_compile": True,
        **options,
    }
    model.compile(loss=loss, **chosen)
    return model


def _batch(shape: tuple[int, ...], words: int = 0) -> Batch:
    random = np.random.default_rng(0)
    x = random.integers(0, words, shape) if words else random.normal(size=shape)
    return x.astype("int32" if words else "float32"), random.integers(0, 10, shape[0]).astype("int32")
