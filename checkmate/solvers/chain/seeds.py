"""Choose values to retain so that running forward again is cheap.

They are the outputs of the ops that cost most for their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkmate.ir.graph import Graph
from checkmate.solvers.chain.segments import Chain, buffer_bytes

_SHARES = (0.95, 0.7)  # the share of the forward cost that a set of seeds saves


def seed_sets(graph: Graph, chain: Chain) -> Iterator[frozenset[int]]:
    """Yield sets of forward ops: those of most cost per byte.

    Each set makes up a share of the forward cost.
    """
    ops = [op for segment in chain.segments for op in segment.forward]
    total = sum(graph.ops[op].cost for op in ops)
    worth = sorted((op for op in ops if _can_be(graph, chain, op)), key=lambda op: -_density(graph, op))
    found: set[frozenset[int]] = set()
    for share in _SHARES:
        chosen: list[int] = []
        spared = 0.0
        for op in worth:
            if spared >= share * total:
                break
            chosen.append(op)
            spared += graph.ops[op].cost
        seeds = frozenset(chosen)
        if seeds and len(seeds) < len(ops) and seeds not in found:
            found.add(seeds)
            yield seeds


def _can_be(graph: Graph, chain: Chain, op: int) -> bool:
    held = chain.held.issuperset(graph.ops[op].outputs)
    return bool(graph.recomputable[op]) and graph.ops[op].cost > 0 and not held


def _density(graph: Graph, op: int) -> float:
    """Return the op's cost per byte of its outputs."""
    return graph.ops[op].cost / max(1, buffer_bytes(graph, graph.ops[op].outputs))
