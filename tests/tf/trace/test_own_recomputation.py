"""Test that recomputation of the user's own leaves the traced step, and that the step computes the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.outcomes import TAKEN_OUT
from checkmate.backends.tf import private
from checkmate.backends.tf.live.measure import restored
from checkmate.backends.tf.live.trace import folded_here
from checkmate.backends.tf.measure.concrete import compiled_step
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.trace.of_function import fixed_bytes, trace_function
from checkmate.backends.tf.trace.trace import needed_ops
from checkmate.backends.tf.trace.walks import needed
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from tests.tf.conftest import folded_model

UNITS = 16
SPEC = tf.TensorSpec((1024, UNITS), tf.float32)
Block = Callable[..., tf.Tensor]


class State:
    def __init__(self) -> None:
        random = np.random.default_rng(3)
        self.kernels = [
            tf.Variable(random.normal(0, 0.3, (UNITS, UNITS)).astype("float32")) for _ in range(3)
        ]
        self.average, self.count = tf.Variable(tf.zeros(UNITS)), tf.Variable([1, 2])

    @property
    def variables(self) -> list[tf.Variable]:
        return [*self.kernels, self.average, self.count]

    def step(self, blocks: list[Block]) -> Callable[[tf.Tensor], tf.Tensor]:
        def step(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                for block in blocks:
                    x = block(x)
                loss = tf.reduce_mean(tf.square(x))
            for kernel, gradient in zip(self.kernels, tape.gradient(loss, self.kernels), strict=True):
                if gradient is not None:
                    kernel.assign_sub(0.1 * gradient)
            return loss

        return step


def dense(state: State) -> Block:
    return lambda x: tf.nn.silu(tf.tanh(x @ state.kernels[0]) @ state.kernels[1]) + x


def half(state: State) -> Block:
    def block(x: tf.Tensor) -> tf.Tensor:
        wide = tf.cast(x, tf.bfloat16) @ tf.cast(state.kernels[0], tf.bfloat16)
        return tf.cast(tf.tanh(wide), tf.float32)

    return block


def called(state: State) -> Block:
    return tf.function(dense(state), autograph=False)


def noisy(state: State) -> Block:
    return lambda x: tf.tanh(x @ state.kernels[2]) * tf.random.stateless_uniform(x.shape, seed=(1, 2))


def nested(state: State) -> Block:
    inner = tf.recompute_grad(dense(state))
    return lambda x: tf.tanh(inner(x)) @ state.kernels[2]


def norm(state: State) -> Block:
    """As Keras's batch normalization: an average is read and written."""

    def block(x: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_mean(x @ state.kernels[0], axis=0)
        state.average.assign(0.9 * state.average + 0.1 * mean)
        return tf.tanh(x @ state.kernels[1] - mean) + 0.01 * state.average

    return block


def drawn_anew(state: State) -> Block:
    """As Keras's dropout: each run takes another seed."""

    def block(x: tf.Tensor) -> tf.Tensor:
        mask = tf.random.stateless_uniform(x.shape, seed=state.count.read_value())
        state.count.assign_add([0, 1])
        return tf.tanh(tf.tanh(x @ state.kernels[0]) * mask)

    return block


PURE, OTHERS = [dense, half, called, noisy, nested], [norm, drawn_anew]


def traced(step: Any) -> Any:
    return trace_function(step, [SPEC], ModelLike("step"), batch_size=1024)[0]


def graph_of(step: Any) -> Any:
    found = traced(step)
    return folded_here(found, fixed_bytes(found, 1)).graph


@pytest.mark.parametrize("make", PURE, ids=lambda make: make.__name__)
def test_the_graph_is_that_of_the_step_without_it(make: Any) -> None:
    state = State()
    block = make(state)
    plain, found = (graph_of(state.step([each] * 2)) for each in (block, tf.recompute_grad(block)))
    types = [Counter(op.type for op in graph.ops) for graph in (plain, found)]
    assert types[0] == types[1]
    peaks = [simulate(graph, Schedule.plain(graph)).peak_bytes for graph in (plain, found)]
    assert peaks[0] == peaks[1]


def test_it_is_said_where_there_was_any() -> None:
    state = State()
    block = dense(state)
    assert traced(state.step([block])).notes == ()
    assert traced(state.step([tf.recompute_grad(block)])).notes == (TAKEN_OUT,)


def test_what_is_drawn_anew_stays() -> None:
    state = State()
    step = traced(state.step([tf.recompute_grad(drawn_anew(state))]))
    read = needed_ops(step)
    types = Counter(op.type for op in step.ops if op.name in read)
    assert types["StatelessRandomUniformV2"] == 2
    assert types["Tanh"] == 3  # the one before the mask is there once


def after(state: State, function: Any) -> list[np.ndarray]:
    x = np.random.default_rng(1).normal(size=SPEC.shape).astype("float32")
    with restored(state.variables), private.folding_constants():
        loss = [np.asarray(tf.nest.flatten(function(x))[0]) for _ in range(2)]
        return [*loss, *(variable.numpy() for variable in state.variables)]


@pytest.mark.parametrize("seed", range(6))
def test_it_computes_the_same_to_the_bit(seed: int) -> None:
    state, random = State(), Random(seed)
    blocks = [random.choice(PURE + OTHERS)(state) for _ in range(4)]
    step = state.step([tf.recompute_grad(each) if random.random() < 0.8 else each for each in blocks])
    found = after(state, traced(step).function)
    for value, expected in zip(found, after(state, tf.function(step, autograph=False)), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_the_plain_step_of_a_model_is_without_it_except_to_compare() -> None:
    inputs = keras.Input((UNITS,))
    with keras.RematScope("activations"):
        hidden = keras.layers.Dense(UNITS, activation="tanh")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile("sgd", "mse")
    folded = folded_model(model, tuple(SPEC.shape), (SPEC.shape[0], 1))

    def tanh(with_gradients: bool) -> int:
        function = compiled_step(folded, None, with_gradients=with_gradients)
        ops = function.graph.get_operations()
        found = needed(function.outputs, ops)
        return sum(op.type == "Tanh" and op.name in found for op in ops)

    assert [tanh(with_gradients) for with_gradients in (False, True)] == [1, 2]
