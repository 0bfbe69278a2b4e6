"""The most bytes that a step has requested at once, by what is predicted of its buffers."""

from __future__ import annotations

from collections.abc import Sequence

from checkmate.backends.tf.allocator.replay import allocations, scratch_of_nodes
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir import Graph


def predicted_requested(folded: FoldedStep, graph: Graph, steps: Sequence[int]) -> int:
    """Return the peak in bytes; those held before the step do not count. ``graph``: ``folded.graph``, or the
    same with what was learned on the device."""
    buffers = [*allocations(folded, steps, graph), *scratch_of_nodes(folded, graph, steps)]
    moments = [(buffer.born, 0, buffer.bytes) for buffer in buffers]
    moments += [(buffer.freed, 1, -buffer.bytes) for buffer in buffers]
    total = peak = 0
    for _, _, change in sorted(moments, key=lambda moment: moment[:2]):
        total += change
        peak = max(peak, total)
    return peak
