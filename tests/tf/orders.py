"""Schedules that provoke TensorFlow's graph passes: valid, pointless, and as far from the traced order as the graph permits."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

from checkmate.ir.graph import Graph


def producers(graph: Graph) -> list[set[int]]:
    """Per op the ops whose outputs it reads."""
    return [{int(graph.producer[value]) for value in op.inputs} for op in graph.ops]


def by_priority(graph: Graph, priority: Sequence[float]) -> list[int]:
    """Every op once; of those that can run, the one with the least ``priority`` comes next."""
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
    """Of the ops that can run always the one that the trace has last."""
    return by_priority(graph, [-op for op in range(graph.n)])


def again(graph: Graph, order: Sequence[int], random: Random, share: float) -> list[int]:
    """``order`` with recomputations put in at random places: about ``share`` per step, each of something computed before."""
    steps: list[int] = []
    done: list[int] = []
    for op in order:
        steps.append(op)
        if graph.ops[op].recomputable:
            done.append(op)
        while done and random.random() < share / (1 + share):
            # Recent ones as often as old ones: a pair is torn apart near its place and far from it.
            window = done[-6:] if random.random() < 0.5 else done
            steps.append(random.choice(window))
    return steps


def random_steps(graph: Graph, random: Random) -> list[int]:
    """A random order, from nearly the traced one to any, with up to two recomputations per step."""
    jitter = random.choice([0.0, 3.0, 30.0, 1e6])
    order = by_priority(graph, [op + random.uniform(0, jitter) for op in range(graph.n)])
    return again(graph, order, random, random.choice([0.2, 1.0, 2.0]))


def pairs(graph: Graph) -> list[tuple[int, int]]:
    """Ops that a pass could merge: one reads the other's output, or both read one value."""
    found: set[tuple[int, int]] = set()
    for value in range(len(graph.values)):
        readers = [op for op in range(graph.n) if value in graph.ops[op].inputs]
        found.update((int(graph.producer[value]), reader) for reader in readers)
        found.update(pairwise(readers))
    return sorted(found)


def torn_apart(graph: Graph, first: int, second: int) -> Iterator[list[int]]:
    """Schedules with all that the graph permits between ``first`` and ``second``: each once, and either or both again."""
    before = producers(graph)
    needed = closure(first, before)
    after: list[set[int]] = [set() for _ in range(graph.n)]
    for op, sources in enumerate(before):
        for source in sources:
            after[source].add(op)
    behind = closure(second, after)
    # ``first`` as early as it can be, ``second`` as late, and all else between.
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
    """``start`` and all that is reached from it."""
    found, stack = {start}, [start]
    while stack:
        fresh = links[stack.pop()] - found
        found |= fresh
        stack.extend(fresh)
    return found
