"""Run a step by schedules, and compare it with the plain one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.live.measure import ReadyStep
from checkmate.backends.tf.profiler import trace_run
from checkmate.training.any_step import AnyStep
from tests.tf.schedules import recompute_forward


def types_run(step: AnyStep, tensors: list[tf.Tensor], *, bitwise: bool = False) -> Iterator[list[str]]:
    """Yield the types of the ops that run, by a schedule each time.

    Check that the step returns and writes what the plain one does. It has one variable.
    """
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
