"""Random graphs from a seed."""

from __future__ import annotations

import itertools
import math
from random import Random

from checkmate.ir import Graph, GraphBuilder, Phase


def training_dag(seed: int, layers: int, *, branches: float = 0.4) -> Graph:
    """A random branching network, its loss and its backward pass as differentiation makes it. With
    probability ``branches`` a layer reads a second, earlier activation. The backward op of a layer reads its
    inputs and the gradients from all its readers, and writes one gradient per input."""
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
        builder.op(
            f"forward{i}", [activations[r] for r in reads[i]], activations[-1:], cost=cost, group=f"layer{i}"
        )
    loss = builder.value("loss", 1, keep=True)
    builder.op("loss", activations[-1:], [loss], cost=1.0, phase=Phase.LOSS)
    arriving: list[list[int]] = [[] for _ in range(layers)]
    arriving[-1].append(loss)
    for i in reversed(range(layers)):
        gradients = [builder.value(f"g{i}.{r}", builder.values[activations[r]].bytes) for r in reads[i]]
        weights = builder.value(f"w{i}", 1, keep=True)
        read = [activations[r] for r in reads[i]] + [activations[i]] + arriving[i]
        cost = 2 * builder.ops[i].cost
        builder.op(
            f"backward{i}", read, [*gradients, weights], cost=cost, phase=Phase.BACKWARD, group=f"layer{i}"
        )
        for source, gradient in zip(reads[i], gradients, strict=True):
            arriving[source].append(gradient)
    return builder.build()


