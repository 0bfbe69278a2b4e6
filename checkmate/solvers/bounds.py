"""Bounds on memory that hold for every schedule, whatever its order and recomputations."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ir.graph import Graph


@dataclass(frozen=True)
class WorkingSet:
    """The least memory that some op needs by itself: ``bytes`` (fixed bytes included), the op, the values that coexist."""

    bytes: int
    op: int
    values: tuple[int, ...]


def working_set_bound(graph: Graph) -> WorkingSet:
    """The largest single-op need; no schedule of any order has a smaller peak.

    Per op: its workspace, one buffer per distinct owner among its inputs and outputs, less every output that might take
    over an input (each at most once). An op's inputs must be live when it runs, so the sum is a lower bound.
    """
    best = WorkingSet(graph.fixed_bytes, 0, ())
    owner = graph.owner.tolist()
    size = graph.value_bytes.tolist()
    producer = graph.producer.tolist()
    for index, op in enumerate(graph.ops):
        touched = [v for v in dict.fromkeys((*op.inputs, *op.outputs)) if producer[owner[v]] >= 0]
        owners = {owner[v] for v in touched}
        need = graph.fixed_bytes + op.workspace_bytes + sum(size[o] for o in owners)
        saved = 0
        written: set[int] = set()
        for output, read in op.takes_over:
            if output not in written and size[owner[output]] == size[owner[read]] and producer[owner[read]] >= 0:
                written.add(output)
                saved += size[owner[read]]
        need -= saved
        if need > best.bytes:
            largest = sorted(owners, key=lambda o: -size[o])
            best = WorkingSet(need, index, tuple(largest))
    return best
