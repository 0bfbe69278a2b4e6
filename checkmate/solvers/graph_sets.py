"""Sets of ops, each the bits of a whole number, and buffers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.ir.arrays import Rows


def buffer_owners(graph: Graph) -> list[int]:
    """The produced values that own a buffer of at least one byte."""
    return [
        v for v in range(graph.m) if graph.producer[v] >= 0 and graph.owner[v] == v and graph.values[v].bytes
    ]


def touching_ops(graph: Graph, owner: int) -> list[int]:
    """The ops, in order, after one of which the buffer may die: its producer, readers of it and its views."""
    tree = np.flatnonzero(graph.owner == owner).tolist()
    return sorted(
        {int(graph.producer[owner]), *(op for value in tree for op in graph.value_readers[value].tolist())}
    )


@dataclass(frozen=True)
class TakeOverGroup:
    """Outputs of one op that compete for the same ``inputs`` (owners), of which they take over ``most``.

    ``tangled``: greedy pairing may find less than the best; then one take-over is counted.
    """

    inputs: tuple[int, ...]
    bytes: int
    most: int
    tangled: bool


def take_over_groups(graph: Graph, op: int) -> list[TakeOverGroup]:
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


def closures(graph: Graph) -> tuple[list[int], list[int]]:
    """Per op, all ops that it needs, and all that need it, without the op itself."""
    before, after = graph.predecessors.lists(), graph.successors.lists()
    up, down = [0] * graph.n, [0] * graph.n
    for op in range(graph.n):
        for p in before[op]:
            up[op] |= up[p] | (1 << p)
    for op in range(graph.n - 1, -1, -1):
        for p in after[op]:
            down[op] |= down[p] | (1 << p)
    return up, down


def forced_across(graph: Graph, up: list[int], down: list[int]) -> dict[int, int]:
    """Per owner of a produced buffer, the ops between its making and some read of it: a set of ``closures``.

    If the buffer is made once, it is live while each of them first runs, in any schedule.
    """
    readers, producer = graph.value_readers.lists(), graph.producer.tolist()
    uses: dict[int, int] = {}  # ops before, or equal to, a read of a buffer's views
    for value, owner in enumerate(graph.owner.tolist()):
        if producer[value] < 0 or producer[owner] < 0:
            continue
        uses.setdefault(owner, 1 << producer[owner])
        for reader in readers[value]:
            uses[owner] |= up[reader] | (1 << reader)
        if graph.keep[value]:
            uses[owner] = -1
    return {
        owner: (down[producer[owner]] | (1 << producer[owner])) & before for owner, before in uses.items()
    }


class LazyClosure:
    """One of the ``closures``, each set found when asked for. ``steps``: the ops one step before or after."""

    def __init__(self, steps: Rows) -> None:
        self._steps = steps.lists()
        self._known: dict[int, int] = {}

    def __getitem__(self, op: int) -> int:
        if op not in self._known:
            self._known[op] = self._found(op)
        return self._known[op]

    def _found(self, op: int) -> int:
        seen = np.zeros(len(self._steps), np.bool_)
        waiting = [op]
        while waiting:
            for other in self._steps[waiting.pop()]:
                if not seen[other]:
                    seen[other] = True
                    waiting.append(other)
        return int.from_bytes(np.packbits(seen, bitorder="little").tobytes(), "little")


def members(bits: int, n: int) -> NDArray[np.bool_]:
    """bool[n]: which of n ops are in a set."""
    raw = np.frombuffer(bits.to_bytes((n + 7) // 8, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[:n].astype(np.bool_)
