"""Test that powers with a constant exponent have cheaper kernels.

Their gradients are such powers too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from checkmate.ir.schedule import Schedule
from checkmate.tf.kernels import Kernels
from checkmate.tf.models.batch import flatten_arguments
from checkmate.tf.models.model import ModelLike
from checkmate.tf.profiler import trace_run
from checkmate.tf.trace.op_kinds import is_cube, takes_over_inputs
from checkmate.tf.training.any_step import AnyStep, any_step
from checkmate.tf.training.ready import ReadyStep
from tests.tf.schedules import recompute_forward


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
    (variable,) = step.folded.traced.variables
    before = variable.numpy()
    plain = [tensor.numpy() for tensor in step.plain()(*tensors)[1:]]
    for schedule in (step.everything, recompute_forward(step.graph)):
        assert isinstance(schedule, Schedule)
        ready = ReadyStep(step, schedule)
        variable.assign(before)
        _, found = ready.run(tensors)
        for ours, theirs in zip(found, plain, strict=True):
            assert np.allclose(ours.numpy(), theirs, rtol=1e-4, atol=1e-7)
        types = Counter(
            run.type for run in trace_run(lambda ready=ready: ready.run(tensors), device="cpu").runs
        )
        assert (types["Pow"] == 0) == (general == 0) and types[kernel] >= 2


def test_only_a_cube_needs_room_beside_its_input() -> None:
    for exponent in (3.0, 2.0, 1.7):
        step, _ = powers_of(exponent)
        for op in step.folded.structure.ops:
            if op.type == "Pow" and tf.get_static_value(op.inputs[1]) is not None:
                assert is_cube(op) is (exponent == 3.0)
                assert takes_over_inputs(op, Kernels.EIGEN) is not is_cube(op)
