"""The numbers of the memory curve: live bytes per step.

The bytes are split by what holds them. No Qt here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.ir.timeline import Timeline

KINDS = ("fixed", "activations", "gradients", "workspace")


@dataclass(frozen=True, eq=False)
class Stack:
    """The layers of the memory curve.

    ``layers[k]`` are the bytes of ``KINDS[k]``, float64[steps]. ``total`` is their sum, the live bytes.
    """

    layers: NDArray[np.float64]
    total: NDArray[np.float64]
    recomputed: NDArray[np.bool_]


def memory_stack(graph: Graph, schedule: Schedule, timeline: Timeline) -> Stack:
    """Return the curve's layers.

    A buffer counts as an activation or a gradient by the phase of the op that wrote it.
    """
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


def thinned(stack: Stack, most: int) -> tuple[NDArray[np.float64], Stack]:
    """Return at most ``most`` columns of the curve.

    The first result is the columns' first steps, and one past the last step. The second is what the columns
    hold. A column holds what its step with the most live bytes holds, so that no peak is lost. It is marked
    as recomputed if any of its steps is.
    """
    starts = _even_starts(len(stack.total), most)
    edges = np.append(starts, len(stack.total)).astype(np.float64)
    return edges, in_columns(stack, starts, len(stack.total))


def in_columns(stack: Stack, starts: NDArray[np.int64], last: int) -> Stack:
    """Return what columns of the curve hold, as ``thinned`` does.

    ``starts`` are their first steps; the last of them ends before step ``last``.
    """
    largest = tops_of(stack.total, starts, last)
    again = np.maximum.reduceat(stack.recomputed[:last], starts)
    return Stack(stack.layers[:, largest], stack.total[largest], again)


def line_in_columns(
    heights: NDArray[np.float64], starts: NDArray[np.int64], last: int
) -> NDArray[np.float64]:
    """Return the highest of ``heights`` in each column."""
    return np.asarray(np.maximum.reduceat(heights[:last], starts), np.float64)


def highest(heights: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return at most ``most`` places of a line: the highest of each stretch."""
    return tops_of(heights, _even_starts(len(heights), most), len(heights))


def tops_of(heights: NDArray[np.float64], starts: NDArray[np.int64], last: int) -> NDArray[np.int64]:
    """Return the first of the highest places of each column."""
    first = int(starts[0])
    part = heights[first:last]
    column = np.repeat(np.arange(len(starts)), np.diff(starts, append=last))
    tops = np.flatnonzero(part == np.maximum.reduceat(part, starts - first)[column])
    return np.asarray(first + tops[np.searchsorted(column[tops], np.arange(len(starts)))], np.int64)


def _even_starts(count: int, most: int) -> NDArray[np.int64]:
    return np.arange(min(most, count)) * count // min(most, count)
