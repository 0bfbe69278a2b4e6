"""Regressions of memory, planted into samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import keras

from checkmate.models.builtin import dtype_policy
from checkmate.models.sample_networks import build_sample

SHAPES = {"unet": (32, 32, 3), "mobilenet": (64, 64, 3), "lstm": (32, 64)}


def built(name: str, policy: str | None = None) -> Any:
    keras.utils.clear_session()  # numbered layers get the same names again
    with dtype_policy(policy):
        return build_sample(name, SHAPES[name])


def compiled(model: Any, optimizer: str = "adam") -> Any:
    binary = model.outputs[-1].shape[-1] == 1
    model.compile(optimizer, "binary_crossentropy" if binary else "sparse_categorical_crossentropy")
    return model


def with_layer(model: Any, layer: str, **changed: Any) -> Any:
    """Return a copy whose ``layer`` has another configuration."""

    def copied(each: Any) -> Any:
        config: Mapping[str, Any] = each.get_config()
        return type(each).from_config({**config, **(changed if each.name == layer else {})})

    return compiled(keras.models.clone_model(model, clone_function=copied))


def with_output(model: Any, layer: str) -> Any:
    """Return the model with what ``layer`` makes as a further output."""
    outputs = [*model.outputs, model.get_layer(layer).output]
    extended = keras.Model(model.inputs, outputs, name=model.name)
    extended.compile(optimizer="adam", loss=[model.loss, "mse"])
    return extended


def layer_of(model: Any, kind: str) -> str:
    """Return the name of the widest layer of a ``kind``."""
    found = [each for each in model.layers if type(each).__name__ == kind]
    return str(max(found, key=lambda each: math.prod(each.output.shape[1:])).name)


class _Block(keras.layers.Layer):  # type: ignore[misc]
    def __init__(self, *, again: bool, name: str) -> None:
        super().__init__(name=name)
        self.layers = [keras.layers.Dense(size, "gelu", name=f"to_{size}") for size in (256, 32)]
        self.again = again

    def call(self, x: Any) -> Any:
        def body(x: Any) -> Any:
            return self.layers[1](self.layers[0](x))

        return (keras.remat(body) if self.again else body)(x)


def _blocks(*again: bool) -> Any:
    keras.utils.clear_session()
    x = inputs = keras.Input((64, 32))
    for number, each in enumerate(again):
        x = _Block(again=each, name=f"block_{number}")(x)
    return compiled(keras.Model(inputs, keras.layers.Dense(10, "softmax")(x), name="blocks"))


def all_again() -> Any:
    return _blocks(True, True, True)


def one_lost() -> Any:
    return _blocks(True, False, True)
