"""What is decided for a batch layout, and what the user wants.

Here is also how allocated bytes relate to a schedule's. The user's budget counts what the device's allocator
holds; schedules count what ops request.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.progress import Report
from checkmate.tf.devices import has_meter, held_bytes
from checkmate.tf.emit.small_chunks import SmallChunks
from checkmate.tf.training.batch import BatchLayout
from checkmate.tf.training.trace import LiveStep
from checkmate.units import Budget

FIRST_RATE = (
    1.15  # allocated per requested bytes, before anything is measured: 1.02 to 1.17 on the networks tried
)
# The same step's peak varies by a few percent with where the allocator finds room for it.
HEADROOM = 0.97
_READ_AHEAD = 3  # batches that a data set prepares while a step runs, in the same memory

Solve = Callable[[Graph, int, Schedule | None, float | None, Report], SolveResult]


@dataclass(frozen=True)
class PlanRequest:
    """What the user wants, and how it is to be found.

    ``solve`` takes a graph, a budget of requested bytes, a schedule to start from, seconds (None: the user's
    own limit) and where to report progress; it gives a result. ``least`` gives the least requested bytes
    known to be reachable for a graph. ``progress`` shows progress while it is open. ``tell`` writes one line
    per decision.
    """

    budget: Budget
    solve: Solve
    least: Callable[[Graph], int]
    progress: Callable[[], AbstractContextManager[Report]]
    tell: Callable[[str], None]


@dataclass(frozen=True, eq=False)
class StepPlan:
    """How the step of one layout runs.

    It runs by ``schedule``, or as TensorFlow would run it by itself where ``schedule`` is None. ``step`` is
    None where the step has nothing to schedule. ``peak_bytes`` was measured on the allocator; it is 0 where
    the allocator shows nothing. ``small_chunks`` stay as long as the plan does.
    """

    layout: BatchLayout
    step: LiveStep | None
    schedule: Schedule | None
    peak_bytes: int
    sentence: str
    small_chunks: SmallChunks | None = None


def read_ahead(graph: Graph) -> int:
    """Return the bytes that prepared batches may hold beside the step.

    They are batches of a data set.
    """
    return _READ_AHEAD * graph.fixed["inputs"]


def allowing_for(allocated: int, held: int, graph: Graph) -> int:
    """Return the budget in bytes that a step needs beside others.

    The step needs ``allocated`` bytes, the others hold ``held``. Others are other models and data sets on the
    same device.
    """
    return int((allocated + held + read_ahead(graph)) / HEADROOM)


def meter_of(graph: Graph) -> str:
    """Return the name of the device whose allocator counts."""
    return "GPU:0" if graph.device is not None and graph.device.kind == "gpu" else "CPU:0"


def held_by_others(graph: Graph) -> int:
    """Return the bytes in use on the device that are not the step's own.

    A data set in memory, for example, or another model.
    """
    meter = meter_of(graph)
    return max(0, held_bytes(meter) - graph.fixed_bytes) if has_meter(meter) else 0
