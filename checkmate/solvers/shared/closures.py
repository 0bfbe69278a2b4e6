"""Find the ops before and after each op; a set is a number's bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.arrays import Rows
from checkmate.ir.graph import Graph


def closures(graph: Graph) -> tuple[list[int], list[int]]:
    """Return, per op, all ops that it needs, and all that need it.

    Whatever an op needs indirectly is in its set; the op itself is not.
    """
    before, after = graph.predecessors.lists(), graph.successors.lists()
    up, down = [0] * graph.n, [0] * graph.n
    for op in range(graph.n):
        for p in before[op]:
            up[op] |= up[p] | (1 << p)
    for op in range(graph.n - 1, -1, -1):
        for p in after[op]:
            down[op] |= down[p] | (1 << p)
    return up, down


class LazyClosure:
    """The same sets, each found when it is first asked for.

    ``steps``: the ops one step before or after each op.
    """

    def __init__(self, steps: Rows) -> None:
        self._steps = steps.lists()
        self._known: dict[int, int] = {}

    def __getitem__(self, op: int) -> int:
        """Return all ops that ``op`` needs, or that need it."""
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
    """Return bool[n]: which of n ops are in a set."""
    raw = np.frombuffer(bits.to_bytes((n + 7) // 8, "little"), np.uint8)
    return np.unpackbits(raw, bitorder="little")[:n].astype(np.bool_)
