from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from checkmate.ir import Graph, Schedule, Timeline
from checkmate.memory.placement import written_over
from checkmate.memory.step_requests import AskedBuffer, StepRequests, order_of


def requests_of_graph(graph: Graph, schedule: Schedule, timeline: Timeline) -> StepRequests:
    """What ``schedule`` asks of an allocator by its graph alone: one part per step."""
    steps = tuple(schedule.steps.tolist())
    readers = _parts_of_buffers(graph, steps, timeline)
    source = written_over(graph, schedule, timeline)
    ends = [last >= len(steps) for last in timeline.buffer_last.tolist()]
    first: dict[int, int] = {}
    for buffer in sorted(range(len(ends)), key=lambda each: int(timeline.buffer_born[each])):
        old = source.get(buffer)
        first[buffer] = buffer if old is None else first[old]
    joined: dict[int, list[int]] = {}
    for buffer, root in first.items():
        joined.setdefault(root, []).append(buffer)
    found = [
        AskedBuffer(
            int(timeline.buffer_bytes[root]),
            int(timeline.buffer_born[root]),
            tuple(sorted({part for each in group for part in readers[each]})),
            any(ends[each] for each in group),
        )
        for root, group in joined.items()
        if timeline.buffer_bytes[root]
    ]
    for place, step in enumerate(steps):
        if graph.ops[step].workspace_bytes:
            found.append(AskedBuffer(graph.ops[step].workspace_bytes, place, (place,)))
    over = [
        (reader, int(timeline.buffer_born[buffer]))
        for buffer, old in source.items()
        for reader in readers[old]
    ]
    buffers = tuple(sorted(found, key=lambda each: each.part))
    return StepRequests(steps, np.arange(len(steps) + 1), buffers, order_of(graph, steps, over))


def _parts_of_buffers(graph: Graph, steps: Sequence[int], timeline: Timeline) -> list[set[int]]:
    """For each buffer of ``timeline`` the steps that use it."""
    values, born = timeline.buffer_value.tolist(), timeline.buffer_born.tolist()
    number: Mapping[tuple[int, int], int] = {
        pair: at for at, pair in enumerate(zip(values, born, strict=True))
    }
    found: list[set[int]] = [{place} for place in born]
    holds: dict[int, int] = {}  # value → its newest buffer
    for place, step in enumerate(steps):
        op = graph.ops[step]
        for value in op.inputs:
            if value in holds:
                found[holds[value]].add(place)
        for value in op.outputs:
            parent = graph.values[value].alias_of
            made = holds.get(parent) if parent is not None else number.get((value, place))
            if parent is not None and made is None:
                made = number.get((int(graph.owner[value]), place))
            holds.pop(value, None)
            if made is not None:
                holds[value] = made
                found[made].add(place)
    return found
