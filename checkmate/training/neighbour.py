"""Carry measured costs and workspaces from one layout's step over to another's.

Batches of another size or length run the same ops on more or fewer bytes, so the measurements for one layout
predict those for the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.ir import CostOrigin, CostUnit, Graph, Op


@dataclass(frozen=True, eq=False)
class Learned:
    """A step's graph as ``traced`` (operation counts), and with measured seconds and scratch (``known``)."""

    traced: Graph
    known: Graph


def carried_over(learned: Learned, graph: Graph) -> Graph | None:
    """Return ``graph`` with the measured seconds scaled by operation counts, and scratch by the bytes that an
    op reads and writes. None if the graphs have different ops."""
    traced, known = learned.traced, learned.known
    if [_structure(op) for op in traced.ops] != [_structure(op) for op in graph.ops]:
        return None
    seconds, scratch = [], []
    for before, found, op in zip(traced.ops, known.ops, graph.ops, strict=True):
        seconds.append(found.cost * (op.cost / before.cost if before.cost > 0 else 1.0))
        larger = _bytes(graph, op) / max(1, _bytes(traced, before))
        more = int((found.workspace_bytes - before.workspace_bytes) * larger)
        scratch.append(max(0, op.workspace_bytes + more))
    scaled = with_measured(graph, seconds, scratch)
    return dataclasses.replace(scaled, cost_unit=known.cost_unit, cost_origin=known.cost_origin)


def with_measured(graph: Graph, seconds: Sequence[float], scratch: Sequence[int]) -> Graph:
    """Return ``graph`` with measured costs of its ops, and their bytes of scratch."""
    ops = tuple(
        dataclasses.replace(op, cost=cost, workspace_bytes=bytes_)
        for op, cost, bytes_ in zip(graph.ops, seconds, scratch, strict=True)
    )
    return dataclasses.replace(graph, ops=ops, cost_unit=CostUnit.SECONDS, cost_origin=CostOrigin.MEASURED)


def _structure(op: Op) -> tuple[object, ...]:
    return op.type, op.phase, op.recomputable, op.inputs, op.outputs


def _bytes(graph: Graph, op: Op) -> int:
    return sum(graph.values[value].bytes for value in {*op.inputs, *op.outputs})
