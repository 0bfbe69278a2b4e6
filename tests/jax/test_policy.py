"""Test the policy's code on a JAX step: what the backward pass keeps of the forward pass, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import checkmate
import checkmate.jax
from tests.jax.steps import data, weights

Scoped = Callable[[str, Callable[..., Any]], Callable[..., Any]]


def layer(w: Any, h: Any) -> Any:
    return jnp.tanh(jnp.exp(jnp.sin(h @ w)) @ w)


def loss_with(scoped: Scoped) -> Callable[..., Any]:
    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x
        for number, w in enumerate(params):
            h = scoped(f"layer{number}", layer)(w, h)
        return jnp.mean((h - y) ** 2)

    return loss


def kept_bytes(loss: Callable[..., Any], args: Any) -> int:
    """The bytes of all that the backward pass keeps of the forward pass."""
    back = jax.vjp(loss, *args)[1]
    given = {id(leaf) for leaf in jax.tree.leaves(args)}
    return sum(leaf.nbytes for leaf in jax.tree.leaves(back) if id(leaf) not in given)


def test_the_code_frees_what_the_policy_says() -> None:
    args = (weights(4), *data())
    plain = loss_with(lambda name, function: jax.named_scope(name)(function))
    graph = checkmate.jax.profile(jax.grad(plain), *args, quiet=True)
    found = checkmate.policy(graph, "70%", quiet=True, options=checkmate.SolveOptions(time_limit_s=2))
    named = {segment.partition(",")[0] for segment in found.segments}
    assert found.fits and named <= {f"layer{number}" for number in range(4)}
    namespace: dict[str, Any] = {}
    exec(found.code, namespace)
    pasted = loss_with(namespace["scoped"])
    freed = checkmate.keep_everything_peak(graph) - found.peak_bytes
    assert kept_bytes(plain, args) - kept_bytes(pasted, args) >= freed > 0
    assert jnp.array_equal(*(jax.jit(jax.grad(each))(*args)[0] for each in (plain, pasted)))
