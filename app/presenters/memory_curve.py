"""Live bytes per step, split by what holds them; numbers to draw, no Qt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph, Phase
from checkmate.ir.schedule import Schedule
from checkmate.ir.timeline import Timeline

KINDS = ("fixed", "activations", "gradients", "workspace")


@dataclass(frozen=True, eq=False)
class Stack:
    """``layers[k]``: float64[steps], bytes of ``KINDS[k]``; ``total``: their sum, the live bytes."""

    layers: NDArray[np.float64]
    total: NDArray[np.float64]
    recomputed: NDArray[np.bool_]


def memory_stack(graph: Graph, schedule: Schedule, timeline: Timeline) -> Stack:
    """The curve's layers: a buffer counts as an activation or a gradient by the phase of the op that wrote it."""
    steps = schedule.steps
    backward = np.array([op.phase in (Phase.BACKWARD, Phase.UPDATE) for op in graph.ops])
    owner_backward = backward[graph.producer[timeline.buffer_value]]
    layers = np.zeros((4, len(steps)))
    layers[0] = timeline.fixed_bytes
    for kind, mask in ((1, ~owner_backward), (2, owner_backward)):
        change = np.zeros(len(steps) + 2)
        np.add.at(change, timeline.buffer_born[mask], timeline.buffer_bytes[mask])
        np.subtract.at(change, np.minimum(timeline.buffer_last[mask], len(steps)) + 1, timeline.buffer_bytes[mask])
        layers[kind] = np.cumsum(change)[: len(steps)]
    layers[3] = graph.workspace_bytes[steps]
    # An output written over an input shares its buffer; what was counted twice comes off the gradients first.
    twice = layers.sum(axis=0) - timeline.live_bytes
    gradients = np.minimum(layers[2], twice)
    layers[2] -= gradients
    layers[1] -= twice - gradients
    return Stack(layers, timeline.live_bytes.astype(np.float64), ~schedule.first_occurrence)
