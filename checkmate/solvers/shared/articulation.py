"""The forward pass of a graph: end, shape and articulation points."""

from __future__ import annotations

from checkmate.ir.graph import Graph, Phase


def forward_end(graph: Graph) -> int:
    """Return the index after the last forward or loss op.

    The ops before it are the forward pass of the given order.
    """
    return (
        max((i for i, op in enumerate(graph.ops) if op.phase in (Phase.FORWARD, Phase.LOSS)), default=-1) + 1
    )


def is_forward_chain(graph: Graph) -> bool:
    """Return whether every forward op reads only the op before it."""
    rows = graph.predecessors.lists()
    return all(rows[op] == [op - 1] for op in range(1, forward_end(graph))) and forward_end(graph) > 0


def articulation_points(graph: Graph) -> list[int]:
    """Return the forward ops that no forward dependency reaches over.

    All ops after such an op depend on the ops before it through that op alone, so nothing before it is needed
    to recompute what is behind it. The paper takes the cut vertices of the *undirected* forward graph (Jain
    et al., appendix B.1). Those are more: a vertex with a dead-end branch, or one of two independent inputs,
    is a cut vertex although later ops do not all depend on it. In a connected graph with one source, the
    points here are the cut vertices that separate past from future.
    """
    end = forward_end(graph)
    reach = [
        max((reader for reader in row if reader < end), default=op)
        for op, row in enumerate(graph.successors.lists()[:end])
    ]
    points: list[int] = []
    furthest = -1
    for op in range(end):
        if furthest <= op:
            points.append(op)
        furthest = max(furthest, reach[op])
    return points
