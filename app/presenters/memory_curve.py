"""Live bytes per step and what holds them, and per box of the folded graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.layout.folded import Box, GraphLayout
from app.state.knowledge import ListedSchedule
from checkmate.ir import Graph, Schedule, Timeline

KINDS = ("fixed", "activations", "gradients", "workspace")


@dataclass(frozen=True, eq=False)
class Stack:
    """``layers[k]`` are the bytes of ``KINDS[k]``, float64[steps]. ``total`` is their sum, the live bytes."""

    layers: NDArray[np.float64]
    total: NDArray[np.float64]
    recomputed: NDArray[np.bool_]


def memory_stack(graph: Graph, schedule: Schedule, timeline: Timeline) -> Stack:
    """A buffer counts as an activation or a gradient by the phase of the op that wrote it."""
    steps = schedule.steps
    owner_backward = graph.late[graph.producer[timeline.buffer_value]]
    layers = np.zeros((4, len(steps)))
    layers[0] = timeline.fixed_bytes
    for kind, mask in ((1, ~owner_backward), (2, owner_backward)):
        born, size = timeline.buffer_born[mask], timeline.buffer_bytes[mask]
        gone = np.minimum(timeline.buffer_last[mask], len(steps)) + 1
        # Whole numbers of bytes, which floats hold exactly.
        more, less = (np.bincount(at, weights=size, minlength=len(steps) + 2) for at in (born, gone))
        layers[kind] = np.cumsum(more - less)[: len(steps)]
    layers[3] = graph.workspace_bytes[steps]
    # An output that is written over an input shares its buffer. What was counted twice is taken off the
    # gradients first.
    twice = layers.sum(axis=0) - timeline.live_bytes
    gradients = np.minimum(layers[2], twice)
    layers[2] -= gradients
    layers[1] -= twice - gradients
    return Stack(layers, timeline.live_bytes.astype(np.float64), ~schedule.first_occurrence)


def in_columns(stack: Stack, starts: NDArray[np.int64], last: int) -> Stack:
    """What columns of the curve hold. They begin at ``starts``; the last ends before step ``last``. A column
    holds what its step with the most live bytes holds, so that no peak is lost. It is marked as recomputed if
    any of its steps is."""
    largest = tops_of(stack.total, starts, last)
    again = np.maximum.reduceat(stack.recomputed[:last], starts)
    return Stack(stack.layers[:, largest], stack.total[largest], again)


def line_in_columns(
    heights: NDArray[np.float64], starts: NDArray[np.int64], last: int
) -> NDArray[np.float64]:
    """The highest of ``heights`` in each column."""
    return np.asarray(np.maximum.reduceat(heights[:last], starts), np.float64)


def tops_of(heights: NDArray[np.float64], starts: NDArray[np.int64], last: int) -> NDArray[np.int64]:
    """The first of the highest places of each column."""
    first = int(starts[0])
    part = heights[first:last]
    column = np.repeat(np.arange(len(starts)), np.diff(starts, append=last))
    tops = np.flatnonzero(part == np.maximum.reduceat(part, starts - first)[column])
    return np.asarray(first + tops[np.searchsorted(column[tops], np.arange(len(starts)))], np.int64)


def even_starts(count: int, most: int) -> NDArray[np.int64]:
    """Where at most ``most`` columns of ``count`` steps begin."""
    return np.arange(min(most, count)) * count // min(most, count)


def repeats_and_first(
    layout: GraphLayout, shown: ListedSchedule
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """For each box: the executions of its ops beyond each op's first, and the step in which its first op
    runs."""
    boxes, count = np.asarray(layout.box_of), len(layout.boxes)
    steps = shown.schedule.steps
    repeats = np.bincount(steps, minlength=shown.graph.n) - 1
    first = np.full(count, len(steps), np.int64)
    np.minimum.at(first, boxes[steps], np.arange(len(steps)))
    return _sum_per_box(boxes, repeats, count), first


def live_bytes(layout: GraphLayout, shown: ListedSchedule, step: int) -> NDArray[np.float64]:
    """The live bytes in ``step`` by box: values that its ops wrote, and the workspace of the running op.
    Where that op writes over an input, the bytes count in the input's box only. With the fixed bytes, the sum
    is all that is live."""
    timeline, graph = shown.timeline, shown.graph
    step = min(step, len(timeline.live_bytes) - 1)
    alive = (timeline.buffer_born <= step) & (step <= timeline.buffer_last)
    boxes = np.asarray(layout.box_of)
    makers = graph.producer[timeline.buffer_value[alive]]
    live = _sum_per_box(boxes[makers], timeline.buffer_bytes[alive], len(layout.boxes))
    running = shown.schedule.steps[step]
    live[boxes[running]] += graph.workspace_bytes[running] - timeline.taken_over[step]
    return live


def locked_shares(layout: GraphLayout, locked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The share of each box's ops that constraints lock."""
    boxes, count = np.asarray(layout.box_of), len(layout.boxes)
    ops = np.bincount(boxes, minlength=count)
    return _sum_per_box(boxes, locked, count) / np.maximum(1, ops)


def _sum_per_box(boxes: NDArray[np.intp], weights: NDArray[np.generic], count: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(boxes, weights.astype(np.float64), count), np.float64)


def largest_op(graph: Graph, box: Box) -> int:
    """The op in the box that writes most bytes."""
    return max(box.ops, key=lambda op: sum(graph.values[v].bytes for v in graph.ops[op].outputs))
