"""Build the networks of ``python -m tests.benchmarks xla``.

``vit`` and ``text`` are for ``python -m tests.benchmarks jax_keras``, which measures the others, too.
After a first step their momenta are the gradients times the learning rate.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers


def dense() -> Any:
    """Return ten dense layers with norms; batch 4096."""
    inputs = keras.Input((256,))
    x: Any = inputs
    for _ in range(10):
        x = layers.Activation("gelu")(layers.LayerNormalization()(layers.Dense(256)(x)))
    return _compiled(inputs, layers.Dense(10)(x))


def transformer() -> Any:
    """Return an encoder of four blocks with dropout; batch 32."""
    inputs = keras.Input((128,), dtype="int32")
    x: Any = layers.Embedding(1000, 128)(inputs)
    for _ in range(4):
        x = _block(x, causal=False)
    return _compiled(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


def gpt() -> Any:
    """Return a decoder of four blocks that predicts tokens; batch 16."""
    inputs = keras.Input((128,), dtype="int32")
    x: Any = layers.Embedding(2000, 128)(inputs)
    for _ in range(4):
        x = _block(x, causal=True)
    return _compiled(inputs, layers.Dense(2000)(layers.LayerNormalization()(x)))


def mixer() -> Any:
    """Return an MLP-Mixer of four blocks; batch 32."""
    inputs = keras.Input((196, 48))
    x: Any = layers.Dense(128)(inputs)
    for _ in range(4):
        h = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        h = layers.Dense(196)(layers.Dense(128, activation="gelu")(h))
        x = layers.Add()([x, layers.Permute((2, 1))(h)])
        h = layers.Dense(512, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(128)(h)])
    return _compiled(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))


def resnet() -> Any:
    """Return a residual network of six convolutions; batch 16."""
    inputs = keras.Input((32, 32, 3))
    return _compiled(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(residual_blocks(inputs))))


def residual_blocks(x: Any) -> Any:
    """Return a convolution of ``x`` and three residual blocks after it."""
    x = layers.Conv2D(16, 3, padding="same")(x)
    for _ in range(3):
        h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(x)))
        h = layers.BatchNormalization()(layers.Conv2D(16, 3, padding="same")(h))
        x = layers.ReLU()(layers.Add()([x, h]))
    return x


def vit() -> Any:
    """Return four blocks of a transformer on patches of images; batch 32."""
    inputs = keras.Input((32, 32, 3))
    x: Any = layers.Permute((1, 3, 2, 4, 5))(layers.Reshape((8, 4, 8, 4, 3))(inputs))
    x = layers.Dense(128)(layers.Reshape((64, 48))(x))
    for _ in range(4):
        x = _block(x, causal=False)
    return _compiled(
        inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x)))
    )


def text() -> Any:
    """Return a classifier of words by four convolutions; batch 32."""
    inputs = keras.Input((256,), dtype="int32")
    x: Any = layers.Embedding(5000, 128)(inputs)
    for _ in range(4):
        h = layers.Conv1D(128, 5, padding="same", activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dropout(0.1)(h)])
    return _compiled(inputs, layers.Dense(10)(layers.GlobalMaxPooling1D()(x)))


def _block(x: Any, *, causal: bool) -> Any:
    h = layers.LayerNormalization()(x)
    h = layers.MultiHeadAttention(4, 32, dropout=0.1)(h, h, use_causal_mask=causal)
    x = layers.Add()([x, h])
    h = layers.Dense(512, activation="gelu")(layers.LayerNormalization()(x))
    return layers.Add()([x, layers.Dropout(0.1)(layers.Dense(128)(h))])


def _compiled(inputs: Any, outputs: Any) -> Any:
    model = keras.Model(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), loss, jit_compile=True)
    return model
