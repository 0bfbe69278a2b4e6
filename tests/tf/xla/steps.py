"""Trace the small networks that XLA compiles, once for all tests."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf.live.trace import KerasStep, live_step
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.coarsen import fused
from checkmate.backends.tf.xla.compiled import compile_step
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.solvers.problem import SolveOptions
from tests.tf.xla.networks import NETWORKS


@functools.cache
def traced(name: str, policy: str = "float32") -> tuple[KerasStep, list[tf.Tensor]]:
    keras.utils.set_random_seed(1)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model, batch = NETWORKS[name]()
    finally:
        keras.config.set_dtype_policy(before)
    layout, tensors = flatten(batch)
    step = live_step(model, layout)
    return step.with_folded(fused(step.folded)), tensors


@functools.cache
def solved(name: str, share: float, policy: str = "float32") -> Schedule:
    """Return a schedule within a share of what the plain order requests."""
    graph = traced(name, policy)[0].graph
    everything = simulate(graph, Schedule.plain(graph)).peak_bytes
    budget = graph.fixed_bytes + int(share * (everything - graph.fixed_bytes))
    solver = ScheduleSolver("auto", SolveOptions(time_limit_s=5), counted=True)
    found = solver.solve(graph, budget).schedule
    assert found is not None
    return found


def emitted_ops(step: KerasStep, schedule: Schedule, **options: Any) -> list[tf.Operation]:
    emitted = tied_step(step.folded, schedule, **options)
    body = tf.function(lambda *given: emitted(*given).loss, autograph=False)
    made: list[tf.Operation] = body.get_concrete_function(*step.layout.specs).graph.get_operations()
    return made


def emitted_types(step: KerasStep, schedule: Schedule, **options: Any) -> list[str]:
    return [op.type for op in emitted_ops(step, schedule, **options)]


def temp_bytes(step: KerasStep, schedule: Schedule, **options: Any) -> int:
    emitted = tied_step(step.folded, schedule, **options)

    def body(*tensors: tf.Tensor) -> Any:
        outputs = emitted(*tensors)
        return outputs.loss, outputs.predictions

    return compile_step(body, step.layout.specs).memory.temp_bytes


def temps_by(name: str, schedule: Schedule, *ways: WaitPolicy) -> list[int]:
    return [temp_bytes(traced(name)[0], schedule, tied=tied) for tied in ways]


def run(
    name: str, schedule: Schedule, tied: WaitPolicy, policy: str = "float32"
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return loss and gradients of one compiled step, and what it leaves."""
    step, tensors = traced(name, policy)
    emitted = tied_step(step.folded, schedule, with_gradients=True, tied=tied)

    @tf.function(autograph=False, jit_compile=True)  # type: ignore[untyped-decorator]
    def body(*tensors: tf.Tensor) -> Any:
        outputs = emitted(*tensors)
        return [outputs.loss, *tf.nest.flatten(outputs.gradients)]

    variables = step.folded.traced.variables
    with restored(variables):
        results = [tensor.numpy().astype(np.float64) for tensor in body(*tensors)]
        return results, [variable.numpy().astype(np.float64) for variable in variables]
