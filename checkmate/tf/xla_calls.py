"""When functions ran that the profiler does not name: those that XLA compiles, such as grouped convolutions on a CPU.

A trace has no line for such a call, and its kernel's lines do not carry the call's name. Nodes run one after the other, so the call
took what lies between the end of what stands before it in the step and the start of what stands after it.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checkmate.tf.profiler import OpRun, StepTrace
from checkmate.tf.trace.coarsen import FoldedStep

_NUMBER = re.compile(r"(_\d+)+$")
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_END = "end/"  # the scope of what the emitted step does last


class NodeRun(NamedTuple):
    """``run`` is that of op number ``member`` of the node at ``position`` of the schedule."""

    position: int
    member: int
    run: OpRun


class SilentCall(NamedTuple):
    """A call of the node at ``position`` that no line of the trace names; picoseconds on the trace's clock."""

    position: int
    begin_ps: int
    end_ps: int


def node_runs(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[NodeRun]:
    """The runs of the nodes' own ops, by start, in a trace of the schedule ``steps`` (nodes).

    What a function runs inside is left out, and so is what TensorFlow moved to the step's beginning.
    """
    ops = folded.structure.ops
    bare = [
        [bare_leaf(ops[member].name.rsplit("/", 1)[-1]) for member in members] for members in folded.nodes
    ]
    leaves = [bare[node] for node in steps]
    seen = [[0] * len(members) for members in leaves]
    found: list[NodeRun] = []
    for run in trace.runs:
        _, *parts = run.name.split("/")  # stepN/node/op, and inside a function that the op calls more
        position = position_of(run.name)
        if not 0 <= position < len(leaves) or len(parts) < 2:
            continue
        alike = [member for member, leaf in enumerate(leaves[position]) if leaf == bare_leaf(parts[1])]
        if alike:
            member = min(
                alike, key=lambda one: (seen[position][one], one)
            )  # ops of one name run in their order
            seen[position][member] += 1
            found.append(NodeRun(position, member, run))
    return found


def silent_calls(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[SilentCall]:
    """The calls that ``trace``, of the schedule ``steps``, has no line for; several in a row share their time evenly."""
    runs = node_runs(folded, trace, steps)
    named = {(run.position, run.member) for run in runs}
    wanted = [key for key in _calls(folded, steps) if key not in named]
    found: list[SilentCall] = []
    while wanted:
        after = min((key for key in named if key > wanted[0]), default=None)
        row = [key for key in wanted if after is None or key < after]
        begin, end = _between(runs, trace, row[0], after)
        for number, (position, _) in enumerate(row):
            share = (end - begin) // len(row)
            found.append(SilentCall(position, begin + number * share, begin + (number + 1) * share))
        wanted = wanted[len(row) :]
    return found


def node_seconds(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[float]:
    """Seconds per node in a trace of the schedule ``steps``: the mean over the node's executions, silent calls included."""
    totals, runs = [0.0] * len(folded.nodes), [0] * len(folded.nodes)
    for node in steps:
        runs[node] += 1
    for name, seconds in trace.seconds_by_op.items():
        if 0 <= (position := position_of(name)) < len(steps):
            totals[steps[position]] += seconds
    for call in silent_calls(folded, trace, steps):
        totals[steps[call.position]] += (call.end_ps - call.begin_ps) * 1e-12
    return [total / max(1, number) for total, number in zip(totals, runs, strict=True)]


def beginnings(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[tuple[int, int]]:
    """(picoseconds on the trace's clock, position) for every op of the schedule ``steps`` that begins in ``trace``.

    A call that the trace does not name begins with its first request: what is released before was read by the op before it.
    """
    begun = [(run.run.start_ps, run.position) for run in node_runs(folded, trace, steps)]
    asked = [event.time_ps for event in trace.memory if event.requested_bytes > 0]
    for call in silent_calls(folded, trace, steps):
        first = bisect.bisect_left(asked, call.begin_ps)
        if first < len(asked) and asked[first] < call.end_ps:
            begun.append((asked[first], call.position))
    return sorted(begun)


def _calls(folded: FoldedStep, steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    for position, node in enumerate(steps):
        for member, op in enumerate(folded.nodes[node]):
            if folded.structure.ops[op].type in _CALLS:
                yield position, member


def _between(
    runs: Sequence[NodeRun], trace: StepTrace, first: tuple[int, int], after: tuple[int, int] | None
) -> tuple[int, int]:
    """From the end of what ran before the call ``first`` to the start of what ran ``after``; nothing where that is unknown."""
    scope = f"step{first[0]}/"
    own = [run.start_ps for run in trace.runs if run.name.startswith(scope)]
    begin = max(
        (run.run.end_ps for run in runs if (run.position, run.member) < first), default=min(own, default=0)
    )
    if after is not None:
        later = [run.run.start_ps for run in runs if (run.position, run.member) == after]
    else:
        later = [run.start_ps for run in trace.runs if run.name.startswith(_END)]
    end = min((start for start in later if start >= begin), default=begin)
    return (begin, end) if begin else (end, end)


def position_of(name: str) -> int:
    """Return the position in the schedule of the emitted op called ``name``; -1: it belongs to none."""
    scope = name.split("/", 1)[0]
    return int(scope[4:]) if scope.startswith("step") and scope[4:].isdigit() else -1


def bare_leaf(leaf: str) -> str:
    """Return ``leaf`` without the number that makes a name unique in its graph."""
    return _NUMBER.sub("", leaf)
