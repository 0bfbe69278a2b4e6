"""Small training steps for the tests.

They are functions of pytrees, as users write them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from checkmate.backends.jax.device import Speed, speed_of
from checkmate.backends.jax.emission import Emitted, tied_step
from checkmate.backends.jax.fusions import Fusion, fusions, kernels
from checkmate.backends.jax.graph import graph_of
from checkmate.backends.jax.program import Program, read_program
from checkmate.ir import Graph, Schedule


def data(rows: int = 512, width: int = 64) -> tuple[Any, Any]:
    made = np.random.default_rng(0)
    x = jnp.asarray(made.normal(size=(rows, width)), jnp.float32)
    return x, jnp.tanh(x)


def weights(layers: int = 8, width: int = 64) -> list[Any]:
    made = np.random.default_rng(1)
    return [jnp.asarray(made.normal(size=(width, width)) / width**0.5, jnp.float32) for _ in range(layers)]


def updated(params: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda value, slope: value - 0.1 * slope, params, gradients)


def dense(params: Any, x: Any, y: Any) -> Any:
    """Train a chain of dense layers; its steps are dear enough to see."""

    def loss(params: Any) -> Any:
        h = x
        for w in params:
            h = jnp.tanh(h @ w)
        return jnp.mean((h - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return updated(params, gradients), value


def dropout(params: Any, x: Any, y: Any, key: Any) -> Any:
    """Train with random masks."""

    def loss(params: Any) -> Any:
        h = x
        for w, each in zip(params, jax.random.split(key, len(params)), strict=True):
            h = jnp.tanh(h @ w)
            h = jnp.where(jax.random.bernoulli(each, 0.8, h.shape), h / 0.8, 0.0)
        return jnp.mean((h - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return updated(params, gradients), value


def scanned(params: Any, x: Any, y: Any) -> Any:
    """Train with a loop inside, and layers around it."""

    def loss(params: Any) -> Any:
        h = x
        for w in params[:6]:
            h = jnp.tanh(h @ w)
        h, _ = jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), h, jnp.stack(params[6:]))
        return jnp.mean((h - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return updated(params, gradients), value


def copied(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


def largest_difference(one: Any, other: Any) -> float:
    assert jax.tree.structure(one) == jax.tree.structure(other)
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs)


CPU, GPU = speed_of("cpu", ""), speed_of("gpu", "NVIDIA H200")


class Read(NamedTuple):
    """A step as its schedules see it."""

    program: Program
    fused: Sequence[Fusion]
    graph: Graph

    def tied(self, schedule: Schedule, emitted: Emitted) -> Any:
        return tied_step(self.program, self.fused, schedule, emitted)

    def plainly_tied(self, emitted: Emitted) -> Any:
        return self.tied(Schedule.plain(self.graph), emitted)

    @property
    def shapes(self) -> list[Any]:
        return [self.program.avals[value] for value in self.program.arguments]


def read(step: Any, *args: Any, speed: Speed = CPU) -> Read:
    """Trace a step, fused as XLA:CPU does it, or into the kernels of a GPU."""
    program = read_program(jax.make_jaxpr(step)(*args))
    fused = kernels(program, speed) if speed.together else fusions(program)
    return Read(program, fused, graph_of(program, fused, name="step", speed=speed, fixed={}))


def plain_order(step: Any, args: Any, emitted: Emitted, options: dict[str, Any]) -> tuple[Any, Any]:
    """Return a step in its plain order, as it is put to XLA:CPU, and compiled."""
    found = read(step, *args)
    run = found.plainly_tied(emitted)
    return run, jax.jit(run).lower(*found.shapes).compile(options)
