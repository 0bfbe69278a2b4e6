"""Test that a schedule holds when XLA compiles it.

Test that it holds only because of its ties, too.
"""

from __future__ import annotations

import dataclasses
import functools
from random import Random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.pipeline.counted import solve_counted
from checkmate.solvers.baselines.whole import whole_segments
from checkmate.solvers.listeners import SilentListener
from checkmate.solvers.problem import SolveOptions
from checkmate.tf.models.batch import flatten
from checkmate.tf.training.measure import restored
from checkmate.tf.training.trace import KerasStep, live_step
from checkmate.tf.xla.compiled import compile_step
from checkmate.tf.xla.emit import tied_step
from checkmate.tf.xla.ties import Tied, ways_to_tie
from tests.graphs_strategies import random_steps
from tests.tf.xla.networks import NETWORKS

ALL = ("dense", "transformer", "mixer", "normalized")


@functools.cache
def _step(name: str, policy: str = "float32") -> tuple[KerasStep, list[tf.Tensor]]:
    keras.utils.set_random_seed(1)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model, batch = NETWORKS[name]()
    finally:
        keras.config.set_dtype_policy(before)
    layout, tensors = flatten(batch)
    return live_step(model, layout), tensors


@functools.cache
def _schedule(name: str, share: float, policy: str = "float32") -> Schedule:
    graph = _step(name, policy)[0].graph
    everything = simulate(graph, Schedule.plain(graph)).peak_bytes
    budget = graph.fixed_bytes + int(share * (everything - graph.fixed_bytes))
    options = SolveOptions(time_limit_s=5)
    found = solve_counted(graph, budget, options=options, listener=SilentListener()).schedule
    assert found is not None
    return found


def _temp_bytes(step: KerasStep, schedule: Schedule, **options: Any) -> int:
    emitted = tied_step(step.folded, schedule, **options)

    def body(*tensors: tf.Tensor) -> Any:
        outputs = emitted(*tensors)
        return outputs.loss, outputs.predictions

    return compile_step(body, step.layout.specs).memory.temp_bytes


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_temporaries_fall_with_the_schedule_and_only_with_ties(name: str) -> None:
    step, _ = _step(name)
    plain = compile_step(step.plain(), step.layout.specs).memory.temp_bytes
    found = [_temp_bytes(step, _schedule(name, share)) for share in (0.75, 0.45)]
    untied = _temp_bytes(step, _schedule(name, 0.45), tied=Tied.NONE)
    assert found[0] < plain
    assert found[1] < 0.75 * plain
    assert found[1] < 0.8 * untied


@pytest.mark.heavy
def test_runs_that_wait_once_take_less() -> None:
    step, _ = _step("dense")
    schedule = _schedule("dense", 0.2)
    once, each = (_temp_bytes(step, schedule, tied=tied) for tied in (Tied.RUNS, Tied.RECOMPUTED))
    assert once < 0.85 * each


@pytest.mark.heavy
def test_values_that_wait_take_less_where_they_are_convolved() -> None:
    step, _ = _step("convolved")
    assert ways_to_tie(step.graph)[:2] == (Tied.RUNS, Tied.VALUES)
    assert Tied.VALUES not in ways_to_tie(_step("dense")[0].graph)
    whole = whole_segments(step.graph, simulate(step.graph, Schedule.plain(step.graph)).peak_bytes)
    schedule = min(whole, key=lambda each: each.peak_bytes or 0).require_schedule()
    run, value = (_temp_bytes(step, schedule, tied=tied) for tied in (Tied.RUNS, Tied.VALUES))
    assert value < 0.95 * run


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "policy", "tied"),
    [
        *((name, "float32", Tied.RUNS) for name in ALL),
        ("transformer", "mixed_bfloat16", Tied.RUNS),
        ("dense", "float32", Tied.RECOMPUTED),
        ("convolved", "float32", Tied.VALUES),
    ],
)
def test_loss_gradients_and_state_are_those_of_the_plain_step(name: str, policy: str, tied: Tied) -> None:
    step, tensors = _step(name, policy)
    traced = step.folded.traced

    def run(schedule: Schedule) -> tuple[list[np.ndarray], list[np.ndarray]]:
        emitted = tied_step(step.folded, schedule, with_gradients=True, tied=tied)

        @tf.function(autograph=False, jit_compile=True)  # type: ignore[untyped-decorator]
        def body(*tensors: tf.Tensor) -> Any:
            outputs = emitted(*tensors)
            return [outputs.loss, *tf.nest.flatten(outputs.gradients)]

        with restored(traced.variables):
            results = [tensor.numpy().astype(np.float64) for tensor in body(*tensors)]
            return results, [variable.numpy().astype(np.float64) for variable in traced.variables]

    plain, plain_state = run(Schedule.plain(step.graph))
    scheduled, state = run(_schedule(name, 0.45, policy))
    largest = max(float(np.linalg.norm(each)) for each in plain[1:])
    close = 1e-6 if policy == "float32" else 1e-2  # XLA may round bfloat16 at other places
    for before, after in zip(plain + plain_state, scheduled + state, strict=True):
        error = float(np.linalg.norm(after - before))
        assert error <= close * max(float(np.linalg.norm(before)), 1e-2 * largest)


def test_every_process_emits_the_same_step_whatever_it_knows_of_costs() -> None:
    step, _ = _step("normalized")
    graph = step.graph
    ops = tuple(dataclasses.replace(op, cost=float(number % 3)) for number, op in enumerate(graph.ops))
    others = dataclasses.replace(graph, ops=ops)

    def emitted(graph: Graph) -> Any:
        schedule = Schedule.of(graph, random_steps(Random(1), graph))
        folded = dataclasses.replace(step.folded, graph=graph)
        body = tf.function(lambda *tensors: tied_step(folded, schedule)(*tensors).loss, autograph=False)
        made = body.get_concrete_function(*step.layout.specs).graph.get_operations()
        number = {op.name: place for place, op in enumerate(made)}
        return [(op.type, [(number[each.op.name], each.value_index) for each in op.inputs]) for op in made]

    assert emitted(graph) == emitted(others)
