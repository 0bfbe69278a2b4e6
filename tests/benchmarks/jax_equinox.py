"""Measure a step of Equinox beside ``jax.checkpoint``'s policies.

``python -m tests.benchmarks.jax_equinox -o FILE.json``

It needs ``pip install equinox optax``. The network is a decoder of two blocks of ``equinox.nn``, trained by
``optax.adamw``; the state of both is donated. A policy is put around each block by
``equinox.filter_checkpoint``, which is ``jax.checkpoint`` for modules.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.benchmarks.jax_donated import SHARES, THRIFTY, DonatedStep, Peer, Row, rows, write_rows

POLICIES = ("nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")
WORDS, WIDTH, LENGTH, BATCH, BLOCKS, HEADS = 1000, 128, 128, 16, 2, 4

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Block(eqx.Module):
    """One block of a decoder, for one sequence (length, width)."""

    before: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    between: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        first, second, third = jax.random.split(key, 3)
        self.before, self.between = eqx.nn.LayerNorm(WIDTH), eqx.nn.LayerNorm(WIDTH)
        self.attention = eqx.nn.MultiheadAttention(HEADS, WIDTH, key=first)
        self.up = eqx.nn.Linear(WIDTH, 4 * WIDTH, key=second)
        self.down = eqx.nn.Linear(4 * WIDTH, WIDTH, key=third)

    def __call__(self, x: Any) -> Any:
        h = jax.vmap(self.before)(x)
        x = x + self.attention(h, h, h, mask=jnp.tril(jnp.ones((len(x), len(x)), bool)))
        h = jax.nn.gelu(jax.vmap(self.up)(jax.vmap(self.between)(x)))
        return x + jax.vmap(self.down)(h)


class Decoder(eqx.Module):
    """A decoder that predicts tokens; a batch goes through a block at once."""

    words: eqx.nn.Embedding
    blocks: list[Block]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, key: Any) -> None:
        first, second, *others = jax.random.split(key, 2 + BLOCKS)
        self.words = eqx.nn.Embedding(WORDS, WIDTH, key=first)
        self.blocks = [Block(each) for each in others]
        self.norm = eqx.nn.LayerNorm(WIDTH)
        self.head = eqx.nn.Linear(WIDTH, WORDS, key=second)

    def __call__(self, tokens: Any, wrap: Wrap) -> Any:
        x = jax.vmap(jax.vmap(self.words))(tokens)
        run = wrap(lambda block, x: jax.vmap(block)(x))
        for block in self.blocks:
            x = run(block, x)
        return jax.vmap(jax.vmap(lambda each: self.head(self.norm(each))))(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--shares", nargs="*", type=int, default=SHARES)
    chosen = parser.parse_args()
    versions = {"equinox": eqx.__version__, "optax": optax.__version__}
    write_rows(chosen.output, "Equinox", versions, ["decoder"], lambda name: rows_of(chosen.shares))


def rows_of(shares: Iterable[int] = SHARES, batch: int = BATCH) -> Iterator[Row]:
    """Give the rows of the decoder and some shares of its temporary bytes."""
    plain = step_of(lambda block: block, batch)

    def saving(policy: str) -> DonatedStep:
        saved = getattr(jax.checkpoint_policies, policy)
        return step_of(lambda block: eqx.filter_checkpoint(block, policy=saved), batch)

    peers = [Peer(policy, lambda policy=policy: saving(policy)) for policy in POLICIES]
    peers += [Peer("plain, memory scheduler", lambda: plain, THRIFTY)]
    peers += [
        Peer(f"{policy}, memory scheduler", lambda policy=policy: saving(policy), THRIFTY)
        for policy in POLICIES[:2]
    ]
    return rows("decoder", plain, peers, shares)


def step_of(wrap: Wrap, batch: int) -> DonatedStep:
    """Return a step of AdamW, with state and a drawn batch."""
    weights, fixed = eqx.partition(Decoder(jax.random.key(1)), eqx.is_array)
    optimizer = optax.adamw(1e-3)

    def step(state: Any, tokens: Any) -> tuple[Any, Any]:
        weights, moments = state

        def loss(weights: Any) -> Any:
            logits = eqx.combine(weights, fixed)(tokens[:, :-1], wrap)
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        value, gradients = jax.value_and_grad(loss)(weights)
        updates, moments = optimizer.update(gradients, moments, weights)
        return (optax.apply_updates(weights, updates), moments), value

    state = jax.tree.map(np.array, (weights, optimizer.init(weights)))
    tokens = np.random.default_rng(0).integers(0, WORDS, (batch, LENGTH + 1), dtype=np.int32)
    return DonatedStep(step, state, tokens)


if __name__ == "__main__":
    main()
