"""What would lower the memory of one step, and at what price.

Recomputing has an exact price: the schedule is replayed. The price of keeping elsewhere is the transfer that
would have to hide behind the computation, since no device's transfer rate is known here. What a smaller batch
saves is an estimate from the values whose first dimension is the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import ScheduleError
from checkmate.ir import CostUnit, Graph, Schedule, Timeline
from checkmate.memory.hotspot import LiveBuffer, Moment, Reason
from checkmate.memory.simulate import simulate

_NOTABLE = 0.002  # of the peak: what lowers it by less is no help
_CHAIN = 12  # the most ops that are computed again for one value
_BUSY = (Reason.READ_NOW, Reason.WRITTEN_NOW)


class SuggestionKind(StrEnum):
    RECOMPUTE = "recompute"
    ELSEWHERE = "keep elsewhere"
    BATCH = "smaller batch"


@dataclass(frozen=True, eq=False)
class Suggestion:
    """One way to need less memory at a step; a field is None if it does not apply or is not known.

    ``op`` is -1 for all. ``freed_bytes``: saved at the step itself. ``peak_bytes``: of the whole schedule
    with the remedy. ``cost``: the extra cost, in the graph's unit. ``moved_bytes``: out and back together.
    ``bytes_per_second``: the transfer rate from which the computation hides the transfer.
    """

    kind: SuggestionKind
    op: int
    freed_bytes: int
    peak_bytes: int
    cost: float | None = None
    steps: NDArray[np.int32] | None = None
    moved_bytes: int | None = None
    bytes_per_second: float | None = None
    batch_size: int | None = None


def find_suggestions(
    graph: Graph, schedule: Schedule, timeline: Timeline, at: Moment, once: NDArray[np.bool_], most: int = 24
) -> Iterator[Suggestion]:
    """Yield what helps at the moment ``at``, unranked, for the ``most`` largest buffers not in use.

    ``once``: bool[n], the ops that may not run again.
    """
    yield from smaller_batches(graph, timeline, at)
    orders = set()
    for buffer in waiting(at)[:most]:
        again = recomputed(graph, schedule, timeline, at, buffer, once)
        if again is not None and again.steps is not None:
            order = again.steps.tobytes()
            if order not in orders:  # two outputs of an op may ask for the same
                yield again
            orders.add(order)
        moved = kept_elsewhere(graph, schedule, timeline, at, buffer)
        if moved is not None:
            yield moved


def waiting(at: Moment) -> list[LiveBuffer]:
    """Return what is in memory only because it is read later, the largest first."""
    return [
        buffer
        for buffer in at.live
        if buffer.reason not in _BUSY and buffer.bytes and buffer.next_read is not None
    ]


def rank_suggestions(found: Sequence[Suggestion], peak_bytes: int) -> list[Suggestion]:
    """Return the suggestions that lower the peak (now ``peak_bytes``) notably: recomputations by cost per
    saved byte, then values kept elsewhere, then smaller batches."""

    def key(suggestion: Suggestion) -> tuple[int, float, float]:
        saved = peak_bytes - suggestion.peak_bytes
        if suggestion.kind is SuggestionKind.RECOMPUTE:
            return 0, (suggestion.cost or 0.0) / saved, -saved
        if suggestion.kind is SuggestionKind.ELSEWHERE:
            return 1, -saved, suggestion.bytes_per_second or 0.0
        return 2, -float(suggestion.batch_size or 0), -saved

    most = (1 - _NOTABLE) * peak_bytes
    return sorted((suggestion for suggestion in found if suggestion.peak_bytes < most), key=key)


def recomputed(
    graph: Graph,
    schedule: Schedule,
    timeline: Timeline,
    at: Moment,
    buffer: LiveBuffer,
    once: NDArray[np.bool_],
) -> Suggestion | None:
    """Drop the buffer after its last use and compute it again before its next.

    Inputs that are gone by then are computed again too, or held longer: the smaller peak wins, then the
    smaller cost. None if this is impossible, frees nothing, or needs more than before at another step.
    """
    best: Suggestion | None = None
    for chained in (False, True):
        ops = _to_run(graph, schedule, timeline, at.step, buffer, chained=chained)
        if ops is None or once[ops].any():
            continue
        assert buffer.next_read is not None
        steps = np.insert(schedule.steps, buffer.next_read, ops).astype(np.int32)
        try:
            new = simulate(graph, Schedule.of(graph, steps))
        except ScheduleError:
            continue
        freed = at.live_bytes - int(new.live_bytes[at.step])
        if new.peak_bytes > timeline.peak_bytes:
            continue
        if freed <= 0 or (
            best is not None and (best.peak_bytes, best.cost) <= (new.peak_bytes, new.cost - timeline.cost)
        ):
            continue
        best = Suggestion(
            SuggestionKind.RECOMPUTE, buffer.op, freed, new.peak_bytes, float(graph.cost[ops].sum()), steps
        )
    return best


def _to_run(
    graph: Graph, schedule: Schedule, timeline: Timeline, step: int, buffer: LiveBuffer, *, chained: bool
) -> list[int] | None:
    """Return the ops that make the buffer and its pending views again; None if too many.

    ``chained``: also the ops that make their inputs, where these are not live by then.
    """
    assert buffer.next_read is not None
    reads, values = graph.op_inputs.gather(schedule.steps)
    later_reads = values[(reads > step) & (reads <= buffer.last) & (graph.owner[values] == buffer.value)]
    pending = {int(op) for op in graph.producer[np.append(later_reads, buffer.value)]}
    before = buffer.next_read - 1
    standing = (timeline.buffer_born <= before) & (before <= timeline.buffer_last)
    there = set(timeline.buffer_value[standing].tolist()) - {buffer.value}
    ops: set[int] = set()
    while pending:
        op = pending.pop()
        ops.add(op)
        if len(ops) > _CHAIN:
            return None
        for value in graph.op_inputs[op].tolist() if chained else ():
            maker = int(graph.producer[value])
            if int(graph.owner[value]) not in there and maker not in ops:
                pending.add(maker)
    return sorted(ops)


def kept_elsewhere(
    graph: Graph, schedule: Schedule, timeline: Timeline, at: Moment, buffer: LiveBuffer
) -> Suggestion | None:
    """Move the buffer away after its last use, and back before its next; None if nothing runs in between."""
    assert buffer.next_read is not None
    costs = graph.cost[schedule.steps]
    out, back = (
        float(costs[a:b].sum()) for a, b in ((buffer.used + 1, at.step), (at.step + 1, buffer.next_read))
    )
    away = np.zeros(len(costs), np.bool_)
    away[buffer.used + 1 : buffer.next_read] = True
    peak = int((timeline.live_bytes - buffer.bytes * away).max())
    rate = None
    if graph.cost_unit is CostUnit.SECONDS:
        if min(out, back) <= 0:
            return None
        rate = buffer.bytes / min(out, back)
    return Suggestion(
        SuggestionKind.ELSEWHERE,
        buffer.op,
        buffer.bytes,
        peak,
        moved_bytes=2 * buffer.bytes,
        bytes_per_second=rate,
    )


def smaller_batches(graph: Graph, timeline: Timeline, at: Moment) -> Iterator[Suggestion]:
    batch = graph.batch_size
    if not batch or batch < 2:
        return
    scales = np.array([v.shape is not None and v.shape[:1] == (batch,) for v in graph.values])[
        timeline.buffer_value
    ]
    change = np.zeros(len(timeline.live_bytes) + 2)
    np.add.at(change, timeline.buffer_born[scales], timeline.buffer_bytes[scales])
    np.subtract.at(change, timeline.buffer_last[scales] + 1, timeline.buffer_bytes[scales])
    scaling = np.cumsum(change)[: len(timeline.live_bytes)] + graph.fixed.get("inputs", 0)
    # Outputs that are written over an input were counted twice.
    scaling = np.maximum(0, scaling - timeline.taken_over)
    for size in sorted({batch - 1, 3 * batch // 4, batch // 2} - {0}, reverse=True):
        less = scaling * (1 - size / batch)
        peak = int((timeline.live_bytes - less).max())
        yield Suggestion(SuggestionKind.BATCH, -1, int(less[at.step]), peak, batch_size=size)
