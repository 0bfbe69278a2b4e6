"""Test that small results stay in memory, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
from hypothesis import given, settings
from hypothesis import strategies as st

from checkmate.backends.jax.compiled import memory_of
from checkmate.backends.jax.fusions import fusions
from checkmate.backends.jax.program import Program
from checkmate.backends.jax.ties import ForCpu, OnCpu, Pin, pooling_slope
from checkmate.backends.jax.ways import Way, ways_on
from checkmate.backends.xla_policy.pooling import can_compare
from checkmate.backends.xla_policy.waits import Waiting, WaitPolicy
from tests.jax.steps import largest_difference, plain_order, read

WAYS = [way for alone in (True, False) for group in ways_on("cpu", alone=alone) for way in group]


def dropping(ws: Any, x: Any, key: Any) -> Any:
    """Return the gradients of layers with dropout and a ReLU between them."""

    def loss(ws: Any) -> Any:
        y = x
        for number, w in enumerate(ws):
            kept = jax.random.bernoulli(jax.random.fold_in(key, number), 0.9, y.shape)
            y = jax.nn.relu(jnp.where(kept, y @ w / 0.9, 0))
        return (y**2).sum()

    return jax.grad(loss)(ws)


def arguments(width: int = 256) -> tuple[Any, ...]:
    draw = np.random.default_rng(3)
    ws = [jnp.asarray(draw.normal(0, 0.05, (width, width)), jnp.float32) for _ in range(6)]
    return ws, jnp.asarray(draw.normal(0, 1, (4 * width, width)), jnp.float32), jax.random.key(4)


def kept(program: Program) -> frozenset[int]:
    return ForCpu.of(program, fusions(program)).kept


def shapes_kept(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    avals = [program.avals[value] for value in kept(program)]
    return sorted((str(aval.dtype), aval.shape) for aval in avals)


def test_what_is_kept_is_smaller_than_what_it_is_made_of() -> None:
    ws, x, key = arguments()
    masks = [("bool", (512, 256))] * 5  # the last layer's is read where it is made
    assert shapes_kept(read(dropping, ws, x[:512], key).program) == masks


def test_results_and_what_a_product_alone_reads_are_left_as_they_are() -> None:
    x = jnp.ones((128, 128))

    def result(x: Any) -> Any:
        y = (x @ x) > 0
        return y, jnp.where(y, x, 1) @ x

    def operand(x: Any) -> Any:
        y = (x @ x).astype(jnp.bfloat16)
        return y @ y

    for step in (result, operand):
        assert shapes_kept(read(step, x).program) == []


def residual(ws: Any, x: Any) -> Any:
    """Return the gradients of layers that add to a stream, each behind a norm."""

    def loss(ws: Any) -> Any:
        y = x
        for w in ws:
            centred = y - y.mean(-1, keepdims=True)
            y = y + jnp.tanh(centred @ w)
        return (y**2).sum()

    return jax.grad(loss)(ws)


def test_the_sums_of_a_residual_stream_are_kept() -> None:
    ws, x, _ = arguments()
    program, fused, _ = read(residual, ws, x)
    found = kept(program)
    shapes = [program.avals[value].shape for value in found]
    assert len(found) >= 5 and set(shapes) == {x.shape}  # each stream has a MiB
    made = {value: fusion for fusion in fused for value in fusion.writes}
    kinds = [{each.name for each in made[value].equations} for value in found]
    # The slope of tanh is an equation of its own from JAX 0.12 on, and a sum before.
    assert all({"add", "add_any", "one_minus_square"}.intersection(each) for each in kinds), kinds
    assert not kept(read(residual, ws, x[:512]).program)
    chain = read(lambda x, w: (jnp.tanh(jnp.sin(x @ w)) @ w).sum(), x, ws[0])
    assert not kept(chain.program)  # one value after another: nothing is added up


@pytest.mark.heavy
def test_xla_adds_a_residual_stream_up_once_and_gradients_stay() -> None:
    ws, x, _ = arguments()
    ws = [*ws, *ws]
    emitted, flat = WAYS[0].emitted("cpu"), jax.tree.leaves((ws, x))
    adds, found = [], []
    for kept in (False, True):
        _, compiled = plain_order(residual, (ws, x), replace(emitted, cpu=kept), WAYS[0].options)
        adds.append(compiled.as_text().count(" add("))
        found.append(compiled(*flat))
    assert adds[1] < 0.7 * adds[0], adds
    for one, other in zip(*found, strict=True):
        assert float(jnp.linalg.norm(one - other)) <= 1e-5 * float(jnp.linalg.norm(one))


@pytest.mark.heavy
@pytest.mark.parametrize("way", dict.fromkeys(WAYS), ids=str)
def test_xla_holds_the_masks_and_the_gradients_keep_their_bits(way: Any) -> None:
    args = arguments()
    emitted, flat = way.emitted("cpu"), jax.tree.leaves(args)
    held, found = [], []
    for pins in (False, True):
        _, compiled = plain_order(dropping, args, replace(emitted, cpu=pins), way.options)
        held.append(memory_of(compiled).temporary)
        found.append(compiled(*flat))
    assert emitted.cpu
    assert held[0] - held[1] >= 4 * 2**20  # each mask has 256 KiB, and its bits a MiB
    assert largest_difference(found[0], found[1]) == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_a_pin_changes_no_bit(dtype: str) -> None:
    value = jnp.asarray([np.nan, -0.0, 1.0], jnp.float32).astype(dtype)
    found = jax.jit(lambda anchor, value: Pin([anchor]).value(value))(jnp.zeros(3), value)
    assert found.dtype == value.dtype and np.asarray(found).tobytes() == np.asarray(value).tobytes()


def test_where_no_predicate_can_be_computed_nothing_is_pinned() -> None:
    value = jnp.ones(3)
    assert Pin([jax.random.key(1), jnp.zeros((0, 2))]).value(value) is value


def biased(params: Any, x: Any) -> Any:
    """Return parameters after a step of descent: layers with biases."""

    def loss(params: Any) -> Any:
        y = x
        for weight, bias in params:
            y = jax.nn.gelu(y @ weight + bias)
        return (y**2).sum()

    return jax.tree.map(lambda value, slope: value - 0.1 * slope, params, jax.grad(loss)(params))


def layers_with_biases(width: int = 64) -> tuple[Any, Any]:
    draw = np.random.default_rng(2)
    layers = [
        (jnp.asarray(draw.normal(0, 0.1, (width, width)), jnp.float32), jnp.zeros(width, jnp.float32))
        for _ in range(5)
    ]
    return layers, jnp.asarray(draw.normal(0, 1, (16 * width, width)), jnp.float32)


def test_ends_are_gradients_of_weights_and_biases() -> None:
    program, fused, _ = read(biased, *layers_with_biases())
    found = ForCpu.of(program, fused).ends
    made = [value for fusion in fused for value in fusion.writes if value in found]
    shapes = [program.avals[value].shape for value in made]
    assert set(shapes) == {(64,), (64, 64)}
    assert shapes.count((64, 64)) == 5 and shapes.count((64,)) == 10  # a bias is summed in two steps


def test_a_gate_waits_for_all_ends_since_the_gate_before() -> None:
    args = layers_with_biases()
    program, fused, _ = read(biased, *args)
    values: dict[int, Any] = dict(zip(program.arguments, jax.tree.leaves(args), strict=True))
    values.update(program.constants)
    cpu = OnCpu(ForCpu.of(program, fused), jax.tree.leaves(args), gates=True)
    waited = []
    for index, fusion in enumerate(fused):
        operands = cpu.operands(index, values)
        for value, operand in operands.items():
            assert program.avals[value].shape == (64, 64) and np.array_equal(operand, values[value])
        waited += list(operands)
        made = dict(values)
        for each in fusion.equations:
            inputs = [atom.val if hasattr(atom, "val") else made[atom] for atom in each.inputs]
            made.update(zip(each.outputs, each.run(inputs), strict=True))
        values.update((value, made[value]) for value in fusion.writes)
        cpu.keep(index, values)
    assert len(waited) == 4  # the slopes pass four layers


@pytest.mark.heavy
@pytest.mark.parametrize("waiting", Waiting)
def test_gates_change_no_gradient(waiting: Waiting) -> None:
    args = layers_with_biases()
    way = Way(WaitPolicy.RUNS, waiting, thrifty=True)
    run, compiled = plain_order(biased, args, way.emitted("cpu"), way.options)
    found = compiled(*jax.tree.leaves(args))
    assert largest_difference(found, jax.tree.leaves(jax.jit(biased)(*args))) <= 1e-6
    names = [each.primitive.name for each in jax.make_jaxpr(run)(*jax.tree.leaves(args)).eqns]
    assert ("and" in names) == way.emitted("cpu").gates  # of the predicates of several gradients


def pooling(window: tuple[int, int], stride: tuple[int, int], padding: Any, least: bool = False) -> Any:
    """Return a function that pools the two axes in the middle."""
    start, choose = (jnp.inf, jax.lax.min) if least else (-jnp.inf, jax.lax.max)
    sizes, strides = (1, *window, 1), (1, *stride, 1)
    return lambda x: jax.lax.reduce_window(x, np.asarray(start, x.dtype), choose, sizes, strides, padding)


def slope_equation(pooled: Any, x: Any) -> Any:
    closed = jax.make_jaxpr(lambda x, g: jax.vjp(pooled, x)[1](g)[0])(x, pooled(x))
    (found,) = [each for each in closed.eqns if each.primitive.name == "select_and_scatter_add"]
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("least", [False, True])
@settings(max_examples=10, deadline=None)
@given(
    window=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    size=st.tuples(st.integers(4, 9), st.integers(4, 9)),
    padding=st.sampled_from(["SAME", "VALID", [(0, 0), (1, 0), (0, 2), (0, 0)]]),
    values=st.sampled_from([2, 5, 100]),
    seed=st.integers(0, 99),
)
def test_comparing_gives_the_bits_of_the_scatter(
    window: Any, stride: Any, size: Any, padding: Any, values: int, dtype: str, least: bool, seed: int
) -> None:
    """Test with few values, so that several of a window are the largest."""
    draw = np.random.default_rng(seed)
    x = jnp.asarray(draw.integers(-values, values, (2, *size, 3)), dtype)
    pooled = pooling(window, stride, padding, least)
    slope = jnp.asarray(draw.normal(size=pooled(x).shape), dtype)
    params = slope_equation(pooled, x).params
    found = pooling_slope(slope, x, params, Pin([]))
    assert can_compare(params["window_dimensions"]) and found.dtype == x.dtype
    assert np.array_equal(found, jax.vjp(pooled, x)[1](slope)[0])


def test_infinite_and_absent_numbers_are_chosen_as_by_the_scatter() -> None:
    """Test both where nothing is padded.

    Of a number that is absent and padding the scatter takes the padding, and drops the slope.
    """
    for padding, last in (("SAME", 7.0), ("VALID", np.nan)):
        x = jnp.asarray([[-np.inf, -np.inf, last, 1.0, np.inf, last]]).reshape(1, 2, 3, 1)
        pooled = pooling((2, 2), (1, 1), padding)
        slope = 1.0 + jnp.arange(pooled(x).size, dtype=x.dtype).reshape(pooled(x).shape)
        found = pooling_slope(slope, x, slope_equation(pooled, x).params, Pin([]))
        assert np.array_equal(found, jax.vjp(pooled, x)[1](slope)[0])


def test_a_large_window_is_left_to_xla() -> None:
    x = jnp.ones((1, 20, 20, 1))
    pooled = pooling((9, 9), (9, 9), "VALID")
    assert not can_compare(slope_equation(pooled, x).params["window_dimensions"])
    fused = read(lambda x, g: jax.vjp(pooled, x)[1](g)[0], x, jnp.ones((1, 2, 2, 1))).fused
    (fusion,) = [each for each in fused if each.root.name == "select_and_scatter_add"]
    assert fusion.workspace >= 4 * x.nbytes


@pytest.mark.heavy
@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("way", [way for group in ways_on("cpu", alone=True) for way in group], ids=str)
def test_xla_holds_no_indices_of_a_pooled_step(way: Any, window: int) -> None:
    """Test that the graph's workspace is what XLA takes, or more."""

    def loss(x: Any) -> Any:
        return (pooling((window, window), (2, 2), "SAME")(x * 2) ** 2).sum()

    x = jnp.asarray(np.random.default_rng(1).integers(-4, 4, (8, 32, 32, 16)), jnp.float32)
    _, compiled = plain_order(jax.grad(loss), (x,), way.emitted("cpu"), way.options)
    assert memory_of(jax.jit(jax.grad(loss)).lower(x).compile()).temporary >= 5 * x.nbytes
    assert memory_of(compiled).temporary <= 2.8 * x.nbytes
    assert np.array_equal(compiled(x)[0], jax.grad(loss)(x))
