"""Test that a schedule computes the same.

Test that its recomputations stay, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.jax.emit import TiedSteps, scheduled
from checkmate.jax.fuse import fusions
from checkmate.jax.graph import graph_of
from checkmate.jax.memory import memory_of
from checkmate.jax.program import read_program
from checkmate.jax.speed import speed_of
from checkmate.jax.tie import Tie
from checkmate.pipeline import keep_everything_peak, solve
from tests.jax.steps import data, dense, dropout, largest_difference, weights


def with_repeats(graph: Graph, seed: int) -> Schedule:
    """Return the plain order, with ops repeated whose operands are there."""
    chance = np.random.default_rng(seed)
    steps: list[int] = []
    for index in range(graph.n):
        again = [i for i in chance.integers(0, max(1, index), 2).tolist() if index and graph.recomputable[i]]
        steps += [*again, index]
    return Schedule.of(graph, steps)


@pytest.mark.parametrize("ties", TiedSteps)
@pytest.mark.parametrize("seed", range(3))
def test_any_valid_schedule_gives_the_same_bits(ties: TiedSteps, seed: int) -> None:
    """Test without compiling, so that each equation is the same kernel."""
    args = (weights(3, 16), *data(8, 16), jax.random.key(3))
    closed = jax.make_jaxpr(dropout)(*args)
    program = read_program(closed)
    fused = fusions(program)
    graph = graph_of(program, fused, name="step", speed=speed_of("cpu", ""), fixed={})
    flat = jax.tree.leaves(args)
    expected = scheduled(program, fused, Schedule.plain(graph), "cpu", TiedSteps.NONE)(*flat)
    plain = jax.extend.core.jaxpr_as_fun(closed)(*flat)
    found = scheduled(program, fused, with_repeats(graph, seed), "cpu", ties)(*flat)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert largest_difference(found, plain) <= 1e-6


def test_ties_keep_recomputations_that_xla_would_merge() -> None:
    args = (weights(), *data())
    closed = jax.make_jaxpr(dense)(*args)
    program = read_program(closed)
    fused = fusions(program)
    graph = graph_of(program, fused, name="step", speed=speed_of("cpu", ""), fixed={})
    schedule = solve(graph, int(0.6 * keep_everything_peak(graph)), solver="greedy").require_schedule()

    def temporary(ties: TiedSteps) -> int:
        run = scheduled(program, fused, schedule, "cpu", ties)
        return memory_of(jax.jit(run).lower(*closed.in_avals).compile()).temporary

    plain = memory_of(jax.jit(dense).lower(*args).compile()).temporary
    assert temporary(TiedSteps.NONE) >= 0.95 * plain
    assert temporary(TiedSteps.RECOMPUTED) <= 0.8 * plain


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint32", "bool", "complex64"])
@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_a_tie_changes_no_bit(dtype: str, platform: str) -> None:
    anchor = jnp.asarray([0, 1], dtype)
    value = jnp.asarray([np.nan, -0.0, np.inf], jnp.float32)

    @jax.jit
    def tied(anchor: Any, value: Any) -> Any:
        return Tie(anchor, platform).operand(value)

    assert np.array_equal(np.asarray(tied(anchor, value)).view(np.uint32), np.asarray(value).view(np.uint32))


def test_a_key_can_be_tied() -> None:
    key = jax.random.key(5)
    found = Tie(jnp.ones(3), "cpu").operand(key)
    assert np.array_equal(jax.random.key_data(found), jax.random.key_data(key))
