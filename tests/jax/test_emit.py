"""Test that a schedule computes the same, and that its recomputations stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from checkmate.backends.jax.compiled import memory_of
from checkmate.backends.jax.emission import Emitted
from checkmate.backends.jax.ties import Tie, scattered_late
from checkmate.backends.jax.ways import Way
from checkmate.backends.xla_policy.waits import Waiting, WaitPolicy
from checkmate.ir import Graph, Phase, Schedule
from checkmate.planning import keep_everything_peak, solve
from tests.benchmarks.jax_networks import gpt
from tests.jax.steps import CPU, GPU, data, dense, dropout, largest_difference, read, weights

pytestmark = pytest.mark.heavy  # many tests of a second or two


def with_repeats(graph: Graph, seed: int) -> Schedule:
    """Return the plain order, with ops repeated whose operands are there."""
    chance = np.random.default_rng(seed)
    steps: list[int] = []
    for index in range(graph.n):
        again = [i for i in chance.integers(0, max(1, index), 2).tolist() if index and graph.recomputable[i]]
        steps += [*again, index]
    return Schedule.of(graph, steps)


@pytest.mark.parametrize("waiting", Waiting)
@pytest.mark.parametrize("ties", WaitPolicy)
@pytest.mark.parametrize("seed", range(3))
def test_any_valid_schedule_gives_the_same_bits(ties: WaitPolicy, seed: int, waiting: Waiting) -> None:
    """Test without compiling, so that each equation is the same kernel."""
    args = (weights(3, 16), *data(8, 16), jax.random.key(3))
    on_gpu = waiting is Waiting.BARRIERS
    step, flat = read(dropout, *args, speed=GPU if on_gpu else CPU), jax.tree.leaves(args)
    expected = step.plainly_tied(Emitted(WaitPolicy.NONE, waiting))(*flat)
    emitted = Emitted(ties, waiting, cpu=not on_gpu)
    found = step.tied(with_repeats(step.graph, seed), emitted)(*flat)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert largest_difference(found, jax.tree.leaves(dropout(*args))) <= 1e-6


def temporaries(step: Any, args: Any, ways: Sequence[Way]) -> list[float]:
    """Return what XLA holds of a schedule within 60 %, of the plain step's.

    It is compiled in each of some ways, and the plain step with the same options.
    """
    traced = read(step, *args)
    budget = int(0.6 * keep_everything_peak(traced.graph))
    schedule = solve(traced.graph, budget, solver="greedy").require_schedule()
    shares = []
    for way in ways:
        found, plain = (
            memory_of(jax.jit(each).lower(*given).compile(way.options)).temporary
            for each, given in ((traced.tied(schedule, way.emitted("cpu")), traced.shapes), (step, args))
        )
        shares.append(found / plain)
    return shares


def test_ties_keep_recomputations_that_xla_would_merge() -> None:
    args = (weights(), *data())
    free, tied = temporaries(dense, args, [Way(WaitPolicy.NONE), Way(WaitPolicy.RUNS)])
    assert free >= 0.95 and tied <= 0.8


def test_barriers_hold_recomputations_back_under_the_scheduler_for_memory() -> None:
    """Test that XLA:CPU runs what they separate early, under its usual one."""
    step, args = gpt(lambda block: block)
    thrifty = Way(WaitPolicy.RUNS, Waiting.BARRIERS, thrifty=True)
    free, held = temporaries(step, args, [Way(WaitPolicy.NONE, thrifty=True), thrifty])
    assert free >= 0.95 and held <= 0.85


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint32", "bool", "complex64"])
@pytest.mark.parametrize("barriers", [False, True])
def test_a_tie_changes_no_bit(dtype: str, barriers: bool) -> None:
    anchor = jnp.asarray([0, 1], dtype)
    value = jnp.asarray([np.nan, -0.0, np.inf], jnp.float32)

    @jax.jit
    def tied(anchor: Any, value: Any) -> Any:
        tie = Tie([anchor])
        return tie.behind([value])[0] if barriers else tie.selected(value)

    assert np.array_equal(np.asarray(tied(anchor, value)).view(np.uint32), np.asarray(value).view(np.uint32))


def test_a_key_can_be_tied() -> None:
    key = jax.random.key(5)
    found = Tie([jnp.ones(3)]).selected(key)
    assert np.array_equal(jax.random.key_data(found), jax.random.key_data(key))


def barriers(step: Any, *args: Any) -> tuple[Any, list[Any]]:
    """Return a step as it is put to a GPU, and its barriers.

    Its whole forward pass runs again before its last kernel.
    """
    found = read(step, *args, speed=GPU)
    last = found.graph.n - 1
    again = [index for index in range(last) if found.graph.ops[index].phase is Phase.FORWARD]
    schedule = Schedule.of(found.graph, [*range(last), *again, last])
    run = found.tied(schedule, Emitted(WaitPolicy.RUNS, Waiting.BARRIERS))
    traced = jax.make_jaxpr(run)(*found.shapes).jaxpr
    return traced, [each for each in traced.eqns if each.primitive.name == "optimization_barrier"]


def normed_layers(ws: Any, x: Any) -> Any:
    """Train layers of a product and a norm of columns, of bfloat16."""

    def loss(ws: Any) -> Any:
        h = x
        for w in ws:
            wide = (h @ w).astype(jnp.float32)
            h = jax.nn.relu((wide - wide.mean(0)) * jax.lax.rsqrt((wide * wide).mean(0) + 1)).astype(x.dtype)
        return jnp.mean(h.astype(jnp.float32))

    return jax.grad(loss)(ws)


def test_no_barrier_holds_a_wider_copy() -> None:
    rows, width = 4096, 64
    shapes = [jax.ShapeDtypeStruct((width, width), jnp.bfloat16)] * 3
    x = jax.ShapeDtypeStruct((rows, width), jnp.bfloat16)
    _, found = barriers(normed_layers, shapes, x)
    large = [atom.aval for each in found for atom in each.invars if atom.aval.size == rows * width]
    assert large and {str(aval.dtype) for aval in large} == {"bfloat16"}


def test_recomputations_wait_for_gradients_that_are_needed_later() -> None:
    def step(w: Any, x: Any) -> Any:
        slope = jax.grad(lambda w: jnp.mean(jnp.tanh(jnp.tanh(x @ w) @ w)))(w)
        return w - 0.1 * slope

    w, x = weights(1)[0], data()[0]
    traced, found = barriers(step, w, x)
    inside = {id(var) for each in traced.eqns for var in each.outvars if each not in found}
    held = [atom.aval.shape for each in found for atom in each.invars if id(atom) in inside]
    assert w.shape in held  # a gradient: nothing else of that shape is made, and the update reads it


def test_a_value_that_waited_is_read_so_by_all_that_follows() -> None:
    traced, found = barriers(normed_layers, [weights(1)[0]] * 3, data()[0])
    passed: set[int] = set()
    for each in traced.eqns:
        assert not passed.intersection(id(atom) for atom in each.invars)
        if each in found:
            passed.update(id(atom) for atom in each.invars[:1])


def test_the_zeros_of_max_pooling_s_slope_wait_for_it() -> None:
    def pooled(x: Any) -> Any:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    x = jax.random.normal(jax.random.key(0), (2, 6, 6, 3))
    slope = jax.random.normal(jax.random.key(1), (2, 3, 3, 3))

    def backward(x: Any, slope: Any) -> Any:
        return jax.vjp(pooled, x)[1](slope)[0]

    equations = jax.make_jaxpr(backward)(x, slope).eqns
    (each,) = [each for each in equations if each.primitive.name == "select_and_scatter_add"]
    late = lambda slope, x: scattered_late(slope, x, each.params)  # noqa: E731
    assert np.array_equal(late(slope, x), jax.vjp(pooled, x)[1](slope)[0])
    names = [each.primitive.name for each in jax.make_jaxpr(late)(slope, x).eqns]
    assert names.index("optimization_barrier") < names.index("select_and_scatter")
    run = read(backward, x, slope, speed=GPU).plainly_tied(Emitted(WaitPolicy.RUNS, Waiting.BARRIERS))
    assert "select_and_scatter_add" not in str(jax.make_jaxpr(run)(x, slope))


def test_a_cheap_step_that_reads_the_one_before_has_no_tie() -> None:
    """Test a chain of cheap steps beside one of products.

    Ties in a chain would be fused, and each would compute all first elements before it again.
    """

    def predicates(step: Any) -> int:
        found = read(step, jnp.ones((8, 8)), jnp.ones((8, 8)))
        assert found.graph.n == 3
        run = found.plainly_tied(Emitted(WaitPolicy.ALL, Waiting.SELECTS))
        return sum(each.primitive.name == "ne" for each in jax.make_jaxpr(run)(*found.shapes).eqns)

    def cheap(x: Any, y: Any) -> Any:
        for axis in (0, 1, 0):
            x = jax.lax.cumsum(x, axis)
        return x

    assert predicates(cheap) == 0
    assert predicates(lambda x, y: x @ y @ y @ y) == 2
