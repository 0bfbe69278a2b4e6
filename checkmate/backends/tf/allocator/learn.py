"""Learn what kernels allocate beyond the rules, from a traced step.

Scratch space is in no graph and differs from device to device: a convolution's patches, a loop's iterations,
a kernel compiled by XLA. The trace of the plain schedule shows it. What a node holds at most while it runs is
compared with what the replay says it holds; the difference is the node's workspace there.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from checkmate.backends.tf.allocator.replay import Allocation, allocations
from checkmate.backends.tf.profiler import StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla_calls import op_starts
from checkmate.ir.graph import Graph

LEAST_LEARNED_BYTES = 256 << 10  # bytes; less is noise beside a step's peak


def learned_workspace(
    folded: FoldedStep, traces: Sequence[StepTrace], steps: Sequence[int] | None = None
) -> dict[int, int]:
    """Return per node the bytes that its ops held beyond the replay.

    They must be seen in every one of ``traces``. ``steps``: the schedule that was traced; None: the plain
    one. What only some runs show is a race, not a rule. If a node ran several times, the largest value
    counts.
    """
    ran = list(range(len(folded.nodes)) if steps is None else steps)
    expected = _replayed_rises(allocations(folded, ran), len(ran))
    seen = [_traced_rises(folded, trace, ran) for trace in traces]
    found: dict[int, int] = {}
    for position, rise in enumerate(expected):
        beyond = min((rises[position] for rises in seen), default=0) - rise
        if beyond >= max(LEAST_LEARNED_BYTES, found.get(ran[position], 0)):
            found[ran[position]] = beyond
    return found


def with_workspace(
    graph: Graph,
    learned: Mapping[int, int],
    reserves: Mapping[int, int] = {},
    pieces: Mapping[int, Sequence[int]] = {},
) -> Graph:
    """Return ``graph`` with the sizes that were learned.

    ``step_fingerprint`` in its metadata still names the step as traced. ``learned``: op → bytes beyond the
    rules. ``reserves``: value → its bytes, in place of an estimate. ``pieces``: op → the requests that its
    bytes are made of, as ``LearnedByOp`` has them.
    """
    reserves = {value: size for value, size in reserves.items() if graph.values[value].bytes != size}
    if not learned and not reserves:
        return graph
    ops = tuple(
        dataclasses.replace(op, workspace_bytes=op.workspace_bytes + learned.get(node, 0))
        for node, op in enumerate(graph.ops)
    )
    values = tuple(
        dataclasses.replace(value, bytes=reserves.get(number, value.bytes))
        for number, value in enumerate(graph.values)
    )
    facts: dict[str, Any] = {"step_fingerprint": graph.fingerprint}
    if learned:
        facts["learned_workspace"] = {graph.ops[node].name: size for node, size in learned.items()}
    if pieces:
        facts["learned_pieces"] = {graph.ops[node].name: list(held) for node, held in pieces.items()}
    if reserves:
        facts["learned_reserves"] = {graph.values[value].name: size for value, size in reserves.items()}
    return dataclasses.replace(graph, ops=ops, values=values, metadata={**graph.metadata, **facts})


def step_fingerprint(graph: Graph) -> str:
    """Return the fingerprint of the traced step behind ``graph``.

    It is that of the step before anything was learned on a device.
    """
    return str(graph.metadata.get("step_fingerprint", graph.fingerprint))


def _replayed_rises(buffers: Sequence[Allocation], count: int) -> list[int]:
    """Return for each position how far the bytes in use rise in the replay.

    They rise above what they were when the first op of the position began.
    """
    events: list[tuple[int, int, int, int]] = []  # execution, releases last, position, bytes
    for buffer in buffers:
        events.append((buffer.born, 0, buffer.position, buffer.bytes))
        events.append((buffer.freed, 1, buffer.released_at, -buffer.bytes))
    level, rises = [0] * count, [0] * count
    for _, _, position, size in sorted(events):
        if position >= 0:
            level[position] += size
            rises[position] = max(rises[position], level[position])
    return rises


def _traced_rises(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    """Return for each position how far the bytes in use rise in ``trace``.

    An event belongs to the node whose op began last, because nodes run one after the other.
    """
    begun = op_starts(folded, trace, steps)
    starts = [start for start, _ in begun]
    level, rises = [0] * len(steps), [0] * len(steps)
    for event in trace.memory:
        at = bisect.bisect_right(starts, event.time_ps) - 1
        if at >= 0:
            position = begun[at][1]
            level[position] += event.requested_bytes
            rises[position] = max(rises[position], level[position])
    return rises
