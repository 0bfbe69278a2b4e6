"""Test what Keras keeps about a model's graph.

If a release changes it, this fails before anything else does."""

from __future__ import annotations

import gc
import weakref

import keras
from keras import layers

from checkmate.models.keras_graph import forget_unused, inputs_of, outputs_of, producer, readers, walk_layers


def test_producer_looks_inside_nested_models() -> None:
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Softmax(name="deep")], name="inner")
    inputs = keras.Input((4,))
    model = keras.Model(inputs, inner(inputs))
    assert producer(model.outputs[0]).name == "deep"


def test_readers_look_inside_nested_models_and_see_every_use() -> None:
    table = layers.Embedding(5, 2, name="table")
    inner_input = keras.Input((3,))
    inner = keras.Model(inner_input, table(inner_input))
    inputs = keras.Input((3,))
    model = keras.Model(
        inputs, layers.Concatenate()([inner(inputs), layers.Reshape((3, 1), name="direct")(inputs)])
    )
    assert {operation.name for operation in readers(model, model.inputs[0])} == {"table", "direct"}


def test_walk_finds_layers_in_lists_and_dictionaries_once() -> None:
    class Holder(layers.Layer):
        def __init__(self):
            super().__init__()
            self.one = layers.Dense(1, name="one")
            self.more = [self.one, {"two": layers.Dense(1, name="two")}]

    assert [layer.name for layer in walk_layers(Holder())][1:] in (["one", "two"], ["two", "one"])


def test_subclassed_model_has_no_symbolic_ends() -> None:
    class Sub(keras.Model):
        def call(self, x):
            return x

    assert inputs_of(Sub()) == outputs_of(Sub()) == []


def test_layers_of_another_network_are_freed_and_the_models_own_are_kept() -> None:
    inputs = keras.Input((4,))
    inner = layers.Dense(3, name="inner")(inputs)
    head = layers.Dense(2, name="head")
    whole = keras.Model(inputs, head(inner))
    nested = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    model = keras.Model(whole.input, nested(whole.get_layer("inner").output))
    unused = weakref.ref(head)
    del head, whole
    gc.collect()
    assert unused() is not None, "Keras itself keeps it"
    assert forget_unused(model) and not forget_unused(model)
    gc.collect()
    assert unused() is None
    assert [operation.name for operation in readers(model, model.inputs[0])] == ["inner"]
    assert keras.models.clone_model(model)(keras.ops.ones((1, 4))).shape == (1, 2)
