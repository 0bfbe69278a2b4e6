"""A bound on memory for graphs with ops that run only once.

The outputs of such an op must be held from their first to their last use. Let u be made by an op that runs
once. Let that op come before k (or be k), and let some op that reads u, or a view in its buffer, come after k
(or be k). Then in every schedule u's one buffer is live at k's first run: its maker has run, and that
reader's first run is still to come (or is this step). So k needs those buffers beside its own. Without such
ops this is the working-set bound of ``checkmate.solvers.bounds``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.solvers.bounds import WorkingSet, taken_over_at_most, working_set_bound
from checkmate.solvers.shared.closures import closures, members
from checkmate.units import format_bytes_apart


def run_once_bound(graph: Graph) -> WorkingSet:
    """Return the most bytes that some op needs, with those held across it.

    No schedule of any order has a smaller peak.
    """
    best = working_set_bound(graph)
    if graph.recomputable.all():
        return best
    held = _held_across(graph)
    size, producer, owner = graph.value_bytes, graph.producer, graph.owner
    standing = sum((size[value] * across for value, across in held.items()), np.zeros(graph.n, np.int64))
    for index in range(graph.n):
        own = {
            int(owner[v])
            for v in (*graph.op_inputs[index], *graph.op_outputs[index])
            if producer[owner[v]] >= 0
        }
        extra = {value for value in own if value not in held or not held[value][index]}
        most = graph.fixed_bytes + int(graph.workspace_bytes[index] + standing[index])
        most += sum(int(size[value]) for value in extra)
        if most <= best.bytes:
            continue
        need = most - taken_over_at_most(graph, index)
        if need > best.bytes:
            owners = extra.union(value for value, across in held.items() if across[index])
            best = WorkingSet(
                need, index, tuple(sorted(owners, key=lambda value: (-int(size[value]), value)))
            )
    return best


def explain_below_bound(graph: Graph, budget_bytes: int, need: WorkingSet) -> str:
    """Return a sentence on why a budget below ``need`` has no schedule."""
    names = [graph.values[value].name for value in need.values]
    held = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    given, least = format_bytes_apart(budget_bytes, need.bytes)
    op = graph.ops[need.op].name
    return f"budget {given} is below the {least} that are held while op {op!r} runs (with {held})"


def _held_across(graph: Graph) -> dict[int, NDArray[np.bool_]]:
    """Return, per buffer that is made once, the ops that it is live across.

    The keys are the buffers' owners. The entries are bool[n]: the buffer is live while the op first runs, in
    any schedule.
    """
    up, down = closures(graph)
    readers = graph.value_readers.lists()
    last_uses: dict[int, int] = {}  # ops before, or equal to, a read of a buffer's views; as bits
    makers: dict[int, int] = {}
    for value in np.flatnonzero(graph.producer >= 0).tolist():
        owner = int(graph.owner[value])
        maker = int(graph.producer[owner])
        if maker < 0 or graph.recomputable[maker] or not graph.value_bytes[owner]:
            continue
        makers[owner] = maker
        uses = last_uses.get(owner, 1 << maker)
        for reader in readers[value]:
            uses |= up[reader] | (1 << reader)
        last_uses[owner] = (1 << graph.n) - 1 if graph.keep[value] else uses
    return {
        owner: members((down[maker] | (1 << maker)) & last_uses[owner], graph.n)
        for owner, maker in makers.items()
    }
