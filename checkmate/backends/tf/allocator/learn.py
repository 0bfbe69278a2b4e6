"""Learn what kernels allocate beyond the rules, from a traced step.

No graph shows scratch space, and it differs from device to device: a convolution's patches, a loop's
iterations, a kernel compiled by XLA. On a CPU it is the bytes in use while a node runs less those that the
replay holds then. On a GPU kernels are launched ahead of time, so the time of a request does not tell which
op runs; but each event of the GPU's allocator names the op and tells scratch from output. So there scratch is
learned by op, and so are outputs whose shape does not give their size."""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkmate.backends.tf.allocator.replay import allocations
from checkmate.backends.tf.node_times import askers_by_name, op_starts
from checkmate.backends.tf.profiler import MemoryEvent, StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.sizes import is_reserve
from checkmate.ir import Graph

_LEAST_BYTES = 256 << 10  # less is noise beside a step's peak

Asker = tuple[int, int]  # position in the schedule, and which of the node's ops
Pieces = tuple[int, ...]  # which of the node's ops asked, then the bytes of each request


@dataclass(frozen=True)
class LearnedByOp:
    """``workspace``: node → bytes of scratch beyond the rules. ``reserves``: node → bytes of its outputs of
    unknown size. ``pieces``: node → the single requests of its scratch: a convolution requests its transposed
    input, its transposed output and cuDNN's scratch separately, and each gets a chunk of its own."""

    workspace: Mapping[int, int]
    reserves: Mapping[int, int]
    pieces: Mapping[int, Pieces] = field(default_factory=dict)


def step_fingerprint(graph: Graph) -> str:
    """Return the fingerprint of the traced step behind ``graph``, before anything was learned."""
    return graph.origin.step_fingerprint or graph.fingerprint


def with_workspace(
    graph: Graph,
    learned: Mapping[int, int],
    reserves: Mapping[int, int] = {},
    pieces: Mapping[int, Sequence[int]] = {},
) -> Graph:
    """Return ``graph`` with the sizes that were learned. ``learned``: op → bytes beyond the rules.
    ``reserves``: value → its bytes. ``pieces``: op → the requests that its bytes are made of."""
    reserves = {value: size for value, size in reserves.items() if graph.values[value].bytes != size}
    if not learned and not reserves:
        return graph
    ops, values = list(graph.ops), list(graph.values)
    for node, size in learned.items():
        ops[node] = dataclasses.replace(ops[node], workspace_bytes=ops[node].workspace_bytes + size)
    for number, size in reserves.items():
        values[number] = dataclasses.replace(values[number], bytes=size)
    found = {
        "learned_workspace": {graph.ops[node].name: size for node, size in learned.items()},
        "learned_pieces": {graph.ops[node].name: list(held) for node, held in pieces.items()},
        "learned_reserves": {graph.values[value].name: size for value, size in reserves.items()},
    }
    facts: dict[str, Any] = {name: each for name, each in found.items() if each}
    metadata = {**graph.metadata, "step_fingerprint": graph.fingerprint, **facts}
    return dataclasses.replace(graph, ops=tuple(ops), values=tuple(values), metadata=metadata)


def learned_workspace(
    folded: FoldedStep, traces: Sequence[StepTrace], steps: Sequence[int] | None = None
) -> dict[int, int]:
    """Return per node the bytes that its ops held beyond the replay in every one of ``traces`` of ``steps``.
    What only some runs show is a race. If a node ran several times, the largest value counts."""
    ran = list(range(len(folded.nodes)) if steps is None else steps)
    seen = [_traced_rises(folded, trace, ran) for trace in traces]
    found: dict[int, int] = {}
    for position, levels in enumerate(_levels_by_op(folded, ran)):
        beyond = min((rises[position] for rises in seen), default=0) - max(levels, default=0)
        if beyond >= max(_LEAST_BYTES, found.get(ran[position], 0)):
            found[ran[position]] = beyond
    return found


def _levels_by_op(folded: FoldedStep, steps: Sequence[int]) -> list[list[int]]:
    """Return, per position, the bytes held during each op of its node, above those at the node's start."""
    born: dict[int, int] = defaultdict(int)
    freed: dict[tuple[int, int], int] = defaultdict(int)
    for buffer in allocations(folded, steps):
        born[buffer.born] += buffer.bytes
        freed[buffer.freed, buffer.released_at] += buffer.bytes
    found: list[list[int]] = []
    execution = 0
    for position, node in enumerate(steps):
        level, levels = 0, []
        for _ in folded.nodes[node]:
            level += born[execution]
            levels.append(level)
            level -= freed[execution, position]
            execution += 1
        found.append(levels)
    return found


