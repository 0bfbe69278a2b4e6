"""Training graphs from a seed: chains, random networks with their backward pass, layered random graphs.

For tests, benchmarks and comparisons; every function is a pure function of its arguments.
"""

from __future__ import annotations

import math
from random import Random

from checkmate.ir.graph import Graph, GraphBuilder, Phase


def training_chain(layers: int, *, seed: int | None = None) -> Graph:
    """A network of ``layers`` layers in a row and its backward pass: ``2 * layers`` ops.

    Backward op ``i`` reads the input and the output of layer ``i`` and the gradient so far; the last gradient is kept. Every
    activation has 4 bytes, a layer costs 1 forward and 2 backward; with a ``seed``, sizes are 1 to 8 and costs 1 to 4.
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


def training_dag(seed: int, layers: int, *, branches: float = 0.4) -> Graph:
    """A random branching network of ``layers`` layers, its loss, and its backward pass as differentiation makes it.

    With probability ``branches`` a layer reads a second, earlier activation (a skip connection). The backward op of a layer
    reads its inputs and the gradients from all its readers, and writes one gradient per input: several outputs per op.
    """
    random = Random(seed)
    builder = GraphBuilder(f"network{seed}")
    reads: list[list[int]] = []
    activations: list[int] = []
    for i in range(layers):
        reads.append([i - 1] if i else [])
        if i > 2 and random.random() < branches:
            reads[i].append(random.randrange(i - 1))
        activations.append(builder.value(f"a{i}", random.randint(1, 9)))
        cost = float(random.randint(1, 9))
        builder.op(f"forward{i}", [activations[r] for r in reads[i]], activations[-1:], cost=cost, group=f"layer{i}")
    loss = builder.value("loss", 1, keep=True)
    builder.op("loss", activations[-1:], [loss], cost=1.0, phase=Phase.LOSS)
    arriving: list[list[int]] = [[] for _ in range(layers)]
    arriving[-1].append(loss)
    for i in reversed(range(layers)):
        gradients = [builder.value(f"g{i}.{r}", builder.values[activations[r]].bytes) for r in reads[i]]
        weights = builder.value(f"w{i}", 1, keep=True)
        read = [activations[r] for r in reads[i]] + [activations[i]] + arriving[i]
        cost = 2 * builder.ops[i].cost
        builder.op(f"backward{i}", read, [*gradients, weights], cost=cost, phase=Phase.BACKWARD, group=f"layer{i}")
        for source, gradient in zip(reads[i], gradients, strict=True):
            arriving[source].append(gradient)
    return builder.build()


def random_dag(seed: int, ops: int, *, extras: bool = False) -> Graph:
    """A random graph of ``ops`` ops, the later half backward.

    ``extras``: several outputs per op, views (of inputs, siblings and fixed values), take-overs, workspace and values of no
    bytes; otherwise one plain output per op. Either way some ops must run once and some values are kept.
    """
    random = Random(seed)
    builder = GraphBuilder(f"dag{seed}")
    available = (
        [builder.value(f"fixed{i}", random.randint(0, 3)) for i in range(random.randint(0, 2))] if extras else []
    )
    for i in range(ops):
        inputs = random.sample(available, min(len(available), random.choice((1, 1, 2, 2, 3))))
        outputs: list[int] = []
        pairs: list[tuple[int, int]] = []
        for k in range(random.choice((1, 1, 1, 2)) if extras else 1):
            keep = (i == ops - 1 and k == 0) or random.random() < 0.1
            parents = [*inputs, *outputs]
            view_of = random.choice(parents) if extras and parents and random.random() < 0.2 else None
            size = random.choice((0, 1, 2, 2, 3)) if extras else random.randint(1, 4)
            outputs.append(builder.value(f"v{i}.{k}", size, keep=keep, alias_of=view_of))
            if extras:
                pairs += [(outputs[-1], read) for read in inputs if random.random() < 0.3]
        builder.op(
            f"op{i}",
            inputs,
            outputs,
            cost=float(random.randint(0, 4)),
            phase=Phase.FORWARD if i < ops // 2 else Phase.BACKWARD,
            workspace_bytes=random.choice((0, 0, 1)) if extras else 0,
            recomputable=random.random() < 0.9,
            takes_over=tuple(pairs),
        )
        available += outputs
    return builder.build(fixed_bytes=random.choice((0, 2)))


def random_layered(seed: int, ops: int, *, edges_per_op: float = 5.0) -> Graph:
    """A random graph in layers of about √``ops`` ops, most edges between neighbouring layers, the rest longer.

    Sizes and costs are whole numbers of wide range; everything converges in the last op, whose value is kept. Such graphs have
    much freedom of order and little regularity: the hard case for methods made for networks.
    """
    random = Random(seed)
    builder = GraphBuilder(f"layered{ops}")
    width = max(2, round(math.sqrt(ops)))
    layers: list[list[int]] = []
    unread: set[int] = set()
    made = 0
    while made < ops - 1:
        layer: list[int] = []
        for _ in range(min(ops - 1 - made, random.randint(max(1, width // 2), width + width // 2))):
            inputs: set[int] = set()
            for _ in range(random.randint(1, max(1, round(2 * edges_per_op) - 1)) if layers else 0):
                far = random.random() < 0.2
                inputs.add(random.choice(random.choice(layers) if far else layers[-1]))
            value = builder.value(f"v{made}", random.randint(1, 1000))
            builder.op(f"op{made}", sorted(inputs), [value], cost=float(random.randint(1, 100)))
            unread = (unread - inputs) | {value}
            layer.append(value)
            made += 1
        layers.append(layer)
    builder.op("last", sorted(unread), [builder.value("result", 1, keep=True)], cost=1.0)
    return builder.build()
