"""Train a small transformer in plain JAX, within a memory budget.

``python examples/on_jax/transformer.py --budget 60%``; ``--small`` takes seconds.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import checkmate
import checkmate.jax


def norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def block(p, x, heads=4):
    batch, length, width = x.shape
    q, k, v = (t.reshape(batch, length, heads, -1) for t in jnp.split(norm(x) @ p["qkv"], 3, -1))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / (width // heads) ** 0.5
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)
    x = x + mixed.reshape(x.shape) @ p["out"]
    return x + jax.nn.gelu(norm(x) @ p["up"]) @ p["down"]


def make_weights(blocks, width):
    made = np.random.default_rng(0)
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width)}
    shapes["down"] = (4 * width, width)
    return [
        {
            name: jnp.asarray(made.normal(size=shape) / shape[0] ** 0.5, jnp.float32)
            for name, shape in shapes.items()
        }
        for _ in range(blocks)
    ]


def train_step(weights, x, y):
    def loss(weights):
        h = x
        for each in weights:
            h = block(each, h)
        return jnp.mean((h - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="60%", help="of what the plain compiled step holds, or bytes")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    blocks, width, batch, length, steps = (2, 32, 8, 64, 4) if chosen.small else (8, 256, 8, 256, 20)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(batch, length, width)), jnp.float32)
    weights, y = make_weights(blocks, width), jnp.tanh(x)

    step = checkmate.jax.rematerialize(train_step, chosen.budget, donate_argnums=0)
    for number in range(steps):
        weights, loss = step(weights, x, y)
        print(f"step {number}, loss: {float(loss):.4f}")
    report = step.report
    print(f"XLA's compiled step holds {report.reached.whole} of {report.budget_bytes} bytes")


if __name__ == "__main__":
    main()
