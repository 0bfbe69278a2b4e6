"""Test how much has to be computed before a value is known."""

from __future__ import annotations

import tensorflow as tf

from checkmate.backends.tf.xla.tied import Depths


def test_the_longest_path_counts_and_what_was_not_added_costs_nothing() -> None:
    depths = Depths()
    with tf.Graph().as_default():
        given = tf.compat.v1.placeholder(tf.float32, (2,))
        long = tf.exp(tf.exp(given))
        short = tf.exp(given)
        both = tf.reshape(long + short, (1, 2))
        for tensor, cost in ((long.op.inputs[0], 3.0), (long, 4.0), (short, 5.0), (both.op.inputs[0], 1.0)):
            depths.add(tensor.op, cost)
        assert [depths.of(tensor) for tensor in (given, short, long, both)] == [0.0, 5.0, 7.0, 8.0]


def test_a_long_row_of_views_is_no_deep_recursion() -> None:
    depths = Depths()
    with tf.Graph().as_default():
        tensor = tf.compat.v1.placeholder(tf.float32, (2,))
        for _ in range(3000):
            tensor = tf.identity(tensor)
        assert depths.of(tensor) == 0.0
