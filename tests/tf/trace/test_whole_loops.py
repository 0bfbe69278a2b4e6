"""Test that it is said which loops stay one op, why, and what would help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from checkmate.backends.tf.live.trace import LiveStep, step_of_fit
from checkmate.backends.tf.models.batch import flatten, flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.training.any_step import any_step

TIME, ROWS, UNITS = 16, 32, 64

Body = Callable[[tf.Tensor], tf.Tensor]


class State:
    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.kernel = tf.Variable(random.normal(0, 0.1, (UNITS, UNITS)), dtype=tf.float32)
        self.count = tf.Variable(0.0, name="count")
        self.norms = [layers.BatchNormalization(name=f"norm_{number}") for number in range(2)]
        for norm in self.norms:
            norm.build((None, UNITS))

    def cell(self, x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.tanh(x @ self.kernel) @ self.kernel)


def mapped(state: State, body: Body) -> Body:
    return lambda x: tf.map_fn(body, x)


def noise(state: State) -> Body:
    return mapped(state, lambda row: state.cell(row) + tf.random.normal([ROWS, UNITS]))


def noise_of_a_number(state: State) -> Body:
    def body(both: Any) -> tf.Tensor:
        return state.cell(both[0]) + tf.random.stateless_normal([ROWS, UNITS], [both[1], 7])

    return lambda x: tf.map_fn(body, (x, tf.range(TIME)), fn_output_signature=tf.float32)


def added(state: State) -> Body:
    def body(row: tf.Tensor) -> tf.Tensor:
        state.count.assign_add(1.0)
        return state.cell(row)

    return mapped(state, body)


def assigned(state: State) -> Body:
    def body(row: tf.Tensor) -> tf.Tensor:
        state.count.assign(state.count + 1.0)
        return state.cell(row)

    return mapped(state, body)


def one_norm_twice(state: State) -> Body:
    first, _ = state.norms
    return mapped(state, lambda row: first(state.cell(first(row, training=True)), training=True))


def two_norms(state: State) -> Body:
    first, second = state.norms
    return mapped(state, lambda row: second(state.cell(first(row, training=True)), training=True))


def norm_in_a_call(state: State) -> Body:
    return mapped(state, tf.function(lambda row: state.norms[0](state.cell(row), training=True)))


def norm_outside_of_the_call(state: State) -> Body:
    called = tf.function(state.cell)
    return mapped(state, lambda row: state.norms[0](called(row), training=True))


def gathered(state: State) -> Body:
    return mapped(state, lambda row: state.cell(row) + tf.gather(state.kernel, tf.range(ROWS)))


def gathered_of_a_tensor(state: State) -> Body:
    def body(x: tf.Tensor) -> tf.Tensor:
        kernel = tf.identity(state.kernel)
        return tf.map_fn(lambda row: state.cell(row) + tf.gather(kernel, tf.range(ROWS)), x)

    return body


def printed(state: State) -> Body:
    def body(row: tf.Tensor) -> tf.Tensor:
        tf.print("a row")
        return state.cell(row)

    return mapped(state, body)


def plain(state: State) -> Body:
    return mapped(state, state.cell)


def compiled(state: State) -> Body:
    return mapped(state, tf.function(state.cell, jit_compile=True))


def few(state: State) -> Body:
    return lambda x: tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, state.cell(x)), (0, x))[1]


def unrolled(state: State) -> Body:
    def body(x: tf.Tensor) -> tf.Tensor:
        for _ in range(3):
            x = state.cell(x)
        return x

    return body


def traced(make: Callable[[State], Body]) -> LiveStep:
    state = State()
    body = make(state)

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(body(x)))
        state.kernel.assign_sub(tape.gradient(loss, state.kernel))
        return loss

    layout, tensors = flatten_arguments(((tf.ones((TIME, ROWS, UNITS)),), {}))
    return any_step(step, ModelLike("step"), layout, tensors)


@pytest.mark.parametrize(
    ("make", "why", "helped"),
    [
        (noise, "draws random numbers (RandomStandardNormal)", noise_of_a_number),
        (added, "writes the variable 'count' in a way that is not followed (AssignAdd", assigned),
        (one_norm_twice, "writes the variable 'norm_0/moving_mean' in a way that", two_norms),
        (norm_in_a_call, "let it assign that itself, not in a function", norm_outside_of_the_call),
        (gathered, "uses the variable 'Variable' by 'map/while/Gather", gathered_of_a_tensor),
        (printed, "runs 'map/while/PrintV2' (PrintV2); do that outside of the loop", plain),
        (compiled, "XLA compiles 'map/while/StatefulPartitionedCall' inside it", plain),
        (few, "it has 3 iterations; a loop of Python", unrolled),
    ],
)
def test_it_is_said_why_a_loop_is_whole_and_what_helps(make: Any, why: str, helped: Any) -> None:
    found = traced(make)
    (said,) = found.folded.traced.notes
    assert said.startswith(("the loop 'map/while' stays one op", "the loop 'while' stays one op"))
    assert why in said
    assert said in found.graph.origin.notes
    (loop,) = (op for op in found.graph.ops if op.name in said and "While" in op.type)
    assert loop.recomputable is ("runs once" not in said)
    better = traced(helped)
    assert not better.folded.traced.notes
    assert not any(op.name == loop.name for op in better.graph.ops)


def test_loops_with_the_same_reason_are_named_together() -> None:
    def five(state: State) -> Body:
        bodies = [noise(state) for _ in range(5)]

        def body(x: tf.Tensor) -> tf.Tensor:
            for each in bodies:
                x = each(x)
            return x

        return body

    (said,) = traced(five).folded.traced.notes
    assert said.startswith("the loops 'map/while', 'map_1/while', 'map_2/while' and 2 more stay one op that ")


def test_a_loop_that_holds_little_is_not_named() -> None:
    def body(state: State) -> Body:
        def small(row: tf.Tensor) -> tf.Tensor:
            return row + tf.random.normal([1])

        return lambda x: plain(state)(x) * tf.map_fn(small, x[:, :1, 0])[:, :, None]

    assert not traced(body).folded.traced.notes


def test_a_step_that_xla_compiles_keeps_its_loops() -> None:
    inputs = keras.Input((TIME, UNITS))
    model = keras.Model(inputs, layers.Dense(1)(layers.GRU(UNITS)(inputs)))
    model.compile("sgd", "mse")
    layout, _ = flatten((np.ones((ROWS, TIME, UNITS), np.float32), np.ones((ROWS, 1), np.float32)))
    (said,) = step_of_fit(model, layout, for_xla=True).folded.traced.notes
    assert said.endswith('stays one op: XLA compiles the step; target="executor" would split it')
    assert not step_of_fit(model, layout).folded.traced.notes
