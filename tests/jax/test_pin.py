"""Test that small results stay in memory, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from checkmate.backends.jax.compiled import memory_of
from checkmate.backends.jax.fusions import fusions
from checkmate.backends.jax.program import Program, read_program
from checkmate.backends.jax.ties import ForCpu, Pin
from checkmate.backends.jax.ways import ways_on
from tests.jax.steps import largest_difference, plain_order

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
    program = read_program(jax.make_jaxpr(dropping)(ws, x[:512], key))
    masks = [("bool", (512, 256))] * 5  # the last layer's is read where it is made
    assert shapes_kept(program) == masks


def test_results_and_what_a_product_alone_reads_are_left_as_they_are() -> None:
    x = jnp.ones((128, 128))

    def result(x: Any) -> Any:
        y = (x @ x) > 0
        return y, jnp.where(y, x, 1) @ x

    def operand(x: Any) -> Any:
        y = (x @ x).astype(jnp.bfloat16)
        return y @ y

    for step in (result, operand):
        assert shapes_kept(read_program(jax.make_jaxpr(step)(x))) == []


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
    program = read_program(jax.make_jaxpr(residual)(ws, x))
    fused = fusions(program)
    found = kept(program)
    shapes = [program.avals[value].shape for value in found]
    assert len(found) >= 5 and set(shapes) == {x.shape}  # each stream has a MiB
    made = {value: fusion for fusion in fused for value in fusion.writes}
    kinds = [{each.name for each in made[value].equations} for value in found]
    # The slope of tanh is an equation of its own from JAX 0.12 on, and a sum before.
    assert all({"add", "add_any", "one_minus_square"}.intersection(each) for each in kinds), kinds
    halved = read_program(jax.make_jaxpr(residual)(ws, x[:512]))
    assert not kept(halved)
    chain = read_program(jax.make_jaxpr(lambda x, w: (jnp.tanh(jnp.sin(x @ w)) @ w).sum())(x, ws[0]))
    assert not kept(chain)  # one value after another: nothing is added up


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
