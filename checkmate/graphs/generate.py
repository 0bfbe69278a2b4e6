"""A small training graph that needs no model."""

from __future__ import annotations

from random import Random

from checkmate.ir.graph import Graph, GraphBuilder, Phase


def training_chain(layers: int, *, seed: int | None = None) -> Graph:
    """Build ``layers`` layers in a row and their backward pass: 2·layers ops.

    Backward op ``i`` reads the input and the output of layer ``i`` and the gradient so far. The last gradient
    is kept. Every activation has 4 bytes; a layer costs 1 forward and 2 backward. With a ``seed``, sizes are
    1 to 8 and costs 1 to 4.
    """
    random = Random(seed)
    builder = GraphBuilder(f"chain{layers}")
    sizes = [4 if seed is None else random.randint(1, 8) for _ in range(layers)]
    costs = [1.0 if seed is None else float(random.randint(1, 4)) for _ in range(layers)]
    activations: list[int] = []
    for i in range(layers):
        activations.append(builder.value(f"a{i}", sizes[i]))
        builder.op(f"forward{i}", activations[-2:-1], activations[-1:], cost=costs[i], group=f"layer{i}")
    gradient: list[int] = []
    for i in reversed(range(layers)):
        read = activations[max(0, i - 1) : i + 1] + gradient
        gradient = [builder.value(f"g{i}", sizes[max(0, i - 1)], keep=i == 0)]
        builder.op(f"backward{i}", read, gradient, cost=2 * costs[i], phase=Phase.BACKWARD, group=f"layer{i}")
    return builder.build()
