"""Models and training steps for JAX, as a user's file has them."""

from __future__ import annotations

from typing import Any

import keras


def net() -> Any:
    """Return a compiled model with dropouts and a metric."""
    layers = [keras.layers.Input((64,))]
    for _ in range(5):
        layers += [keras.layers.Dense(64, activation="tanh"), keras.layers.Dropout(0.1)]
    model = keras.Sequential([*layers, keras.layers.Dense(10)], name="net")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"])
    return model


def two() -> Any:
    """Return an uncompiled model of two inputs and two outputs."""
    first, second = keras.Input((8,), name="first"), keras.Input((6,), dtype="int32", name="second")
    embedded = keras.layers.Flatten()(keras.layers.Embedding(12, 4)(second))
    joined = keras.layers.Concatenate()([keras.layers.Dense(8)(first), embedded])
    outputs = {
        "kind": keras.layers.Dense(3, activation="softmax")(joined),
        "size": keras.layers.Dense(1)(joined),
    }
    return keras.Model([first, second], outputs, name="two")


def with_batch() -> Any:
    """Return a model with the batch that its step takes."""
    import numpy as np

    return net(), (np.zeros((32, 64), "float32"), np.zeros((32,), "int32"))


def own_step(batch_size: int = 256) -> Any:
    """Return a step of JAX alone, which donates its state, and an example."""
    import jax
    import jax.numpy as jnp

    def train(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            h = x
            for w in params:
                h = jnp.tanh(h @ w)
            return jnp.mean(h**2)

        value, slopes = jax.value_and_grad(loss)(params)
        return [w - 0.1 * slope for w, slope in zip(params, slopes, strict=True)], value

    example = [jnp.eye(32) for _ in range(6)], jax.ShapeDtypeStruct((batch_size, 32), "float32")
    return jax.jit(train, donate_argnums=0), example


def broken_step() -> Any:
    """Return a step that fails when it is traced."""

    def train(x: Any) -> Any:
        raise RuntimeError("no such layer")

    import jax.numpy as jnp

    return train, jnp.ones(3)
