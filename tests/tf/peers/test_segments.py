"""Test where models are cut, and that all segments form the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from checkmate.backends.tf.peers.segments import (
    crossing_tensors,
    cut_points,
    cuts_for,
    layer_calls,
    segmented_forward,
    segments,
)
from checkmate.errors import NotApplicableError
from tests.tf.conftest import load

MODELS, SMALL = (
    Path(__file__).parents[1].joinpath("models.py"),
    Path(__file__).parents[1].joinpath("small_models.py"),
)
CUTS = ("blocks", "sqrt_cuts", "sqrt_layers")


def chain(length: int) -> Any:
    return keras.Sequential([keras.Input((4,)), *(layers.Dense(4) for _ in range(length))])


def skipping() -> Any:
    """Return a model that cannot be cut. Its first and its last layer read one tensor."""
    inputs = keras.Input((4,))
    x = layers.Dense(4, name="first")(inputs)
    y = layers.Dense(4, name="second")(layers.ReLU(name="relu")(x))
    return keras.Model(inputs, layers.Dense(2, name="last")(layers.Add(name="join")([x, y])), name="skipping")


def names(model: Any) -> list[str]:
    return [call.operation.name for call in layer_calls(model)]


def test_a_chain_can_be_cut_anywhere_and_is_cut_at_every_root() -> None:
    model = chain(10)
    made = layer_calls(model)
    assert len(made) == 10 and cut_points(model, made) == list(range(1, 10))
    assert cuts_for(model, made, "sqrt_cuts") == [3, 6, 9] == cuts_for(model, made, "sqrt_layers")
    assert [len(part.model.layers) - 1 for part in segments(model, made, [3, 6, 9])] == [3, 3, 3, 1]


def test_nothing_reaches_over_a_cut_point() -> None:
    model = skipping()
    made = layer_calls(model)
    assert names(model) == ["first", "relu", "second", "join", "last"]
    assert cut_points(model, made) == [1, 4]
    assert [len(crossing_tensors(model, made, end)) for end in range(1, 5)] == [1, 2, 2, 1]
    assert cuts_for(model, made, "blocks") == [4]


def test_a_model_without_a_place_to_cut_says_so() -> None:
    first, second = keras.Input((4,)), keras.Input((4,))
    joined = layers.Add()([layers.Dense(4)(first), layers.Dense(4)(second)])
    model = keras.Model([first, second], joined, name="two_in")
    with pytest.raises(
        NotApplicableError,
        match="'two_in' has no segments: there is no place between two layers where a single tensor passes",
    ):
        cuts_for(model, layer_calls(model), "sqrt_cuts")
    straight = chain(5)
    with pytest.raises(NotApplicableError, match="joins branches or pools"):
        cuts_for(straight, layer_calls(straight), "blocks")
    with pytest.raises(NotApplicableError, match="is a subclassed model"):
        layer_calls(load(f"{MODELS}:subclassed", allow_code=True).model)


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize(
    "spec",
    [f"{SMALL}:convnet", f"{MODELS}:dict_inputs_outputs", f"{MODELS}:nested", f"{MODELS}:shared_embedding"],
    ids=lambda spec: spec.rpartition(":")[2],
)
def test_the_segments_together_are_the_model(spec: str, kind: Any) -> None:
    loaded = load(spec, allow_code=True)
    model = loaded.model
    made = layer_calls(model)
    try:
        parts = segments(model, made, cuts_for(model, made, kind))
    except NotApplicableError:
        assert kind != "sqrt_layers"  # always possible
        return
    assert len(parts) > 1
    for part in parts:  # every layer in one segment, and shared, not copied
        assert {id(each) for each in part.model.trainable_weights} <= {
            id(each) for each in model.trainable_weights
        }
    wrapped_bodies: list[Any] = []
    forward, wrapped = segmented_forward(model, parts, lambda body: wrapped_bodies.append(body) or body)
    assert wrapped == len(wrapped_bodies) < len(parts)
    x = loaded.pack_inputs(loaded.make_batch(3)[0])
    keras.utils.set_random_seed(1)  # dropout
    before = [variable.numpy() for variable in model.variables]
    got = forward(x)
    for variable, value in zip(model.variables, before, strict=True):
        variable.assign(value)
    wanted = model(x, training=True)
    keras.tree.assert_same_structure(got, wanted)
    for found, expected in zip(keras.tree.flatten(got), keras.tree.flatten(wanted), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_segments_without_float_inputs_and_the_last_one_are_not_wrapped() -> None:
    tokens = keras.Input((8,), dtype="int32")
    x = layers.GlobalAveragePooling1D()(layers.Embedding(10, 4)(tokens))
    model = keras.Model(tokens, layers.Dense(2)(layers.Dense(4)(x)))
    made = layer_calls(model)
    parts = segments(model, made, [1, 2, 3])
    chosen: list[Any] = []
    _, wrapped = segmented_forward(model, parts, lambda body: chosen.append(body) or body)
    assert len(parts) == 4 and wrapped == len(chosen) == 2
    assert [tf.as_dtype(part.reads[0].dtype).is_floating for part in parts] == [False, True, True, True]
