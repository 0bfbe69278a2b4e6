"""A step sequence as a schedule: what its replay says of it, by other code than the kernels'."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import ScheduleError
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.ir.timeline import Timeline
from checkmate.memory.simulate import simulate

Steps = NDArray[np.int32]


class Found(NamedTuple):
    """A schedule and its cost, infinite where it is over the budget."""

    cost: float
    steps: Steps


def found_by(graph: Graph, steps: Steps, budget_bytes: int) -> Found | None:
    """``steps`` with their cost; None where they are no schedule of ``graph``."""
    timeline = replayed(graph, steps)
    if timeline is None:
        return None
    return Found(timeline.cost if timeline.peak_bytes <= budget_bytes else math.inf, steps)


def replayed(graph: Graph, steps: Steps) -> Timeline | None:
    """The replay of ``steps``; None where they are no schedule of ``graph``."""
    runs = np.bincount(steps, minlength=graph.n)
    if len(runs) > graph.n or not runs.all() or (runs[~graph.recomputable] > 1).any():
        return None
    try:
        return simulate(graph, Schedule.of(graph, steps))
    except ScheduleError:
        return None  # something is read before it is produced
