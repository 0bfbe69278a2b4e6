"""Say how much memory a step on a CPU fetches in one piece before it runs.

On a CPU the allocator fetches memory in regions as it is needed, each twice as large as the last. A free
chunk is split only if it is at least twice as large as what is asked for, and two free chunks of different
regions never merge. In one region that has room for the whole step, what is free stays together. If the
largest buffer finds twice its size there, too, what is left of the region is never taken whole. Where the
process is the program's own, the region comes before the parameters: their chunks lie in it, too.
"""

from __future__ import annotations

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate

_MORE = 1.25  # of what is requested: chunks are larger than requests, and some lie between others


def region_bytes(graph: Graph, schedule: Schedule, *, most: int | None = None, spare: bool = True) -> int:
    """Return the bytes of a region for a step by ``schedule``.

    ``most``: more are not requested. ``spare``: with room for the largest buffer once more. 0 on a GPU, whose
    allocator takes all of its memory by itself, and where the device is not known.
    """
    if graph.device is None or graph.device.kind != "cpu":
        return 0
    requested = simulate(graph, schedule).peak_bytes - graph.fixed_bytes
    requested = requested if most is None else min(requested, most)
    values = (graph.values[value].bytes for op in graph.ops for value in op.outputs)
    largest = max([*values, *(op.workspace_bytes for op in graph.ops)], default=0)
    return int(_MORE * requested) + (min(largest, requested) if spare else 0)
