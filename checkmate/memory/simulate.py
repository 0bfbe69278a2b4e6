"""Compute a schedule's timeline (``checkmate.ir.timeline``) with arrays, in O(s log s) for s events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import ScheduleError
from checkmate.ir import Graph, Schedule, Timeline
from checkmate.ir.graph import sorted_views

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Productions:
    """Every production of a value, by value and step: ``key`` = value * ``stride`` + step."""

    key: _Ints
    value: _Ints
    step: _Ints
    stride: int

    def latest(self, value: _Ints, before: _Ints) -> _Ints:
        """Return the index of each value's last production at a step < ``before``; -1: none."""
        index = np.searchsorted(self.key, value * self.stride + before, side="left") - 1
        found = (index >= 0) & (self.value[index] == value)
        return np.where(found, index, -1)


def simulate(graph: Graph, schedule: Schedule) -> Timeline:
    """Return the live bytes of every step of ``schedule``.

    Raises:
        FingerprintMismatchError: the schedule is for another graph. ScheduleError: a step reads a value
        before it is produced.
    """
    schedule.require_graph(graph)
    steps = schedule.steps.astype(np.int64)
    made = _productions(graph, steps)
    last, read_step, read_value, read_from = _last_reads(graph, steps, made)
    root = _buffer_of_production(graph, steps, made)
    size = graph.value_bytes[graph.owner[made.value]]
    counted = root >= 0  # a view of a fixed value has no buffer of its own

    buffer_last = np.full(len(made.key), -1, np.int64)
    np.maximum.at(buffer_last, root[counted], np.maximum(last, made.step)[counted])
    buffers = np.flatnonzero(buffer_last >= 0)
    born, dies, bytes_ = made.step[buffers], buffer_last[buffers], size[buffers]
    change = np.zeros(len(steps) + 2, np.int64)
    np.add.at(change, born, bytes_)
    np.subtract.at(change, dies + 1, bytes_)
    standing = np.cumsum(change)[: len(steps)]
    dying = np.zeros(len(steps) + 1, np.int64)
    np.add.at(dying, np.minimum(dies, len(steps)), bytes_)

    taken = _taken_over(graph, steps, made, root, buffer_last, (read_step, read_value, read_from))
    return Timeline(
        live_bytes=graph.fixed_bytes + graph.workspace_bytes[steps] + standing - taken,
        after_bytes=graph.fixed_bytes + standing - dying[: len(steps)],
        taken_over=taken,
        buffer_value=made.value[buffers].astype(np.int32),
        buffer_bytes=bytes_,
        buffer_born=born,
        buffer_last=dies,
        fixed_bytes=graph.fixed_bytes,
        cost=float(graph.cost[steps].sum()),
    )


def _productions(graph: Graph, steps: _Ints) -> _Productions:
    step, value = graph.op_outputs.gather(steps)
    stride = len(steps) + 1
    key = value.astype(np.int64) * stride + step
    order = np.argsort(key, kind="stable")
    return _Productions(key[order], value[order].astype(np.int64), step[order], stride)


def _last_reads(graph: Graph, steps: _Ints, made: _Productions) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """Return the last step that reads each production (-1: nobody), and all reads: step, value, source."""
    read_step, read_value = graph.op_inputs.gather(steps)
    values = read_value.astype(np.int64)
    source = made.latest(values, read_step)
    if len(source) and int(source.min()) < 0:
        at = int(np.argmin(source))
        value, step = int(values[at]), int(read_step[at])
        raise ScheduleError(
            f"step {step}: op {graph.ops[int(steps[step])].name!r} reads value {value} "
            f"{graph.values[value].name!r} before it is produced"
        )
    last = np.full(len(made.key), -1, np.int64)
    np.maximum.at(last, source, read_step)
    kept = np.flatnonzero(graph.keep & (graph.producer >= 0)).astype(np.int64)
    final = made.latest(kept, np.full(len(kept), made.stride - 1, np.int64))
    last[final[final >= 0]] = len(steps)
    return last, read_step, values, source


def _buffer_of_production(graph: Graph, steps: _Ints, made: _Productions) -> _Ints:
    """Return the production that owns each one's buffer; -1 for a fixed value's."""
    root = np.arange(len(made.key), dtype=np.int64)
    if not (graph.alias_of >= 0).any():
        return root
    starts = np.searchsorted(made.value, np.arange(graph.m + 1))
    for view, parent in sorted_views(graph):
        mine = np.arange(starts[view], starts[view + 1])
        if not len(mine):
            continue
        if graph.producer[parent] < 0:
            root[mine] = -1
            continue
        same_op = graph.producer[parent] == graph.producer[view]
        source = made.latest(np.full(len(mine), parent, np.int64), made.step[mine] + (1 if same_op else 0))
        root[mine] = root[source]
    return root


def _taken_over(
    graph: Graph,
    steps: _Ints,
    made: _Productions,
    root: _Ints,
    buffer_last: _Ints,
    reads: tuple[_Ints, _Ints, _Ints],
) -> _Ints:
    """Return the bytes that each step saves by writing outputs over inputs."""
    taken = np.zeros(len(steps), np.int64)
    has_pairs = np.array([bool(op.takes_over) for op in graph.ops])
    walked = np.flatnonzero(has_pairs[steps])
    if not len(walked):
        return taken
    read_step, read_value, read_from = reads
    first_read = np.searchsorted(read_step, np.arange(len(steps) + 1))
    for step in walked.tolist():
        span = slice(first_read[step], first_read[step + 1])
        sources = dict(zip(read_value[span].tolist(), read_from[span].tolist(), strict=True))
        written: set[int] = set()
        gone: set[int] = set()
        for output, read in graph.ops[int(steps[step])].takes_over:
            if output in written or read not in sources:
                continue
            old = int(root[sources[read]])
            new = int(root[np.searchsorted(made.key, output * made.stride + step)])
            if old < 0 or old in gone or buffer_last[old] > step or old == new:
                continue
            size = int(graph.value_bytes[made.value[old]])
            if size == int(graph.value_bytes[graph.owner[output]]):
                taken[step] += size
                gone.add(old)
                written.add(output)
    return taken
