"""Say of each recomputation why its value did not stay in memory.

A value is dropped after its last read before the recomputation. Had it stayed, its bytes would have been live
at every step from there to the recomputation. The fullest of these steps is where they were needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.ir.timeline import Timeline
from checkmate.memory.simulate import simulate


@dataclass(frozen=True)
class Recomputation:
    """One run of an op that is not its first; steps count from 0.

    ``step`` runs ``op`` again, and ``before`` is the run before it. ``freed_after`` is the last step at which
    what that run made was in memory, and ``bytes`` is its size (0 for a view). ``read_at`` is the first step
    that reads what ``step`` makes, and ``reader`` its op. ``fullest_step`` has the most live bytes,
    ``fullest_bytes``, of the steps without the value. A None says that there is no such step.
    """

    op: int
    step: int
    before: int
    freed_after: int
    bytes: int
    read_at: int | None
    reader: int | None
    fullest_step: int | None
    fullest_bytes: int | None


def recomputations(graph: Graph, schedule: Schedule) -> list[Recomputation]:
    """Return the recomputations of a valid ``schedule``, by rising step.

    Raises:
        FingerprintMismatchError: the schedule is for another graph.
        ScheduleError: a step reads a value before it is produced.
    """
    timeline = simulate(graph, schedule)
    steps = schedule.steps.tolist()
    first_reads = _first_reads(graph, steps)
    latest: dict[int, int] = {}
    found = []
    for step, op in enumerate(steps):
        if op in latest:
            found.append(_recomputation(timeline, steps, latest[op], step, first_reads[step]))
        latest[op] = step
    return found


def _first_reads(graph: Graph, steps: list[int]) -> list[int | None]:
    """Return, per step, the first later step that reads what it makes."""
    found: list[int | None] = [None] * len(steps)
    maker: dict[int, int] = {}  # by value, the step that made it last
    for step, op in enumerate(steps):
        for value in graph.ops[op].inputs:
            made_at = maker.get(value)
            if made_at is not None and found[made_at] is None:
                found[made_at] = step
        maker.update(dict.fromkeys(graph.ops[op].outputs, step))
    return found


def _recomputation(
    timeline: Timeline, steps: list[int], before: int, step: int, read_at: int | None
) -> Recomputation:
    """Return what the timeline says of the time between two runs of an op."""
    made = timeline.buffer_born == before  # the buffers that a step makes are its own op's
    freed_after = max([before, *timeline.buffer_last[made].tolist()])
    without = timeline.live_bytes[freed_after + 1 : step]
    fullest = int(np.argmax(without)) if len(without) else None
    return Recomputation(
        op=steps[step],
        step=step,
        before=before,
        freed_after=freed_after,
        bytes=int(timeline.buffer_bytes[made].sum()),
        read_at=read_at,
        reader=None if read_at is None else steps[read_at],
        fullest_step=None if fullest is None else freed_after + 1 + fullest,
        fullest_bytes=None if fullest is None else int(without[fullest]),
    )
