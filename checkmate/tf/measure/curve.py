"""Find how much a running step really held, step by step of its schedule."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from checkmate.tf.profiler import StepTrace
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.xla_calls import op_starts


def measured_curve(folded: FoldedStep, trace: StepTrace, steps: Sequence[int]) -> list[int]:
    """Return the most bytes requested at once while each of ``steps`` ran.

    The step's fixed bytes are included. The allocator's events in ``trace`` tell them. An event belongs to
    the step whose op began last, because steps run one after the other. Only what reaches the device's own
    allocator is seen.
    """
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