def _traced_rises(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    """Return, per position, how far the bytes in use rise while its node runs. An event belongs to the op
    that began last."""
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


def learned_by_op(
    folded: FoldedStep, traces: Sequence[StepTrace], steps: Sequence[int] | None = None
) -> LearnedByOp:
    """Return each node's scratch and outputs of unknown shape from a GPU's ``traces``. Scratch counts only
    where it raises the node's peak."""
    ran = list(range(len(folded.nodes)) if steps is None else steps)
    asked = [_requests_by_op(folded, trace.memory, ran) for trace in traces]
    workspace: dict[int, int] = {}
    pieces: dict[int, Pieces] = {}
    for position, levels in enumerate(_levels_by_op(folded, ran)):
        rise, held = min((each.highest(position, levels) for each in asked), default=(0, (0,)))
        beyond, node = rise - max(levels, default=0), ran[position]
        if beyond >= max(_LEAST_BYTES, workspace.get(node, 0)):
            workspace[node], pieces[node] = beyond, held
    reserves: dict[int, int] = defaultdict(int)
    for each in asked:
        for (position, _), size in each.reserves.items():
            if size:
                reserves[ran[position]] = max(reserves[ran[position]], size)
    return LearnedByOp(workspace, dict(reserves), pieces)


@dataclass(eq=False)
class _RequestsByOp:
    """``scratch``: each op's requests at their highest. ``reserves``: bytes of outputs of unknown size."""

    scratch: dict[Asker, tuple[int, ...]] = field(default_factory=dict)
    reserves: dict[Asker, int] = field(default_factory=dict)

    def highest(self, position: int, levels: Sequence[int]) -> tuple[int, Pieces]:
        """Return the most bytes that the node at ``position`` held, and its scratch requests at that time.
        ``levels``: per op of the node, the bytes without scratch."""
        held = ((level, (n, *self.scratch.get((position, n), ()))) for n, level in enumerate(levels))
        return max(((level + sum(pieces[1:]), pieces) for level, pieces in held), default=(0, (0,)))


def _requests_by_op(folded: FoldedStep, events: Sequence[MemoryEvent], steps: Sequence[int]) -> _RequestsByOp:
    askers = askers_by_name(folded, (event.op for event in events), steps)
    found = _RequestsByOp()
    held: dict[Asker, dict[int, int]] = defaultdict(dict)
    open_: dict[int, Asker] = {}
    outputs: dict[Asker, list[int]] = defaultdict(list)
    for event in events:
        if event.requested_bytes < 0:
            if event.address in open_:
                del held[open_.pop(event.address)][event.address]
        elif event.op in askers:
            position, member = askers[event.op]
            of = position, len(folded.nodes[steps[position]]) - 1 if member is None else member
            if event.temporary:
                open_[event.address] = of
                held[of][event.address] = event.requested_bytes
                if sum(held[of].values()) > sum(found.scratch.get(of, ())):
                    found.scratch[of] = tuple(held[of].values())
            else:
                outputs[of].append(event.requested_bytes)
    for of, sizes in outputs.items():
        size = _size_of_reserve(folded, folded.nodes[steps[of[0]]][of[1]], sizes)
        if size is not None:
            found.reserves[of] = size
    return found


def _size_of_reserve(folded: FoldedStep, op: int, sizes: list[int]) -> int | None:
    outputs = folded.structure.ops[op].outputs
    if not any(map(is_reserve, outputs)):
        return None
    rest = list(sizes)
    for number, tensor in enumerate(outputs):
        size = folded.structure.bytes_of.get((op, number), 0)
        if not is_reserve(tensor) and size in rest:
            rest.remove(size)
    return max(rest, default=0)


def reserve_values(folded: FoldedStep) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for value, (op, number) in enumerate(folded.values):
        outputs = folded.structure.ops[op].outputs
        if number < len(outputs) and is_reserve(outputs[number]):
            found[folded.node_of[op]].append(value)
    return dict(found)


def sizes_of_reserves(folded: FoldedStep, learned: Mapping[int, int]) -> dict[int, int]:
    """Return the bytes of each value whose size only a trace tells; a node's bytes are split evenly."""
    values = reserve_values(folded)
    return {
        value: size // len(values[node])
        for node, size in learned.items()
        if size and node in values
        for value in values[node]
    }
