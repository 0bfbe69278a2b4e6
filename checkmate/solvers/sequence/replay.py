"""Replay a step sequence as a schedule.

This is other code than the kernels, so it checks them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from checkmate.errors import ScheduleError
from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.ir.timeline import Timeline
from checkmate.memory.simulate import simulate


class CostedSteps(NamedTuple):
    """A schedule and its cost, which is infinite if it is over the budget."""

    cost: float
    steps: Steps


def with_cost(graph: Graph, steps: Steps, budget_bytes: int) -> CostedSteps | None:
    """Return ``steps`` with their cost; None if they are no valid schedule."""
    timeline = replay(graph, steps)
    if timeline is None:
        return None
    return CostedSteps(timeline.cost if timeline.peak_bytes <= budget_bytes else math.inf, steps)


def replay(graph: Graph, steps: Steps) -> Timeline | None:
    """Return the replay of ``steps``; None if they are no valid schedule."""
    runs = np.bincount(steps, minlength=graph.n)
    if len(runs) > graph.n or not runs.all() or (runs[~graph.recomputable] > 1).any():
        return None
    try:
        return simulate(graph, Schedule.of(graph, steps))
    except ScheduleError:
        return None  # a value is read before it is produced
