"""Test what is read off the graph of a step that is not Keras's own."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.trace.calls import called
from checkmate.backends.tf.trace.of_function import trace_function
from checkmate.errors import TraceError
from checkmate.ir import Phase

SPEC = tf.TensorSpec((4, 64), tf.float32)


def traced(body: Any) -> Any:
    return trace_function(body, [SPEC], ModelLike("step"), batch_size=4)


def phases(step: Any, *types: str) -> dict[str, set[Phase]]:
    found: dict[str, set[Phase]] = {kind: set() for kind in types}
    for op, phase in zip(step.ops, step.phases, strict=True):
        if op.type in found:
            found[op.type].add(phase)
    return found


def test_two_passes_and_what_they_update() -> None:
    first, second, average = (tf.Variable(tf.ones((64, 64))) for _ in range(3))

    def body(x: tf.Tensor) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(x @ first))
        first.assign_sub(0.1 * tf.clip_by_norm(tape.gradient(loss, first), 1.0))
        with tf.GradientTape() as tape:
            other = tf.reduce_sum(tf.sigmoid(tf.tanh(x @ first) @ second))
        second.assign_sub(0.1 * tape.gradient(other, second))
        average.assign(0.9 * average + 0.1 * first)
        return {"losses": (loss, None, other)}

    step, returned = traced(body)
    found = phases(
        step, "Tanh", "Sigmoid", "TanhGrad", "SigmoidGrad", "AssignSubVariableOp", "L2Loss", "Sqrt"
    )
    forward, backward, update = {Phase.FORWARD}, {Phase.BACKWARD}, {Phase.UPDATE}
    assert found["Tanh"] == found["Sigmoid"] == forward
    assert found["TanhGrad"] == found["SigmoidGrad"] == backward
    assert found["AssignSubVariableOp"] == found["Sqrt"] == update
    # The average of the weights depends on no gradient but serves an assignment alone.
    assert phases(step, "AssignVariableOp", "AddV2") == {"AssignVariableOp": update, "AddV2": update}
    assert {id(variable) for variable in step.variables} == {id(first), id(second), id(average)}
    packed = returned.pack(list("ab"))
    assert packed == {"losses": ("a", None, "b")}


def test_a_gradient_that_serves_a_gradient_is_no_update() -> None:
    weight = tf.Variable(tf.ones((64, 64)))

    def body(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.tanh(x @ weight))
            slope = tf.sqrt(tf.reduce_sum(tf.square(inner.gradient(y, x)), axis=1))
            loss = tf.reduce_mean(tf.square(slope - 1.0))
        weight.assign_sub(outer.gradient(loss, weight))
        return loss

    step, _ = traced(body)
    assert phases(step, "Sqrt", "Square", "AssignSubVariableOp") == {
        "Sqrt": {Phase.BACKWARD},
        "Square": {Phase.BACKWARD},
        "AssignSubVariableOp": {Phase.UPDATE},
    }


def test_called_functions_are_replaced_by_their_bodies_in_order() -> None:
    start = 0.05 * np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    weight, counter, last = tf.Variable(start), tf.Variable(0.0), tf.Variable(0.0)

    @tf.function
    def layer(x: tf.Tensor) -> tf.Tensor:
        counter.assign(2.0 * counter + 1.0)
        return tf.tanh(x @ weight)

    @tf.function
    def loss_of(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(layer(layer(x))) * counter

    def body(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        weight.assign_sub(tape.gradient(loss, weight))
        last.assign(counter)  # it is written here and read nowhere
        return loss

    expected = tf.function(body)(tf.ones((4, 64))).numpy()
    after = [variable.numpy() for variable in (weight, counter, last)]
    assert np.abs(after[0] - start).max() > 1e-4  # the update is seen
    for variable, value in zip((weight, counter, last), (start, 0.0, 0.0), strict=True):
        variable.assign(value)
    step, _ = traced(body)
    assert not any(map(called, step.ops))
    assert phases(step, "Tanh", "TanhGrad") == {"Tanh": {Phase.FORWARD}, "TanhGrad": {Phase.BACKWARD}}
    assert len(step.variables) == 3
    assert step.function(tf.ones((4, 64)))[0].numpy() == expected
    for variable, value in zip((weight, counter, last), after, strict=True):
        assert np.array_equal(variable.numpy(), value)
    assert counter.numpy() == last.numpy() == 3.0


def test_a_tensor_list_is_a_value_and_no_state() -> None:
    weight, recurrent = tf.Variable(tf.ones((64, 64))), keras.layers.LSTM(8)
    recurrent.build((4, 1, 64))

    def body(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            rows = tf.map_fn(lambda row: tf.tanh(tf.linalg.matvec(weight, row)), x)
            loss = tf.reduce_mean(recurrent(rows[:, None, :]) ** 2)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    step, _ = traced(body)
    assert any("TensorListStack" in op.type for op in step.ops)


@pytest.mark.parametrize("where", ["loop", "branch"])
def test_what_cannot_be_undone_is_found_in_loops_and_branches(where: str) -> None:
    numbers = iter(tf.data.Dataset.range(100))
    total = tf.Variable(0, dtype=tf.int64)

    def body(x: tf.Tensor) -> tf.Tensor:
        if where == "loop":
            zero = tf.constant(0, tf.int64)
            tf.while_loop(lambda i: i < 3, lambda i: (i + 1 + 0 * next(numbers),), (zero,))
        else:
            positive = tf.reduce_sum(x) > 0
            tf.cond(positive, lambda: total.assign_add(next(numbers)), lambda: total.assign_add(1))
        return tf.reduce_sum(x)

    with pytest.raises(TraceError, match="takes its data from an iterator itself"):
        traced(body)


def test_slices_are_not_returned() -> None:
    table = tf.Variable(tf.ones((100, 8)))

    def body(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, tf.cast(x[0, :4], tf.int32)))
        return tape.gradient(loss, table)

    with pytest.raises(TraceError, match="returns IndexedSlices"):
        traced(body)
