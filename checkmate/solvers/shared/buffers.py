"""Buffers of a graph: owners, the ops that touch them, take-overs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkmate.ir.graph import Graph


def buffer_owners(graph: Graph) -> list[int]:
    """Return the produced values that own a buffer of at least one byte."""
    return [
        v for v in range(graph.m) if graph.producer[v] >= 0 and graph.owner[v] == v and graph.values[v].bytes
    ]


def touching_ops(graph: Graph, owner: int) -> list[int]:
    """Return the ops after which the owner's buffer may die, in order.

    They are its producer and the readers of it and its views.
    """
    tree = np.flatnonzero(graph.owner == owner).tolist()
    return sorted(
        {int(graph.producer[owner]), *(op for value in tree for op in graph.value_readers[value].tolist())}
    )


@dataclass(frozen=True)
class TakeOverGroup:
    """Outputs of one op that compete for the same inputs' buffers.

    At most ``most`` of ``inputs`` (owners) are taken over. ``tangled``: whether greedy pairing may find less
    than the best.
    """

    inputs: tuple[int, ...]
    bytes: int
    most: int
    tangled: bool


def take_over_groups(graph: Graph, op: int) -> list[TakeOverGroup]:
    """Return the op's take-over pairs, grouped by what they compete for.

    A group in which greedy pairing may find less than the best counts one take-over.
    """
    producer, owner, size = graph.producer, graph.owner, graph.value_bytes
    groups: list[tuple[set[int], set[int], set[tuple[int, int]]]] = []
    for output, read in graph.ops[op].takes_over:
        old, new = int(owner[read]), int(owner[output])
        if producer[old] < 0 or old == new or size[old] != size[new] or size[old] == 0:
            continue
        outputs, inputs, pairs = {output}, {old}, {(output, old)}
        for group in [g for g in groups if output in g[0] or old in g[1]]:
            groups.remove(group)
            outputs, inputs, pairs = outputs | group[0], inputs | group[1], pairs | group[2]
        groups.append((outputs, inputs, pairs))
    found = []
    for outputs, inputs, pairs in groups:
        # If every output may take every input, pairing in any order finds the most.
        complete = len(pairs) == len(outputs) * len(inputs)
        most = min(len(outputs), len(inputs)) if complete else 1
        found.append(TakeOverGroup(tuple(sorted(inputs)), int(size[next(iter(inputs))]), most, not complete))
    return found
