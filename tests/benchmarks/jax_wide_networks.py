"""Networks for the benchmark of JAX steps on a GPU.

They are as wide as users train them, and have few layers, so that they compile in seconds. Weights and Adam's
moments are float32, products and convolutions bfloat16. Each is a step from state and batch to state and
loss; the state is donated. ``wrap`` is put around each block: ``jax.checkpoint`` with a policy, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Loss = Callable[[Any, Any], Any]
RATE, FIRST, SECOND, TINY = 1e-3, 0.9, 0.99, 1e-8


@dataclass(frozen=True, eq=False)
class Network:
    """A training step, and its arguments as shapes.

    ``state``: weights, Adam's two moments, and the count of steps.
    """

    step: Callable[..., Any]
    state: Any
    batch: Any

    def arguments(self) -> tuple[Any, Any]:
        """Return the same numbers at each call: NumPy's, not on the device."""
        weights, *others = self.state
        made = np.random.default_rng(0)
        drawn = jax.tree.map(lambda leaf: _drawn(made, leaf.shape), weights)
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), others)
        return (drawn, *zeros), jax.tree.map(lambda leaf: _fed(made, leaf), self.batch)


def _drawn(made: np.random.Generator, shape: tuple[int, ...]) -> Any:
    inputs = int(np.prod(shape[:-1])) if len(shape) > 1 else 1
    return made.standard_normal(shape, np.float32) / np.float32(max(1, inputs) ** 0.5)


def _fed(made: np.random.Generator, leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jnp.integer):
        return made.integers(0, 10, leaf.shape, np.int32)
    return made.standard_normal(leaf.shape, np.float32)


def _trained(loss: Loss, weights: Any, batch: Any) -> Network:
    """Return a step of Adam; ``weights`` and ``batch`` are trees of shapes."""

    def step(state: Any, batch: Any) -> Any:
        weights, first, second, count = state
        value, slopes = jax.value_and_grad(loss)(weights, batch)
        count = count + 1
        first = jax.tree.map(lambda m, g: FIRST * m + (1 - FIRST) * g, first, slopes)
        second = jax.tree.map(lambda v, g: SECOND * v + (1 - SECOND) * g * g, second, slopes)
        rate = RATE * jnp.sqrt(1 - SECOND**count) / (1 - FIRST**count)
        weights = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + TINY), weights, first, second)
        return (weights, first, second, count), value

    return Network(step, (weights, weights, weights, _shape(dtype=jnp.float32)), batch)


def _shape(*sizes: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)


def _half(weights: Any) -> Any:
    return jax.tree.map(lambda each: each.astype(jnp.bfloat16), weights)


def _norm(x: Any) -> Any:
    wide = x.astype(jnp.float32)
    wide = wide - wide.mean(-1, keepdims=True)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def _attend(p: Any, x: Any, heads: int, causal: bool) -> Any:
    batch, length, width = x.shape
    q, k, v = (each.reshape(batch, length, heads, -1) for each in jnp.split(_norm(x) @ p["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / (width // heads) ** 0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1).astype(x.dtype), v)
    return x + mixed.reshape(x.shape) @ p["out"]


def _block(heads: int, causal: bool) -> Callable[..., Any]:
    def block(p: Any, x: Any) -> Any:
        p = _half(p)
        x = _attend(p, x, heads, causal)
        return x + jax.nn.gelu(_norm(x) @ p["up"]) @ p["down"]

    return block


def _block_weights(width: int) -> Any:
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width)}
    return {name: _shape(*sizes) for name, sizes in (shapes | {"down": (4 * width, width)}).items()}


def _cross_entropy(logits: Any, labels: Any) -> Any:
    chosen = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - chosen)


