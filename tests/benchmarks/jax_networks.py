"""Networks for the benchmark of JAX steps.

They are small enough to compile in seconds.

Each is a chain of equal blocks; the ViT has a cut before it and a head after it. ``wrap`` is put around the
block: ``jax.checkpoint`` with a policy, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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

        return _descended(loss, params)

    return step, (params, x, jnp.tanh(x))


def _descended(loss: Callable[[Any], Any], weights: Any) -> Any:
    value, gradients = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda p, g: p - 0.01 * g, weights, gradients), value


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


def _blocks(width: int = 128) -> list[Any]:
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width)}
    shapes["down"] = (4 * width, width)
    return [{name: _drawn(7 * i, *shape) for name, shape in shapes.items()} for i in range(4)]


def _block(p: dict[str, Any], x: Any, causal: bool = False) -> Any:
    x = _attend(p, x, causal)
    return x + jax.nn.gelu(_norm(x) @ p["up"]) @ p["down"]


def encoder(wrap: Wrap) -> Step:
    return _chain(_block, _blocks(), _drawn(99, 8, 128, 128), wrap)


def gpt(wrap: Wrap) -> Step:
    return _chain(partial(_block, causal=True), _blocks(), _drawn(99, 4, 256, 128), wrap)


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


def vit(wrap: Wrap) -> Step:
    patch, across, width = 4, 8, 128
    images = _drawn(98, 16, across * patch, across * patch, 3)
    head = {"patch": _drawn(97, patch * patch * 3, width), "class": _drawn(96, width, 10)}
    layer = wrap(_block)

    def step(weights: Any, images: Any, y: Any) -> Any:
        def loss(weights: Any) -> Any:
            ends, blocks = weights
            cut = images.reshape(-1, across, patch, across, patch, 3).swapaxes(2, 3)
            h = cut.reshape(len(images), across * across, -1) @ ends["patch"]
            for each in blocks:
                h = layer(each, h)
            return jnp.mean((_norm(h).mean(1) @ ends["class"] - y) ** 2)

        return _descended(loss, weights)

    return step, ((head, _blocks()), images, _drawn(95, 16, 10))


def resnet(wrap: Wrap) -> Step:
    """Put residual blocks of two normalized convolutions in a chain."""
    width = 32

    def convolved(x: Any, w: Any) -> Any:
        found = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        found = found - found.mean((0, 1, 2))
        return found * jax.lax.rsqrt((found * found).mean((0, 1, 2)) + 1e-5)

    def block(p: dict[str, Any], x: Any) -> Any:
        return jax.nn.relu(x + convolved(jax.nn.relu(convolved(x, p["one"])), p["two"]))

    shape = (3, 3, width, width)
    params = [{"one": _drawn(7 * i, *shape) / 4, "two": _drawn(7 * i + 1, *shape) / 4} for i in range(6)]
    return _chain(block, params, _drawn(99, 16, 32, 32, width), wrap)


NETWORKS: dict[str, Callable[[Wrap], Step]] = {
    "dense": dense,
    "encoder": encoder,
    "gpt": gpt,
    "vit": vit,
    "mixer": mixer,
    "resnet": resnet,
}
