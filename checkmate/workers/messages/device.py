"""Messages between the window and the process that loads models.

It profiles a model, and exports a schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.ipc.messages import Message
from checkmate.progress import Progress
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from checkmate.units import Budget

# From the window.


@dataclass(frozen=True)
class Profile(Message):
    """Load a model, trace its training step and get its costs. ``costs``: ``measured`` or ``analytic``."""

    job: int
    request: ModelRequest
    costs: str


@dataclass(frozen=True)
class Export(Message):
    """Write a schedule as a training graph, verify it and measure it.

    ``budget``: what the device's allocator may show; a share is of the plain step's peak there.
    ``constraints``: kept by a schedule that takes the place of one over the budget; None: there are none.
    ``graph_and_schedule``: JSON of ``{"graph": …, "schedule": …}``, each as in its own file; the graph holds
    the request that it was made from.
    """

    job: int
    directory: Path
    budget: Budget
    constraints: Constraints | None
    graph_and_schedule: bytes


# From the device process.


@dataclass(frozen=True)
class DeviceProgress(Message):
    """How far a profile or an export is."""

    job: int
    progress: Progress


@dataclass(frozen=True)
class EstimatedGraph(Message):
    """A graph with estimated costs; a ``ProfiledGraph`` follows."""

    job: int
    graph: bytes


@dataclass(frozen=True)
class ProfiledGraph(Message):
    """The graph that a ``Profile`` asked for; the job has ended."""

    job: int
    graph: bytes


@dataclass(frozen=True)
class Exported(Message):
    """An ``Export`` has ended.

    ``report``: as in a report file. ``schedule``: JSON of the schedule that was written.

    If the measured peak of the schedule that was asked for was over the budget, another one was written.
    """

    job: int
    report: Mapping[str, Any]
    schedule: bytes


@dataclass(frozen=True)
class DeviceCancelled(Message):
    """The job ended because the window cancelled it."""

    job: int


@dataclass(frozen=True)
class DeviceFailed(Message):
    """The job failed: a sentence for the user, and what can be done."""

    job: int
    message: str
    hint: str


@dataclass(frozen=True)
class StepChanged(Message):
    """The job failed: the model's step is not the one that was profiled. Profiling it again helps."""

    job: int
    message: str
    hint: str