def random_dag(seed: int, ops: int, *, extras: bool = False) -> Graph:
    """A random graph of ``ops`` ops; the second half is backward. ``extras``: several outputs per op, views
    (of inputs, siblings and fixed values), take-overs, workspace and values of no bytes; otherwise one plain
    output per op. Either way some ops must run once and some values are kept."""
    random = Random(seed)
    builder = GraphBuilder(f"dag{seed}")
    available = (
        [builder.value(f"fixed{i}", random.randint(0, 3)) for i in range(random.randint(0, 2))]
        if extras
        else []
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


# The common properties of the random layered graphs published with MOCCASIN (100, 250, 500 and 1,000 ops;
# names end in nlv0.75_ed0.2_scd0.14). They were measured on those graphs; the sizes are a mixture fitted to
# them.
_LAYER_ASPECT = 0.42  # mean layer width / number of layers (published: 0.27 to 0.52)
_WIDTH_VARIES = 0.75  # a layer's width is uniform in mean * (1 ± this)
_EDGE_DENSITY = 0.2  # between neighbouring layers, beyond one edge per op of the wider one
_SKIP_SHARE = 0.14  # the share of all edges that go further than to the next layer
# (weight, mean, deviation)
_SIZES = ((0.3, 500, 500), (0.3, 1000, 1000), (0.3, 3000, 1000), (0.1, 5000, 1000))


def random_layered(seed: int, ops: int, *, edges_per_op: float | None = None) -> Graph:
    """A random layered graph like those published with MOCCASIN (Bartan et al., ICML 2023; they follow
    "Neural Topological Ordering for Computation Graphs", Gagrani et al., NeurIPS 2022).

    There are ``ops`` ops in all: one first op that the whole first layer reads, and one last op whose value
    is kept. Sizes are 10 to some 8,000 bytes, costs 1 to 999 (the first and the last op cost nothing). The
    given order is a random one, not layer by layer. ``edges_per_op``: on average, as far as the layers allow;
    None: as published, 2.4 at 100 ops and 5.9 at 1,000."""
    random = Random(seed)
    layers = _random_layers(random, ops)
    reads = _random_edges(random, layers, edges_per_op)
    builder = GraphBuilder(f"layered{ops}")
    values: dict[int, int] = {}
    for op in _random_order(random, reads):
        inner = 0 < op < ops - 1
        values[op] = builder.value(f"v{op}", _random_size(random), keep=op == ops - 1)
        cost = float(random.randint(1, 999) if inner else 0)
        builder.op(f"op{op}", sorted(values[before] for before in reads[op]), [values[op]], cost=cost)
    return builder.build()


def _random_layers(random: Random, ops: int) -> list[list[int]]:
    """Ops 0 to ``ops - 1`` in layers; the two ends stand alone."""
    layers = [[0]]
    mean = math.sqrt(_LAYER_ASPECT * ops)
    made = 1
    while made < ops - 1:
        width = max(1, round(random.uniform(1 - _WIDTH_VARIES, 1 + _WIDTH_VARIES) * mean))
        layers.append(list(range(made, min(made + width, ops - 1))))
        made += len(layers[-1])
    return [*layers, [ops - 1]] if ops > 1 else layers


def _random_edges(random: Random, layers: list[list[int]], edges_per_op: float | None) -> list[set[int]]:
    """What each op reads: edges between neighbouring layers first, then skips between inner layers."""
    reads: list[set[int]] = [set() for layer in layers for _ in layer]
    pairs = list(itertools.pairwise(layers))
    density = _EDGE_DENSITY if edges_per_op is None else _density_for(pairs, edges_per_op * len(reads))
    for before, after in pairs:
        for source, target in _random_bipartite(random, before, after, density):
            reads[target].add(source)
    inner = layers[1:-1]
    sources = [(op, level) for level, layer in enumerate(inner[:-2]) for op in layer]
    skips = round(_SKIP_SHARE / (1 - _SKIP_SHARE) * sum(map(len, reads)))
    for _ in range(skips if sources else 0):  # drawn with replacement: some coincide
        source, level = random.choice(sources)
        reads[random.choice(random.choice(inner[level + 2 :]))].add(source)
    return reads


def _density_for(pairs: list[tuple[list[int], list[int]]], edges: float) -> float:
    """From 0 to 1: what gives ``edges`` edges between neighbouring layers less the skips' share."""
    least = sum(max(len(before), len(after)) for before, after in pairs)
    most = sum(len(before) * len(after) for before, after in pairs)
    wanted = (1 - _SKIP_SHARE) * edges
    return min(1.0, max(0.0, (wanted - least) / max(1, most - least)))


def _random_bipartite(
    random: Random, before: list[int], after: list[int], density: float
) -> list[tuple[int, int]]:
    """Edges (source, target) that leave no op out. Each op of the wider layer has about equally many."""
    forward = len(before) > len(after)  # otherwise the wider layer is the reading one
    wide, narrow = (before, after) if forward else (after, before)
    total = round(len(wide) * (1 + density * (len(narrow) - 1)))
    wide = random.sample(wide, len(wide))
    edges: list[tuple[int, int]] = []
    for i, op in enumerate(wide):
        degree = total // len(wide) + (i >= len(wide) - total % len(wide))
        partners = random.sample(narrow, degree)
        if i < len(narrow) and narrow[i] not in partners:
            partners[0] = narrow[i]
        edges += [(op, other) if forward else (other, op) for other in partners]
    return edges


def _random_order(random: Random, reads: list[set[int]]) -> list[int]:
    """A random topological order that favours recently ready ops, as in the published graphs."""
    waits = [len(row) for row in reads]
    readers: list[list[int]] = [[] for _ in reads]
    for op, row in enumerate(reads):
        for before in sorted(row):
            readers[before].append(op)
    ready = [op for op, count in enumerate(waits) if count == 0]
    order: list[int] = []
    while ready:
        op = ready.pop(int(max(random.random(), random.random()) * len(ready)))
        order.append(op)
        for reader in readers[op]:
            waits[reader] -= 1
            if waits[reader] == 0:
                ready.append(reader)
    return order


def _random_size(random: Random) -> int:
    """A multiple of 10 bytes, at least 10, from a mixture."""
    _, mean, deviation = random.choices(_SIZES, weights=[weight for weight, _, _ in _SIZES])[0]
    while (size := random.gauss(mean, deviation)) < 5:
        pass
    return max(10, 10 * round(size / 10))


def training_chain(layers: int, *, seed: int | None = None) -> Graph:
    """Build ``layers`` layers in a row and their backward pass: 2·layers ops.

    Backward op i reads the input and the output of layer i and the gradient so far; the last gradient is
    kept. Activations have 4 bytes, a layer costs 1 forward and 2 backward; with a ``seed``, 1 to 8 bytes and
    costs 1 to 4.
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
