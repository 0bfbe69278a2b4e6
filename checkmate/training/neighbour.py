"""Carry what was learned of one layout's step over to another's.

Batches of another size or length run the same ops on more bytes or fewer, so what the ops took for one layout
tells what they will take for the next.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from checkmate.ir.graph import Graph, Op


@dataclass(frozen=True, eq=False)
class Learned:
    """A step's graph before (operation counts) and after it was measured (seconds and scratch)."""

    traced: Graph
    known: Graph


def carried_over(learned: Learned, graph: Graph) -> Graph | None:
    """Return ``graph`` with seconds scaled by operations, scratch by the bytes that an op reads and writes.

    None: the other step has other ops.
    """
    traced, known = learned.traced, learned.known
    if [_structure(op) for op in traced.ops] != [_structure(op) for op in graph.ops]:
        return None
    ops = []
    for before, found, op in zip(traced.ops, known.ops, graph.ops, strict=True):
        more = op.cost / before.cost if before.cost > 0 else 1.0
        larger = _bytes(graph, op) / max(1, _bytes(traced, before))
        scratch = op.workspace_bytes + int((found.workspace_bytes - before.workspace_bytes) * larger)
        ops.append(dataclasses.replace(op, cost=found.cost * more, workspace_bytes=max(0, scratch)))
    return dataclasses.replace(
        graph, ops=tuple(ops), cost_unit=known.cost_unit, cost_origin=known.cost_origin
    )


def _structure(op: Op) -> tuple[object, ...]:
    return op.type, op.phase, op.recomputable, op.inputs, op.outputs


def _bytes(graph: Graph, op: Op) -> int:
    return sum(graph.values[value].bytes for value in {*op.inputs, *op.outputs})
