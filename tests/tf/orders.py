"""Make schedules that provoke TensorFlow's graph passes.

They are valid, pointless, and as far from the traced order as the graph permits."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from checkmate.ir import Graph


def producers(graph: Graph) -> list[set[int]]:
    """Return per op the ops whose outputs it reads."""
    return [{int(graph.producer[value]) for value in op.inputs} for op in graph.ops]


def by_priority(graph: Graph, priority: Sequence[float]) -> list[int]:
    """Return every op once. Of those that can run, the one with the least ``priority`` comes next."""
    before = producers(graph)
    after: list[list[int]] = [[] for _ in range(graph.n)]
    for op, sources in enumerate(before):
        for source in sources:
            after[source].append(op)
    waiting = [len(sources) for sources in before]
    heap = [(priority[op], op) for op in range(graph.n) if not waiting[op]]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        _, op = heapq.heappop(heap)
        order.append(op)
        for reader in after[op]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(heap, (priority[reader], reader))
    return order


def reversed_order(graph: Graph) -> list[int]:
    """Return every op once, always the last one in the trace that can run."""
    return by_priority(graph, [-op for op in range(graph.n)])


def with_recomputations(graph: Graph, order: Sequence[int], random: Random, share: float) -> list[int]:
    """Return ``order`` with recomputations at random places. There are about ``share`` per step, each of an
    op that was computed before."""
    steps: list[int] = []
    done: list[int] = []
    for op in order:
        steps.append(op)
        if graph.ops[op].recomputable:
            done.append(op)
        while done and random.random() < share / (1 + share):
            # Repeat recent ops as often as old ones, so that some pairs are close together and some far
            # apart.
            window = done[-6:] if random.random() < 0.5 else done
            steps.append(random.choice(window))
    return steps


def random_steps(graph: Graph, random: Random) -> list[int]:
    """Return a random order, from nearly the traced one to any. It has up to two recomputations per step."""
    jitter = random.choice([0.0, 3.0, 30.0, 1e6])
    order = by_priority(graph, [op + random.uniform(0, jitter) for op in range(graph.n)])
    return with_recomputations(graph, order, random, random.choice([0.2, 1.0, 2.0]))


def pairs(graph: Graph) -> list[tuple[int, int]]:
    """Return the pairs of ops that a pass could merge. One reads the other's output, or both read one
    value."""
    found: set[tuple[int, int]] = set()
    for value in range(len(graph.values)):
        readers = [op for op in range(graph.n) if value in graph.ops[op].inputs]
        found.update((int(graph.producer[value]), reader) for reader in readers)
        found.update(pairwise(readers))
    return sorted(found)


def far_apart(graph: Graph, first: int, second: int) -> Iterator[list[int]]:
    """Return schedules with as much as possible between two ops. ``first`` and ``second`` run once each, and
    either or both again."""
    before = producers(graph)
    needed = closure(first, before)
    after: list[set[int]] = [set() for _ in range(graph.n)]
    for op, sources in enumerate(before):
        for source in sources:
            after[source].add(op)
    behind = closure(second, after)
    # ``first`` runs as early as possible, ``second`` as late as possible, all others between.
    priority = [
        op + (-2.0 if op in needed else 2.0 if op in behind else 0.0) * graph.n for op in range(graph.n)
    ]
    order = by_priority(graph, priority)
    yield order
    at = order.index(second)
    for repeated, places in (
        ((first,), (at,)),  # a second copy just before the reader
        ((first,), (at + 1,)),  # and just behind it
        ((second,), (at + 1, len(order))),
        ((first, second), (at + 1, len(order))),
    ):
        if all(graph.ops[op].recomputable for op in repeated):
            steps = list(order)
            for place in sorted(places, reverse=True):
                steps[place:place] = repeated
            yield steps


def closure(start: int, links: Sequence[set[int]]) -> set[int]:
    """Return ``start`` and everything that is reached from it."""
    found, stack = {start}, [start]
    while stack:
        fresh = links[stack.pop()] - found
        found |= fresh
        stack.extend(fresh)
    return found
