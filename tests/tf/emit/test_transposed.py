"""Test that a product reads a transposed tensor without a copy of it, which no schedule would count."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.trace.op_kinds import OpKind
from checkmate.training.any_step import AnyStep, any_step
from tests.tf.emit.like_plain import types_run


def attention_step() -> tuple[AnyStep, list[tf.Tensor]]:
    """Return a step of attention by hand, with a kernel that is tied. Scores take 1 MiB."""
    random = np.random.default_rng(0)
    kernel = tf.Variable(0.1 * random.normal(size=(64, 64)).astype(np.float32))

    def body(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            queries, keys = tf.tanh(x @ kernel), tf.sigmoid(x @ tf.transpose(kernel))
            scores = tf.nn.softmax(tf.matmul(queries, tf.transpose(keys, [0, 2, 1])))
            once_more = tf.matmul(tf.transpose(keys, [0, 2, 1]), queries, adjoint_a=True, adjoint_b=True)
            loss = tf.reduce_mean(tf.square(scores @ x)) + tf.reduce_mean(once_more**3)
        gradient = tape.gradient(loss, kernel)
        kernel.assign_sub(1e-3 * gradient)
        return loss, gradient

    x = tf.constant(random.normal(size=(4, 256, 64)).astype(np.float32))
    layout, tensors = flatten_arguments(((x,), {}))
    return any_step(lambda *given: body(*given), ModelLike("attention"), layout), tensors


def test_products_read_transposed_what_nothing_else_does() -> None:
    step, tensors = attention_step()
    structure = step.folded.structure
    transpositions = [op for op in structure.ops if op.type == "Transpose"]
    copied = sum(structure.kinds[structure.index[op.name]] is OpKind.HEAVY for op in transpositions)
    assert 0 < copied < len(transpositions)
    for types in types_run(step, tensors):
        assert sum("MatMul" in each for each in types) >= 8
        assert sum("Transpose" in each for each in types) == copied
