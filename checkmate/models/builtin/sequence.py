"""Build networks over sequences.

They are a Transformer encoder, a causal decoder, an LSTM and a GRU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from checkmate.models.builtin.samples import Positions

_VOCABULARY, _TOKENS, _WIDTH, _HEADS, _BLOCKS = 2000, 256, 256, 4, 4


def _embedded(tokens_count: int = _TOKENS, width: int = _WIDTH) -> tuple[Any, Any]:
    tokens = keras.Input((tokens_count,), dtype="int32")
    x = Positions(name="positions")(layers.Embedding(_VOCABULARY, width)(tokens))
    return tokens, layers.Dropout(0.1)(x)


def _feed_forward(x: Any, width: int = _WIDTH) -> Any:
    y = layers.Dense(4 * width, activation="gelu")(x)
    return layers.Dropout(0.1)(layers.Dense(width)(y))


def _encoder_blocks(x: Any, blocks: int, width: int) -> Any:
    for _ in range(blocks):
        y = layers.MultiHeadAttention(_HEADS, width // _HEADS, dropout=0.1)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dropout(0.1)(y)]))
        x = layers.LayerNormalization()(layers.Add()([x, _feed_forward(x, width)]))
    return x


def _encoder(name: str, tokens_count: int, width: int, blocks: int) -> Any:
    tokens, x = _embedded(tokens_count, width)
    x = _encoder_blocks(x, blocks, width)
    x = layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(tokens, x, name=name)
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def encoder() -> Any:
    """Return a Transformer of post-norm blocks that classifies their mean."""
    return _encoder("encoder", _TOKENS, _WIDTH, _BLOCKS)


def encoder_small() -> Any:
    """Return the same with two narrow blocks, for a quick test."""
    return _encoder("encoder_small", 128, 64, 2)


def gpt() -> Any:
    """Return a causal Transformer of pre-norm blocks. Each position predicts the next token."""
    tokens, x = _embedded()
    for _ in range(_BLOCKS):
        y = layers.LayerNormalization()(x)
        y = layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS, dropout=0.1)(y, y, use_causal_mask=True)
        x = layers.Add()([x, y])
        x = layers.Add()([x, _feed_forward(layers.LayerNormalization()(x))])
    logits = layers.Dense(_VOCABULARY, use_bias=False)(layers.LayerNormalization()(x))
    model = keras.Model(tokens, logits, name="gpt")
    optimizer = keras.optimizers.AdamW(3e-4, weight_decay=0.1, global_clipnorm=1.0)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return model


def lstm() -> Any:
    """Return two LSTM layers with a wide output for every step."""
    inputs = keras.Input((128, 128))
    x = layers.LSTM(256, return_sequences=True)(inputs)
    x = layers.Dropout(0.2)(layers.LayerNormalization()(x))
    x = layers.LSTM(256, return_sequences=True)(x)
    x = layers.Dense(512, activation="relu")(x)
    model = keras.Model(inputs, layers.Dense(50, activation="softmax")(x), name="lstm")
    model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return model


def gru() -> Any:
    """Return a GRU forward and one in both directions. The last state is classified."""
    inputs = keras.Input((128, 128))
    x = layers.GRU(256, return_sequences=True)(inputs)
    x = layers.Dense(256, activation="tanh")(x)
    x = layers.Bidirectional(layers.GRU(128))(x)
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x), name="gru")
    model.compile("rmsprop", "categorical_crossentropy", jit_compile=False)
    return model


BUILDERS: dict[str, Callable[[], Any]] = {
    "encoder": encoder,
    "encoder_small": encoder_small,
    "gpt": gpt,
    "lstm": lstm,
    "gru": gru,
}
