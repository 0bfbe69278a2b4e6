"""Test that a schedule holds when XLA compiles it, and only because of its ties."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from checkmate.backends.tf.live.trace import live_step
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.xla.compiled import compile_step
from checkmate.backends.tf.xla.op_costs import costs_for_xla
from checkmate.backends.tf.xla.tied import Depths
from checkmate.backends.xla_policy.waits import WaitPolicy, ways_to_tie
from checkmate.ir import CostOrigin, Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.baselines import whole_segments
from tests.graphs_strategies import random_steps
from tests.tf.xla.steps import emitted_ops, run, solved, temp_bytes, temps_by, traced

ALL = ("dense", "transformer", "mixer", "normalized")


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_temporaries_fall_with_the_schedule_and_only_with_ties(name: str) -> None:
    step, _ = traced(name)
    plain = compile_step(step.plain(), step.layout.specs).memory.temp_bytes
    # With batch norms the plain order requests more than XLA takes, and half of it is nearly the least.
    shares = (0.6, 0.5) if name == "normalized" else (0.75, 0.45)
    found = [temp_bytes(step, solved(name, share)) for share in shares]
    untied = temp_bytes(step, solved(name, shares[1]), tied=WaitPolicy.NONE)
    assert found[0] < plain
    assert found[1] < 0.75 * plain
    assert found[1] < 0.8 * untied


@pytest.mark.heavy
def test_runs_that_wait_once_take_less() -> None:
    once, each = temps_by("dense", solved("dense", 0.14), WaitPolicy.GATED, WaitPolicy.RECOMPUTED)
    assert once < 0.95 * each


@pytest.mark.heavy
def test_values_that_wait_take_less_where_they_are_convolved() -> None:
    step, _ = traced("convolved")
    assert ways_to_tie(step.graph)[:3] == (WaitPolicy.RUNS, WaitPolicy.GATED, WaitPolicy.VALUES)
    assert WaitPolicy.VALUES not in ways_to_tie(traced("dense")[0].graph)
    whole = whole_segments(step.graph, simulate(step.graph, Schedule.plain(step.graph)).peak_bytes)
    schedule = min(whole, key=lambda each: each.peak_bytes or 0).require_schedule()
    gated, value = temps_by("convolved", schedule, WaitPolicy.GATED, WaitPolicy.VALUES)
    assert value < 0.95 * gated


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "policy", "tied"),
    [
        *((name, "float32", WaitPolicy.RUNS) for name in ALL),
        ("transformer", "mixed_bfloat16", WaitPolicy.RUNS),
        ("dense", "float32", WaitPolicy.RECOMPUTED),
        ("transformer", "float32", WaitPolicy.GATED),
        ("convolved", "float32", WaitPolicy.VALUES),
        ("convolved", "float32", WaitPolicy.HELD),
    ],
)
def test_loss_gradients_and_state_are_those_of_the_plain_step(
    name: str, policy: str, tied: WaitPolicy
) -> None:
    step, _ = traced(name, policy)
    plain, plain_state = run(name, Schedule.plain(step.graph), WaitPolicy.NONE, policy)
    scheduled, state = run(name, solved(name, 0.5, policy), tied, policy)
    largest = max(float(np.linalg.norm(each)) for each in plain[1:])
    # XLA rounds at other places where it fuses other ops: bfloat16, and sums that read what is held. Before a
    # batch norm a bias has no gradient but what is rounded.
    close = 1e-2 if policy != "float32" else 5e-6 if tied is WaitPolicy.HELD else 1e-6
    least = (1e-1 if tied is WaitPolicy.HELD else 1e-2) * largest
    for before, after in zip(plain + plain_state, scheduled + state, strict=True):
        error = float(np.linalg.norm(after - before))
        assert error <= close * max(float(np.linalg.norm(before)), least)


def test_every_process_emits_the_same_step_whatever_it_knows_of_costs() -> None:
    step, _ = traced("normalized")
    graph = step.graph
    ops = tuple(dataclasses.replace(op, cost=float(number % 3)) for number, op in enumerate(graph.ops))
    others = dataclasses.replace(graph, ops=ops)

    def emitted(graph: Graph) -> Any:
        schedule = Schedule.of(graph, random_steps(Random(1), graph))
        folded = dataclasses.replace(step.folded, graph=graph)
        made = emitted_ops(step.with_folded(folded), schedule)
        number = {op.name: place for place, op in enumerate(made)}
        return [(op.type, [(number[each.op.name], each.value_index) for each in op.inputs]) for op in made]

    assert emitted(graph) == emitted(others)


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


def test_bytes_and_kinds_of_operations_count() -> None:
    inputs = keras.Input((128,))
    x = layers.Activation("gelu")(layers.Dense(128)(inputs))
    model = keras.Model(inputs, layers.ReLU()(layers.Dense(128)(x)))
    model.compile("sgd", "mse")
    layout, _ = flatten((np.zeros((512, 128), np.float32), np.zeros((512, 128), np.float32)))
    step = live_step(model, layout)
    graph, counted = costs_for_xla(step.folded), step.graph
    assert graph.fingerprint == counted.fingerprint and graph.cost_origin is CostOrigin.ANALYTIC

    def cost(name: str, of: str) -> float:
        found = [op.cost for op in (graph if of == "xla" else counted).ops if name in op.name]
        assert found, [op.name for op in graph.ops]
        return found[0]

    # By counts an error function is one operation for an element, and a product of 128 is 256 of them. Under
    # XLA it is sixty, and each of them takes as long as seven of a product.
    assert cost("Erfc", "counted") * 200 < cost("dense", "counted")
    assert cost("Erfc", "xla") > cost("dense", "xla")
    # What only moves bytes is no longer for nothing.
    moved = [sum(graph.values[value].bytes for value in op.outputs) for op in graph.ops]
    assert all(op.cost >= 2 * each / 2**30 for op, each in zip(graph.ops, moved, strict=True))
