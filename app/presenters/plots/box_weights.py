"""Figures for the boxes of the folded graph.

They are arrays with one entry per box.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.layout.folded import Box, GraphLayout
from app.state.knowledge import ListedSchedule
from checkmate.ir.graph import Graph


def repeats_and_first(
    layout: GraphLayout, shown: ListedSchedule
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return (recomputations, first step) of each box.

    Recomputations are the executions of its ops beyond each op's first. The first step is the one in which
    its first op runs.
    """
    boxes, count = np.asarray(layout.box_of), len(layout.boxes)
    steps = shown.schedule.steps
    repeats = np.bincount(steps, minlength=shown.graph.n) - 1
    first = np.full(count, len(steps), np.int64)
    np.minimum.at(first, boxes[steps], np.arange(len(steps)))
    return _total(boxes, repeats, count), first


def live_bytes(layout: GraphLayout, shown: ListedSchedule, step: int) -> NDArray[np.float64]:
    """Return each box's bytes that are live in ``step``. They are the bytes that the box's ops wrote."""
    timeline = shown.timeline
    step = min(step, len(timeline.live_bytes) - 1)
    alive = (timeline.buffer_born <= step) & (step <= timeline.buffer_last)
    producers = shown.graph.producer[timeline.buffer_value[alive]]
    boxes = np.asarray(layout.box_of)[producers]
    return _total(boxes, timeline.buffer_bytes[alive], len(layout.boxes))


def locked_shares(layout: GraphLayout, locked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the share of each box's ops that constraints lock."""
    boxes, count = np.asarray(layout.box_of), len(layout.boxes)
    ops = np.bincount(boxes, minlength=count)
    return _total(boxes, locked, count) / np.maximum(1, ops)


def _total(boxes: NDArray[np.intp], weights: NDArray[np.generic], count: int) -> NDArray[np.float64]:
    """Return the sum of the weights that fall on each box, float64[count]."""
    return np.bincount(boxes, weights=weights.astype(np.float64), minlength=count).astype(
        np.float64, copy=False
    )


def largest_op(graph: Graph, box: Box) -> int:
    """Return the op in the box that writes most bytes."""
    return max(box.ops, key=lambda op: sum(graph.values[v].bytes for v in graph.ops[op].outputs))
