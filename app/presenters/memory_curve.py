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
    starts, largest = _columns(stack.total, most)
    again = np.maximum.reduceat(stack.recomputed, starts)
    edges = np.append(starts, len(stack.total)).astype(np.float64)
    return edges, Stack(stack.layers[:, largest], stack.total[largest], again)


def thinned_line(heights: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the highest of ``heights`` in each column of ``thinned``.

    ``edges`` are the columns' first steps, as ``thinned`` returns them.
    """
    return np.asarray(np.maximum.reduceat(heights, edges[:-1].astype(np.int64)), np.float64)


def highest(heights: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return at most ``most`` places of a line: the highest of each stretch."""
    return _columns(heights, most)[1]


def _columns(heights: NDArray[np.float64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (where each stretch begins, its highest place).

    There are at most ``most`` stretches.
    """
    count = len(heights)
    starts = np.arange(min(most, count)) * count // min(most, count)
    stretch = np.repeat(np.arange(len(starts)), np.diff(starts, append=count))
    tops = np.flatnonzero(heights == np.maximum.reduceat(heights, starts)[stretch])
    return starts, tops[np.searchsorted(stretch[tops], np.arange(len(starts)))]
