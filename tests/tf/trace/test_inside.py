"""Test what loops and conditions are foretold to allocate inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.loops import counted_trips, held_bytes, loop_lists, operations, trip_count

SIZE = 4 * 64 * 64  # bytes of a matrix
N = 64


def traced(body: Callable[..., Any], kind: str) -> tf.Operation:
    spec = tf.TensorSpec((N, N))
    graph = tf.function(body, autograph=False).get_concrete_function(spec).graph
    return next(op for op in graph.get_operations() if op.type == kind)


def held(op: tf.Operation) -> int:
    lists = loop_lists(op, frozenset()) if op.type.endswith("While") else {}
    return held_bytes(op, Kernels.EIGEN, lists, frozenset())


def grows(x: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, tf.concat([x, tf.matmul(x, x), x], 1)[:, :N])


def loop(step: Callable[[tf.Tensor], tf.Tensor], trips: int, x: tf.Tensor) -> tf.Tensor:
    return tf.while_loop(lambda i, y: i < trips, lambda i, y: (i + 1, step(y)), (0, x))[1]


def test_a_loop_holds_what_its_body_holds_at_once() -> None:
    op = traced(lambda x: loop(grows, 5, x), "StatelessWhile")
    # The state, a product and the three of them side by side, less the state that is returned.
    assert held(op) == 5 * SIZE - SIZE
    assert trip_count(op) == 5


def test_a_state_that_is_written_over_takes_nothing_more() -> None:
    assert held(traced(lambda x: loop(tf.tanh, 5, x), "StatelessWhile")) == 0


def test_a_loop_in_a_loop_counts() -> None:
    op = traced(lambda x: loop(lambda y: loop(grows, 3, y), 5, x), "StatelessWhile")
    # The state of the outer loop becomes the one of the inner loop.
    assert held(op) >= 4 * SIZE
    inner = traced(lambda x: loop(grows, 3, x), "StatelessWhile")
    assert operations(op) == pytest.approx(5 * operations(inner), rel=0.01)
    assert operations(inner) > 3 * 2 * 2 * N**3


@pytest.mark.parametrize("kind", ["StatelessIf", "StatelessCase"])
def test_a_condition_holds_what_its_largest_branch_holds(kind: str) -> None:
    def either(x: tf.Tensor) -> tf.Tensor:
        if kind == "StatelessIf":
            return tf.cond(x[0, 0] > 0, lambda: tf.tanh(x), lambda: grows(x))
        return tf.switch_case(tf.cast(x[0, 0], tf.int32), [lambda: tf.tanh(x), lambda: grows(x)])

    # The product and the three side by side; the result of the first branch alone would be SIZE.
    assert held(traced(either, kind)) == 4 * SIZE - SIZE


@pytest.mark.parametrize(("limit", "trips"), [(None, 4), (3, 3), (9, 4)])
def test_the_condition_tells_the_trips(limit: int | None, trips: int) -> None:
    def counts(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda i, y: i <= 7, lambda i, y: (i + 2, tf.tanh(y)), (1, x), maximum_iterations=limit
        )[1]

    assert trip_count(traced(counts, "StatelessWhile")) == trips


def test_a_range_tells_the_trips() -> None:
    def counts(x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(2, 14, 3):
            x = tf.tanh(x)
        return x

    assert counted_trips(traced(tf.autograph.to_graph(counts), "StatelessWhile")) == 4
