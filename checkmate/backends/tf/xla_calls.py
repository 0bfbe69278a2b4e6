"""Find when functions ran that the profiler does not name.

XLA compiles them; grouped convolutions on a CPU are an example. A trace has no line for such a call, and the
lines of its kernels do not carry the call's name. Nodes run one after the other. So the call took the time
between the end of the op before it and the start of the op after it.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from checkmate.backends.tf.profiler import OpRun, StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep

_NUMBER = re.compile(r"(_\d+)+$")
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_END = "end/"  # the scope of what the emitted step does last


class NodeRun(NamedTuple):
    """Hold the run of op number ``member`` of the node at ``position``.

    ``position`` counts in the schedule.
    """

    position: int
    member: int
    run: OpRun


class UnnamedCall(NamedTuple):
    """Hold a call of the node at ``position`` that the trace does not name.

    Its times are picoseconds on the trace's clock.
    """

    position: int
    begin_ps: int
    end_ps: int


def node_runs(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[NodeRun]:
    """Return the runs of the nodes' own ops, ordered by start.

    ``trace`` is of the schedule ``steps`` (nodes). Ops that run inside a function are left out, and so are
    ops that TensorFlow moved to the beginning of the step.
    """
    ops = folded.structure.ops
    bare = [
        [bare_leaf(ops[member].name.rsplit("/", 1)[-1]) for member in members] for members in folded.nodes
    ]
    leaves = [bare[node] for node in steps]
    seen = [[0] * len(members) for members in leaves]
    found: list[NodeRun] = []
    for run in trace.runs:
        _, *parts = run.name.split("/")  # stepN/node/op, and more inside a function that the op calls
        position = position_of(run.name)
        if not 0 <= position < len(leaves) or len(parts) < 2:
            continue
        alike = [member for member, leaf in enumerate(leaves[position]) if leaf == bare_leaf(parts[1])]
        if alike:
            # Ops of one name run in their order.
            member = min(alike, key=lambda one: (seen[position][one], one))
            seen[position][member] += 1
            found.append(NodeRun(position, member, run))
    return found


def unnamed_calls(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[UnnamedCall]:
    """Return the calls for which ``trace`` has no line.

    ``trace`` is of the schedule ``steps``. Several such calls in a row share their time evenly.
    """
    runs = node_runs(folded, trace, steps)
    named = {(run.position, run.member) for run in runs}
    wanted = [key for key in _calls(folded, steps) if key not in named]
    found: list[UnnamedCall] = []
    while wanted:
        after = min((key for key in named if key > wanted[0]), default=None)
        row = [key for key in wanted if after is None or key < after]
        begin, end = _between(runs, trace, row[0], after)
        for number, (position, _) in enumerate(row):
            share = (end - begin) // len(row)
            found.append(UnnamedCall(position, begin + number * share, begin + (number + 1) * share))
        wanted = wanted[len(row) :]
    return found


def node_seconds(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[float]:
    """Return seconds per node in a trace of the schedule ``steps``.

    They are the mean over the node's executions, silent calls included.
    """
    totals, runs = [0.0] * len(folded.nodes), [0] * len(folded.nodes)
    for node in steps:
        runs[node] += 1
    for name, seconds in trace.seconds_by_op.items():
        if 0 <= (position := position_of(name)) < len(steps):
            totals[steps[position]] += seconds
    for call in unnamed_calls(folded, trace, steps):
        totals[steps[call.position]] += (call.end_ps - call.begin_ps) * 1e-12
    return [total / max(1, number) for total, number in zip(totals, runs, strict=True)]


def op_starts(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[tuple[int, int]]:
    """Return (time, position) for every op that begins in ``trace``.

    Times are picoseconds on the trace's clock; positions count in the schedule ``steps``. A call that the
    trace does not name begins with its first request, because what is released before that was read by the op
    before it.
    """
    begun = [(run.run.start_ps, run.position) for run in node_runs(folded, trace, steps)]
    asked = [event.time_ps for event in trace.memory if event.requested_bytes > 0]
    for call in unnamed_calls(folded, trace, steps):
        first = bisect.bisect_left(asked, call.begin_ps)
        if first < len(asked) and asked[first] < call.end_ps:
            begun.append((asked[first], call.position))
    return sorted(begun)


def _calls(folded: FoldedStep, steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (position, member) for every op that calls a function."""
    for position, node in enumerate(steps):
        for member, op in enumerate(folded.nodes[node]):
            if folded.structure.ops[op].type in _CALLS:
                yield position, member


def _between(
    runs: Sequence[NodeRun], trace: StepTrace, first: tuple[int, int], after: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the end of the op before ``first`` and the start of ``after``.

    Both are equal, so no time passes, where that is not known.
    """
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
    """Return the position in the schedule of the emitted op called ``name``.

    -1: it belongs to none.
    """
    scope = name.split("/", 1)[0]
    return int(scope[4:]) if scope.startswith("step") and scope[4:].isdigit() else -1


def bare_leaf(leaf: str) -> str:
    """Return ``leaf`` without the number that makes it unique in its graph."""
    return _NUMBER.sub("", leaf)
