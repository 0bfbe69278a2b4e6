"""Test powers and transposed products of scheduled steps, in which TensorFlow only folds constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.live.measure import ReadyStep
from checkmate.backends.tf.models.batch import flatten_arguments
from checkmate.backends.tf.models.model import ModelLike
from checkmate.backends.tf.profiler import trace_run
from checkmate.backends.tf.trace.op_kinds import OpKind, is_cube, takes_over_inputs
from checkmate.training.any_step import AnyStep, any_step
from tests.tf.schedules import recompute_forward


def types_run(step: AnyStep, tensors: list[tf.Tensor], *, bitwise: bool = False) -> Iterator[list[str]]:
    """Yield the types of the ops that run by schedules, which have to give what the plain step does."""
    (variable,) = step.folded.traced.variables
    before = variable.numpy()
    plain = [*(tensor.numpy() for tensor in step.plain()(*tensors)[1:]), variable.numpy()]
    for schedule in (step.everything, recompute_forward(step.graph)):
        ready = ReadyStep(step, schedule)
        variable.assign(before)
        found = [*(tensor.numpy() for tensor in ready.run(tensors)[1]), variable.numpy()]
        for ours, theirs in zip(found, plain, strict=True):
            same = (
                np.array_equal(ours, theirs) if bitwise else np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
            )
            assert same, float(np.abs(ours - theirs).max())
        yield [run.type for run in trace_run(lambda ready=ready: ready.run(tensors), device="cpu").runs]


def powers_of(exponent: float) -> tuple[AnyStep, list[tf.Tensor]]:
    """Return a step of two powers of a tensor of 64 KiB, and their gradients."""
    random = np.random.default_rng(0)
    kernel = tf.Variable(random.random((64, 64)).astype(np.float32))

    def body(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            once = tf.pow(1.0 + tf.sigmoid(x @ kernel), exponent)
            loss = tf.reduce_mean(tf.pow(1.0 + tf.tanh(once @ kernel), exponent))
        gradient = tape.gradient(loss, kernel)
        kernel.assign_sub(1e-3 * gradient)
        return loss, gradient

    x = tf.constant(random.normal(size=(256, 64)).astype(np.float32))
    layout, tensors = flatten_arguments(((x,), {}))
    return any_step(lambda *given: body(*given), ModelLike("powers"), layout), tensors


@pytest.mark.parametrize(
    ("exponent", "general", "kernel"),
    # Of the gradients of a cube and a square the exponents are 2 and 1.
    [(3.0, 0, "Square"), (2.0, 0, "Square"), (0.5, 0, "Sqrt"), (-1.0, 2, "Reciprocal"), (1.7, 4, "Pow")],
)
def test_a_power_runs_as_the_kernel_of_its_exponent(exponent: float, general: int, kernel: str) -> None:
    step, tensors = powers_of(exponent)
    for types in types_run(step, tensors):
        assert types.count("Pow") in ((0,) if general == 0 else range(general, 2 * general + 1))
        assert types.count(kernel) >= 2


def test_powers_are_as_traced_where_nothing_rewrites_plain_steps() -> None:
    """Compare bits, as a check of an export does: a product rounds otherwise."""
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        step, tensors = powers_of(3.0)
        for types in types_run(step, tensors, bitwise=True):
            assert types.count("Pow") >= 4
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def test_only_a_cube_needs_room_beside_its_input() -> None:
    for exponent in (3.0, 2.0, 1.7):
        step, _ = powers_of(exponent)
        for op in step.folded.structure.ops:
            if op.type == "Pow" and tf.get_static_value(op.inputs[1]) is not None:
                assert is_cube(op) is (exponent == 3.0)
                assert takes_over_inputs(op, Kernels.EIGEN) is not is_cube(op)


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
