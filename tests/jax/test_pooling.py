"""Test the slope of max pooling by comparisons."""

from __future__ import annotations

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
from checkmate.backends.jax.program import read_program
from checkmate.backends.jax.ties import Pin, pooling_slope
from checkmate.backends.jax.ways import ways_on
from checkmate.backends.xla_policy.pooling import can_compare
from tests.jax.steps import plain_order


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
    equation = slope_equation(pooling((9, 9), (9, 9), "VALID"), x)
    assert not can_compare(equation.params["window_dimensions"])
    program = read_program(
        jax.make_jaxpr(lambda x, g: jax.vjp(pooling((9, 9), (9, 9), "VALID"), x)[1](g)[0])(
            x, jnp.ones((1, 2, 2, 1))
        )
    )
    (fusion,) = [each for each in fusions(program) if each.root.name == "select_and_scatter_add"]
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
