"""What layers hold for the backward pass and at the peak, and what computing them again would free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Schedule, Timeline
from checkmate.ir.graph import Phase
from checkmate.memory.hotspot import Moment, Share, moment
from checkmate.memory.simulate import simulate
from checkmate.memory.suggestions import recomputed, waiting

_ValuesAndBytes = tuple[NDArray[np.int32], NDArray[np.int64]]


@dataclass(frozen=True)
class LayerMemory:
    """Bytes of a layer, or of another part of the peak, in the plain step.

    ``kept``: held for the backward pass when it holds the most. ``at_peak``: in memory at the step's peak;
    these add up to it. ``freed``: less at the peak if what waits there is computed again, for ``cost`` more.
    """

    name: str
    kept: int
    at_peak: int
    freed: int
    cost: float


def activations(graph: Graph, schedule: Schedule, timeline: Timeline) -> _ValuesAndBytes:
    """Return values and bytes of what waits for the backward pass, when that is most.

    It was made outside of the backward pass, and an op of that pass reads it last.
    """
    backward = np.array([op.phase is Phase.BACKWARD for op in graph.ops], np.bool_)
    born, last, size = timeline.buffer_born, timeline.buffer_last, timeline.buffer_bytes
    reader = schedule.steps[np.minimum(last, len(schedule.steps) - 1)]
    waits = (last < len(schedule.steps)) & backward[reader]
    waits &= ~backward[graph.producer[timeline.buffer_value]]
    change = np.zeros(len(schedule.steps) + 2, np.int64)
    np.add.at(change, born[waits], size[waits])
    np.subtract.at(change, last[waits] + 1, size[waits])
    most = int(np.argmax(np.cumsum(change)))
    hits = waits & (born <= most) & (most <= last)
    return timeline.buffer_value[hits], size[hits]


def activation_bytes(graph: Graph, schedule: Schedule) -> int | None:
    """Return the bytes that wait for the backward pass; None where no op is known to be of that pass."""
    return int(activations(graph, schedule, simulate(graph, schedule))[1].sum()) or None


def layer_memory(graph: Graph, name: Callable[[str], str]) -> list[LayerMemory]:
    """Return what layers hold of the plain step. ``name``: what to call the layer of a group of ops."""
    plain = Schedule.plain(graph)
    timeline = simulate(graph, plain)
    at = moment(graph, plain, timeline, timeline.peak_step)

    def layer(value: int) -> str:
        op = graph.ops[int(graph.producer[value])]
        return name(op.group or op.name)

    kept: defaultdict[str, int] = defaultdict(int)
    for value, size in zip(*activations(graph, plain, timeline), strict=True):
        kept[layer(value)] += int(size)
    held: defaultdict[str, list[Share]] = defaultdict(list)
    for share in at.by_value():
        held[layer(share.values[0]) if share.values else share.name].append(share)
    return [
        LayerMemory(
            each,
            kept[each],
            sum(share.bytes for share in held[each]),
            *_freed(graph, plain, timeline, at, [value for share in held[each] for value in share.values]),
        )
        for each in dict.fromkeys([*kept, *held])
    ]


def _freed(
    graph: Graph, plain: Schedule, timeline: Timeline, at: Moment, values: Iterable[int]
) -> tuple[int, float]:
    """Replay the plain step with ``values`` computed again after the moment ``at``."""
    schedule, replayed, now = plain, timeline, at
    # The last one first: what it is computed from is then computed again for it, once.
    for value in sorted(values, key=lambda each: -int(graph.producer[each])):
        for buffer in (each for each in waiting(now) if each.value == value):
            again = recomputed(graph, schedule, replayed, now, buffer, ~graph.recomputable)
            if again is not None and again.steps is not None:
                schedule = Schedule.of(graph, again.steps)
                replayed = simulate(graph, schedule)
                now = moment(graph, schedule, replayed, at.step)
    return at.live_bytes - now.live_bytes, replayed.cost - timeline.cost
