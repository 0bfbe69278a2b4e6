"""Twenty-four programs, small and of many kinds, whose memory XLA tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_Made = tuple[Callable[..., Any], tuple[Any, ...], bool]  # a function, its arguments, and whether to donate
F32 = jnp.float32


def _of(*dims: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def _training(loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(weights: Any, *args: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, *args)
        return jax.tree.map(lambda w, g: (w - 0.1 * g).astype(w.dtype), weights, slopes), value

    return step


def _mlp(act: Callable[[Any], Any] = jnp.tanh, dtype: Any = F32, *, donate: bool = True) -> _Made:
    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = act(x @ w)
        return jnp.mean(x.astype(F32) ** 2)

    return _training(loss), ([_of(128, 128, dtype=dtype)] * 5, _of(256, 128, dtype=dtype)), donate


def _convolutions() -> _Made:
    def loss(kernels: Any, x: Any) -> Any:
        for kernel in kernels:
            x = jax.nn.relu(
                lax.conv_general_dilated(
                    x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
            )
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(x**2)

    return _training(loss), ([_of(3, 3, 16, 16)] * 3, _of(4, 32, 32, 16)), True


def _attention() -> _Made:
    def heads(x: Any) -> Any:
        return x.reshape(*x.shape[:2], 4, -1)

    def loss(blocks: Any, x: Any) -> Any:
        for q, k, v, first, second in blocks:
            h = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
            scores = jnp.einsum("bthd,bshd->bhts", heads(h @ q), heads(h @ k))
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
            x = x + jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), heads(h @ v)).reshape(x.shape)
            x = x + jax.nn.gelu(x @ first) @ second
        return jnp.mean(x**2)

    block = (*[_of(64, 64)] * 3, _of(64, 256), _of(256, 64))
    return _training(loss), ([block] * 2, _of(4, 64, 64)), True


def _scan() -> _Made:
    def loss(w: Any, x: Any) -> Any:
        def body(carried: Any, _: Any) -> Any:
            carried = jnp.tanh(carried @ w)
            return carried, carried.sum()

        x, sums = lax.scan(body, x, None, length=12)
        return jnp.mean(x**2) + sums.mean()

    return _training(loss), (_of(64, 64), _of(128, 64)), True


def _scanned_layers() -> _Made:
    def loss(weights: Any, x: Any) -> Any:
        x, _ = lax.scan(lambda carried, w: (jnp.sin(carried @ w), None), x, weights)
        return jnp.mean(x**2)

    return _training(loss), (_of(6, 64, 64), _of(128, 64)), True


def _lstm() -> _Made:
    def loss(w: Any, xs: Any) -> Any:
        def cell(carried: Any, x: Any) -> Any:
            h, c = carried
            i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((32, 64))
        _, hs = lax.scan(cell, (zero, zero), xs)
        return jnp.mean(hs**2)

    return _training(loss), (_of(128, 256), _of(20, 32, 64)), False


def _while() -> _Made:
    def run(x: Any, w: Any) -> Any:
        def body(carried: Any) -> Any:
            return carried[0] + 1, jnp.cos(carried[1] @ w), carried[2] + carried[1].sum()

        return lax.while_loop(lambda carried: carried[0] < 10, body, (0, x, 0.0))

    return run, (_of(128, 64), _of(64, 64)), False


def _nested_loops() -> _Made:
    def run(x: Any, w: Any) -> Any:
        def outer(_: Any, x: Any) -> Any:
            return lax.fori_loop(0, 3, lambda at, y: jnp.sin(y @ w) + at, x) + x

        return lax.fori_loop(0, 5, outer, x)

    return run, (_of(128, 64), _of(64, 64)), True


def _embedding() -> _Made:
    def loss(weights: Any, tokens: Any) -> Any:
        table, w = weights
        return jnp.mean((jax.nn.relu(table[tokens] @ w) @ table.T) ** 2)

    return _training(loss), ((_of(500, 64), _of(64, 64)), _of(16, 16, dtype=jnp.int32)), True


def _scatter() -> _Made:
    def run(x: Any, at: Any, more: Any) -> Any:
        return x.at[at].add(more).at[at].max(more * 2), jnp.take(x, at, axis=0).sum()

    return run, (_of(1024, 64), _of(256, dtype=jnp.int32), _of(256, 64)), True


def _sort() -> _Made:
    def run(x: Any) -> Any:
        keys, values = lax.sort((x, x * 2), num_keys=1)
        return keys + values, lax.top_k(x, 8), jnp.argsort(x[:, ::-1])

    return run, (_of(128, 256),), False


def _update_slice(*, donate: bool) -> _Made:
    def run(cache: Any, x: Any, at: Any) -> Any:
        y = jnp.tanh(x @ x.T)
        cache = lax.dynamic_update_slice(cache, y, (at, 0))
        cache = lax.dynamic_update_slice(cache, y * 2, (0, at))
        return cache, cache.sum()

    return run, (_of(1024, 256), _of(64, 64), _of(dtype=jnp.int32)), donate


def _remat() -> _Made:
    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jax.checkpoint(lambda x, w: jnp.tanh(jnp.tanh(x @ w) @ w))(x, w)
        return jnp.mean(x**2)

    return _training(loss), ([_of(64, 64)] * 5, _of(256, 64)), True


def _constants() -> _Made:
    table = np.linspace(0, 1, 128 * 128, dtype=np.float32).reshape(128, 128)
    return lambda x: (jnp.sin(x @ table) @ table + table.sum(), (x @ table).max()), (_of(256, 128),), False


def _branches() -> _Made:
    def run(chosen: Any, x: Any, w: Any) -> Any:
        first = lax.cond(chosen, lambda x: jnp.tanh(x @ w) @ w, lambda x: x * 2, x)
        return first, lax.switch(chosen.astype(int), [lambda x: x + 1, lambda x: jnp.sin(x) @ w], x).sum()

    return run, (_of(dtype=jnp.bool_), _of(128, 64), _of(64, 64)), False


def _random() -> _Made:
    def run(key: Any, x: Any, w: Any) -> Any:
        for each in jax.random.split(key, 2):
            x = jnp.where(jax.random.bernoulli(each, 0.5, x.shape), jnp.tanh(x @ w), 0.0)
        return x + jax.random.normal(key, x.shape)

    return run, (_of(2, dtype=jnp.uint32), _of(256, 128), _of(128, 128)), False


def _sums() -> _Made:
    return (
        lambda x: (jnp.cumsum(x, 0) + jnp.cumprod(x, 1), lax.associative_scan(jnp.maximum, x)),
        (_of(128, 128),),
        False,
    )


def _fourier() -> _Made:
    return (
        lambda x, w: jnp.fft.irfft(jnp.fft.rfft(x) * w) + x,
        (_of(64, 256), _of(129, dtype=jnp.complex64)),
        False,
    )


def _adam() -> _Made:
    def loss(weights: Any, x: Any) -> Any:
        for w, b in weights:
            x = jax.nn.gelu(x @ w + b)
        return jnp.mean(x**2)

    def step(state: Any, x: Any) -> Any:
        weights, mean, square = state
        value, slopes = jax.value_and_grad(loss)(weights, x)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slopes)
        square = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, square, slopes)
        weights = jax.tree.map(lambda w, m, v: w - 0.01 * m / (jnp.sqrt(v) + 1e-8), weights, mean, square)
        return (weights, mean, square), value

    weights = [(_of(64, 64), _of(64))] * 4
    return step, ((weights, weights, weights), _of(512, 64)), True


PROGRAMS: dict[str, Callable[[], _Made]] = {
    "dense": _mlp,
    "dense, nothing donated": lambda: _mlp(donate=False),
    "bfloat16": lambda: _mlp(dtype=jnp.bfloat16),
    "relu": lambda: _mlp(jax.nn.relu),
    "silu": lambda: _mlp(jax.nn.silu, donate=False),
    "convolutions": _convolutions,
    "attention": _attention,
    "scan": _scan,
    "scanned layers": _scanned_layers,
    "lstm": _lstm,
    "while loop": _while,
    "nested loops": _nested_loops,
    "embedding": _embedding,
    "scatter": _scatter,
    "sort": _sort,
    "cache, donated": lambda: _update_slice(donate=True),
    "cache": lambda: _update_slice(donate=False),
    "remat": _remat,
    "constants": _constants,
    "branches": _branches,
    "random": _random,
    "cumulative sums": _sums,
    "fourier": _fourier,
    "adam": _adam,
}
TRAINING = ("dense", "relu", "silu", "attention", "scan", "scanned layers", "lstm", "adam")