def gpt(
    wrap: Wrap, batch: int, layers: int = 4, width: int = 1024, length: int = 1024, words: int = 16384
) -> Network:
    """Return a language model like GPT-2 medium, with four of its layers."""
    block = wrap(_block(max(1, width // 64), causal=True))

    def loss(weights: Any, tokens: Any) -> Any:
        ends, blocks = weights
        x = (ends["words"][tokens[:, :-1]] + ends["places"]).astype(jnp.bfloat16)
        for each in blocks:
            x = block(each, x)
        logits = (_norm(x) @ ends["head"].astype(x.dtype)).astype(jnp.float32)
        return _cross_entropy(logits, tokens[:, 1:])

    ends = {"words": _shape(words, width), "places": _shape(length, width), "head": _shape(width, words)}
    blocks = [_block_weights(width) for _ in range(layers)]
    return _trained(loss, (ends, blocks), _shape(batch, length + 1, dtype=jnp.int32))


def vit(wrap: Wrap, batch: int, layers: int = 4, width: int = 768, across: int = 224) -> Network:
    """Return four layers of a ViT-B, on patches of 16 by 16."""
    patch, count = 16, across // 16
    block = wrap(_block(max(1, width // 64), causal=False))

    def loss(weights: Any, fed: Any) -> Any:
        ends, blocks = weights
        images, labels = fed
        cut = images.astype(jnp.bfloat16).reshape(-1, count, patch, count, patch, 3).swapaxes(2, 3)
        x = cut.reshape(len(images), count * count, -1) @ ends["patch"].astype(jnp.bfloat16)
        x = x + ends["places"].astype(x.dtype)
        for each in blocks:
            x = block(each, x)
        return _cross_entropy(_norm(x).astype(jnp.float32).mean(1) @ ends["class"], labels)

    ends = {"patch": _shape(patch * patch * 3, width), "places": _shape(count * count, width)}
    ends["class"] = _shape(width, 1000)
    fed = _shape(batch, across, across, 3), _shape(batch, dtype=jnp.int32)
    return _trained(loss, (ends, [_block_weights(width) for _ in range(layers)]), fed)


def _convolved(w: Any, x: Any, stride: int = 1) -> Any:
    form = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(
        x, w["kernel"].astype(x.dtype), (stride, stride), "SAME", dimension_numbers=form
    )
    wide = x.astype(jnp.float32)
    mean, squares = wide.mean((0, 1, 2)), (wide * wide).mean((0, 1, 2))
    scale = jax.lax.rsqrt(squares - mean * mean + 1e-5)
    return ((wide - mean) * scale * (1 + w["scale"]) + w["shift"]).astype(x.dtype)


def _kernel(across: int, inputs: int, outputs: int) -> Any:
    return {
        "kernel": _shape(across, across, inputs, outputs),
        "scale": _shape(outputs),
        "shift": _shape(outputs),
    }


def resnet(
    wrap: Wrap, batch: int, stages: tuple[int, ...] = (1, 1, 1, 1), width: int = 64, across: int = 224
) -> Network:
    """Return a ResNet of bottleneck blocks; ResNet-50 has 3, 4, 6 and 3."""

    def bottleneck(p: Any, x: Any, stride: int) -> Any:
        found = jax.nn.relu(_convolved(p["in"], x))
        found = jax.nn.relu(_convolved(p["mid"], found, stride))
        found = _convolved(p["out"], found)
        beside = _convolved(p["beside"], x, stride) if "beside" in p else x
        return jax.nn.relu(found + beside)

    blocks, strides, inputs = [], [], width
    for number, depth in enumerate(stages):
        inner = width * 2**number
        for each in range(depth):
            strides.append(2 if number and not each else 1)
            p = {"in": _kernel(1, inputs, inner), "mid": _kernel(3, inner, inner)}
            p["out"] = _kernel(1, inner, 4 * inner)
            blocks.append(p | ({} if each else {"beside": _kernel(1, inputs, 4 * inner)}))
            inputs = 4 * inner

    def loss(weights: Any, fed: Any) -> Any:
        ends, inside = weights
        images, labels = fed
        x = jax.nn.relu(_convolved(ends["stem"], images.astype(jnp.bfloat16), 2))
        x = jax.lax.reduce_window(
            x, np.array(-np.inf, x.dtype), jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        )
        for p, stride in zip(inside, strides, strict=True):
            x = wrap(lambda p, x, stride=stride: bottleneck(p, x, stride))(p, x)
        return _cross_entropy(x.astype(jnp.float32).mean((1, 2)) @ ends["class"], labels)

    ends = {"stem": _kernel(7, 3, width), "class": _shape(inputs, 1000)}
    fed = _shape(batch, across, across, 3), _shape(batch, dtype=jnp.int32)
    return _trained(loss, (ends, blocks), fed)


NETWORKS: dict[str, Callable[..., Network]] = {"gpt": gpt, "vit": vit, "resnet": resnet}
BATCHES = {"gpt": 48, "vit": 512, "resnet": 512}
SMALL: dict[str, dict[str, Any]] = {
    "gpt": {"batch": 4, "layers": 4, "width": 128, "length": 128, "words": 512},
    "vit": {"batch": 8, "layers": 4, "width": 128, "across": 64},
    "resnet": {"batch": 8, "stages": (1, 1), "width": 16, "across": 64},
}
