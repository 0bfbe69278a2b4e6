"""Say what the emitted step asks of the allocator, whatever its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from checkmate.backends.tf.allocator.replay import Allocation, allocations
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir.graph import Graph
from checkmate.memory.step_requests import AskedBuffer, StepRequests, order_of


def requests_of_step(folded: FoldedStep, graph: Graph, steps: Sequence[int]) -> StepRequests:
    """Return what ``steps`` ask for: one part per op of the emitted step.

    ``graph``: ``folded.graph``, or the same with what was learned on the device. Two steps that are told to
    keep their order are a step that writes over a buffer, and one that reads it before.
    """
    found = allocations(folded, steps, graph)
    lengths = [len(folded.nodes[node]) for node in steps]
    first = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    step_of = np.repeat(np.arange(len(steps)), lengths).tolist()
    names = {
        name: number for number, name in enumerate({b.assigned_to: None for b in found if b.assigned_to})
    }
    buffers = []
    for buffer in (*found, *scratch_of_nodes(folded, graph, steps)):
        variable = names.get(buffer.assigned_to, -1)
        kept = buffer.freed >= first[-1]
        buffers.append(AskedBuffer(buffer.bytes, buffer.born, buffer.readers, kept, variable))
    buffers.sort(key=lambda each: each.part)
    over = [(step_of[before], step_of[after]) for b in found for before, after in b.ends]
    return StepRequests(tuple(steps), first, tuple(buffers), order_of(graph, steps, over))


def scratch_of_nodes(folded: FoldedStep, graph: Graph, steps: Sequence[int]) -> Iterator[Allocation]:
    """Yield what nodes ask for beyond the rules.

    It lasts for one op: the one that asked if that is known, else the node's last.
    """
    learned: dict[str, int] = graph.metadata.get("learned_workspace", {})
    pieces: dict[str, Sequence[int]] = graph.metadata.get("learned_pieces", {})
    executed = 0
    for position, node in enumerate(steps):
        members, name = folded.nodes[node], graph.ops[node].name
        if name in learned:
            member, *sizes = pieces.get(name, (len(members) - 1, learned[name]))
            at = executed + member
            for size in sizes:
                yield Allocation(members[member], position, size, at, at, position, readers=(at,))
        executed += len(members)
