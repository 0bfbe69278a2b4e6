"""Find how much a running step really held, step by step of its schedule."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from checkmate.backends.tf.allocator.learn import askers_by_name
from checkmate.backends.tf.node_times import op_starts
from checkmate.backends.tf.profiler import StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep


def measured_curve(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    """Return the most bytes requested at once while each of ``steps`` ran.

    The step's fixed bytes are included. The allocator's events in ``trace`` tell them. An event belongs to
    the step whose op began last, because steps run one after the other. Only what reaches the device's own
    allocator is seen.
    """
    if folded.graph.device_kind != "cpu":
        return [folded.graph.fixed_bytes + most for most in _by_name(folded, trace, steps)]
    begun = op_starts(folded, trace, steps)
    starts = [start for start, _ in begun]
    most: dict[int, int] = {}
    held = [(0, 0)]  # (time, bytes from then on); tells what was held in a step without events
    level = 0
    for event in trace.memory:
        level += event.requested_bytes
        held.append((event.time_ps, level))
        at = bisect.bisect_right(starts, event.time_ps) - 1
        if at >= 0:
            position = begun[at][1]
            most[position] = max(most.get(position, 0), level)
    found: list[int] = []
    times = [time for time, _ in held]
    first = {position: start for start, position in reversed(begun)}
    before = 0
    for position in range(len(steps)):
        if position in first:
            before = held[bisect.bisect_right(times, first[position]) - 1][1]
        found.append(folded.graph.fixed_bytes + max(before, most.get(position, before)))
    return found


def _by_name(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    """Return the most bytes while each step ran, by the ops that asked.

    The kernels of a GPU are launched ahead of time, so the moment of a request tells nothing. But ops are
    launched in their order, and a request names its op.
    """
    askers = askers_by_name(folded, (event.op for event in trace.memory), steps)
    most = [0] * len(steps)
    level, at = 0, -1
    for event in trace.memory:
        position = askers[event.op][0] if event.op in askers else at
        while at < position:
            at += 1
            most[at] = level
        level += event.requested_bytes
        if at >= 0:
            most[at] = max(most[at], level)
    return most[: at + 1] + [level] * (len(steps) - at - 1)
