"""Networks for the benchmark of JAX steps.

They are small enough to compile in seconds.

Each is a chain of equal blocks. ``wrap`` is put around the block: ``jax.checkpoint`` with a policy, or
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Step = tuple[Callable[..., Any], tuple[Any, ...]]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def _drawn(seed: int, *shape: int) -> Any:
    made = np.random.default_rng(seed).normal(size=shape)
    return jnp.asarray(made / shape[0] ** 0.5, jnp.float32)


def _norm(x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def _chain(block: Callable[..., Any], params: list[Any], x: Any, wrap: Wrap) -> Step:
    """Return a step of plain descent through equal blocks, with its arguments."""
    layer = wrap(block)

    def step(params: list[Any], x: Any, y: Any) -> Any:
        def loss(params: list[Any]) -> Any:
            h = x
            for each in params:
                h = layer(each, h)
            return jnp.mean((h - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), value

    return step, (params, x, jnp.tanh(x))


def dense(wrap: Wrap) -> Step:
    def block(w: Any, x: Any) -> Any:
        return jax.nn.gelu(_norm(x @ w))

    return _chain(block, [_drawn(i, 256, 256) for i in range(10)], _drawn(99, 4096, 256), wrap)


def _attend(p: dict[str, Any], x: Any, causal: bool, heads: int = 4) -> Any:
    batch, length, width = x.shape
    q, k, v = (t.reshape(batch, length, heads, -1) for t in jnp.split(_norm(x) @ p["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    return x + mixed.reshape(x.shape) @ p["out"]


def _transformer(wrap: Wrap, causal: bool, batch: int, length: int, width: int = 128) -> Step:
    def block(p: dict[str, Any], x: Any) -> Any:
        x = _attend(p, x, causal)
        return x + jax.nn.gelu(_norm(x) @ p["up"]) @ p["down"]

    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width)}
    shapes["down"] = (4 * width, width)
    params = [{name: _drawn(7 * i, *shape) for name, shape in shapes.items()} for i in range(4)]
    return _chain(block, params, _drawn(99, batch, length, width), wrap)


def encoder(wrap: Wrap) -> Step:
    return _transformer(wrap, causal=False, batch=8, length=128)


def gpt(wrap: Wrap) -> Step:
    return _transformer(wrap, causal=True, batch=4, length=256)


def mixer(wrap: Wrap) -> Step:
    tokens, width = 64, 128

    def block(p: dict[str, Any], x: Any) -> Any:
        mixed = jax.nn.gelu(_norm(x).swapaxes(1, 2) @ p["token_up"]) @ p["token_down"]
        x = x + mixed.swapaxes(1, 2)
        return x + jax.nn.gelu(_norm(x) @ p["up"]) @ p["down"]

    shapes = {"token_up": (tokens, 2 * tokens), "token_down": (2 * tokens, tokens)}
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    params = [{name: _drawn(7 * i, *shape) for name, shape in shapes.items()} for i in range(4)]
    return _chain(block, params, _drawn(99, 32, tokens, width), wrap)


NETWORKS: dict[str, Callable[[Wrap], Step]] = {"dense": dense, "encoder": encoder, "gpt": gpt, "mixer": mixer}
