"""Attribute the lines of a trace to the nodes of the schedule that ran.

A call of a function that XLA compiled (such as a grouped convolution on a CPU) has no line: it took the time
between the end of the op before it and the start of the op after it. On a GPU the host launches kernels a few
microseconds apart, so a small kernel costs the *launch interval*: the one with which all kernels, each
costing at least that much, add up to the wall time of the step."""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from checkmate.backends.tf.profiler import OpRun, StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep

_EMITTED = re.compile(r"step(\d+)/[^/]+/([^/]+)")  # stepN/node/op, and more inside a function that it calls
_NUMBER = re.compile(r"(_\d+)+$")
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_END = "end/"  # the scope of the ops after the schedule
_LONGEST_INTERVAL = 50e-6  # seconds; a host that takes longer between kernels is not busy with launches

NO_KERNEL_TIMES = (
    "TensorFlow's profiler saw no GPU kernels, so ops share the step's time by operation counts; a container "
    "needs the right to profile (--cap-add=SYS_ADMIN, or NVreg_RestrictProfilingToAdminUsers=0)"
)


class NodeRun(NamedTuple):
    position: int
    member: int
    run: OpRun


class UnnamedCall(NamedTuple):
    """A call of the node at ``position`` that the trace does not name."""

    position: int
    begin_ps: int
    end_ps: int


def position_of(name: str) -> int:
    """Return the position in the schedule of the emitted op ``name`` (``stepN/node/op``); -1: it belongs to
    none."""
    scope = name.split("/", 1)[0]
    return int(scope[4:]) if scope.startswith("step") and scope[4:].isdigit() else -1


def askers_by_name(
    folded: FoldedStep, names: Iterable[str], steps: Sequence[int]
) -> dict[str, tuple[int, int | None]]:
    """Return, by emitted name, the position in ``steps`` and the index of the op within its node; None for an
    op that TensorFlow itself added to the node. ``names`` are in the order in which they ran."""
    found: dict[tuple[int, str], tuple[int, int | None]] = {}
    taken: Counter[tuple[int, str]] = Counter()
    parts = {name: (int(each[1]), each[2]) for name in names if (each := _EMITTED.match(name))}
    parts = {name: place for name, place in parts.items() if place[0] < len(steps)}
    for position, leaf in dict.fromkeys(parts.values()):
        bare = _bare_leaf(leaf)
        ops = [folded.structure.ops[member].name for member in folded.nodes[steps[position]]]
        alike = [number for number, name in enumerate(ops) if _bare_leaf(name.rsplit("/", 1)[-1]) == bare]
        number = min(taken[position, bare], len(alike) - 1)  # ops of one name run in their order
        found[position, leaf] = position, alike[number] if alike else None
        taken[position, bare] += 1
    return {name: found[place] for name, place in parts.items()}


def _bare_leaf(leaf: str) -> str:
    return _NUMBER.sub("", leaf)  # without the number that makes the name unique in its graph


def node_runs(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[NodeRun]:
    """Return the runs of the nodes' own ops, and of what these call, ordered by start."""
    askers = askers_by_name(folded, (run.name for run in trace.runs), steps)
    named = ((*askers.get(run.name, (0, None)), run) for run in trace.runs)
    return [NodeRun(position, member, run) for position, member, run in named if member is not None]


def unnamed_calls(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[UnnamedCall]:
    """Return the calls for which ``trace`` has no line; several in a row share their time evenly."""
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


def _calls(folded: FoldedStep, steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    for position, node in enumerate(steps):
        for member, op in enumerate(folded.nodes[node]):
            if folded.structure.ops[op].type in _CALLS:
                yield position, member


def _between(
    runs: Sequence[NodeRun], trace: StepTrace, first: tuple[int, int], after: tuple[int, int] | None
) -> tuple[int, int]:
    """Return the end of the op before ``first`` and the start of ``after``; equal where that is not known."""
    scope = f"step{first[0]}/"
    own = [run.start_ps for run in trace.runs if run.name.startswith(scope)]
    before = (run.run.end_ps for run in runs if (run.position, run.member) < first)
    begin = max(before, default=min(own, default=0))
    if after is not None:
        later = [run.run.start_ps for run in runs if (run.position, run.member) == after]
    else:
        later = [run.start_ps for run in trace.runs if run.name.startswith(_END)]
    end = min((start for start in later if start >= begin), default=begin)
    return (begin, end) if begin else (end, end)


def op_starts(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[tuple[int, int]]:
    """Return (picoseconds, position) for every op that begins in ``trace``; an unnamed call begins with its
    first request."""
    begun = [(run.run.start_ps, run.position) for run in node_runs(folded, trace, steps)]
    asked = [event.time_ps for event in trace.memory if event.requested_bytes > 0]
    for call in unnamed_calls(folded, trace, steps):
        first = bisect.bisect_left(asked, call.begin_ps)
        if first < len(asked) and asked[first] < call.end_ps:
            begun.append((asked[first], call.position))
    return sorted(begun)


def node_seconds(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[float]:
    seconds = [0.0] * len(steps)
    for name, taken in trace.seconds_by_op.items():
        if 0 <= (position := position_of(name)) < len(steps):
            seconds[position] += taken
    for call in unnamed_calls(folded, trace, steps):
        seconds[call.position] += (call.end_ps - call.begin_ps) * 1e-12
    return _means(seconds, steps, len(folded.nodes))


def launched_seconds(folded: FoldedStep, trace: StepTrace, steps: Sequence[int], wall: float) -> list[float]:
    """Return seconds per node in a trace of ``steps`` on a GPU; all are 0 where the trace has no kernels."""
    kernels: list[list[float]] = [[] for _ in steps]
    for run in trace.runs:
        if 0 <= (position := position_of(run.name)) < len(steps):
            kernels[position].append((run.end_ps - run.start_ps) * 1e-12)
    interval = launch_interval([seconds for each in kernels for seconds in each], wall)
    seconds = [sum(max(kernel, interval) for kernel in launched) for launched in kernels]
    return _means(seconds, steps, len(folded.nodes))


def _means(seconds: Sequence[float], steps: Sequence[int], count: int) -> list[float]:
    totals, runs = [0.0] * count, [0] * count
    for node, taken in zip(steps, seconds, strict=True):
        totals[node] += taken
        runs[node] += 1
    return [total / max(1, number) for total, number in zip(totals, runs, strict=True)]


def launch_interval(kernels: Sequence[float], wall: float) -> float:
    """Return the least seconds, at most 50e-6, that each kernel costs if all take ``wall``; else 0."""
    longest_last = np.sort(np.asarray(kernels, dtype=np.float64))
    count = len(longest_last)
    if not count or longest_last.sum() >= wall:
        return 0.0
    longer = longest_last.sum() - np.cumsum(longest_last)  # per kernel: the total time of the longer ones
    intervals = (wall - longer) / np.arange(1, count + 1)
    # Of the first so many kernels, the one interval that the next longer kernel already exceeds.
    ends = np.append(intervals[:-1] <= longest_last[1:], True)
    return min(float(intervals[np.argmax(ends)]), _LONGEST_INTERVAL)


def share_by_operations(wall: float, operations: Sequence[float], steps: Sequence[int]) -> list[float]:
    total = sum(operations[node] for node in steps)
    return [wall * each / total if total > 0 else wall / max(1, len(steps)) for each in operations]
