"""Every message between the window and its six processes, a class each.

All of them are in the table at the end.

The window asks, a process answers. A question from the slider goes to the solver as ``SolveBudget`` (or
``FindLeastMemory``); ``Incumbent`` and ``CostBound`` (or ``SmallerSchedule`` and ``MemoryBound``) come back
while it works, and ``SolveEnded`` (or ``LeastMemoryEnded``) at the end. How messages become bytes:
``checkmate.ipc.messages``.

``job``: the number that the window gave the work a message belongs to. ``question``: the number that the
window gave a graph with its constraints. ``steps``: a schedule's op indices in order, int32 (``pack_steps``,
``unpack_steps``). ``graph``: a graph file's JSON. Budgets and peaks are in bytes, fixed bytes included; costs
and their bounds are in the graph's unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ipc.messages import Message, MessageTable, NewestJob
from checkmate.ir.report import CheckReport
from checkmate.ir.result import SolveStatus
from checkmate.progress import FillState, Progress
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from checkmate.units import Budget


def pack_steps(steps: Sequence[int] | NDArray[np.integer]) -> bytes:
    """Return a schedule's op indices as the body of a message."""
    return np.asarray(steps, np.int32).tobytes()


def unpack_steps(body: bytes) -> NDArray[np.int32]:
    """Return the op indices that ``pack_steps`` packed.

    The array is read-only; nothing is copied.
    """
    return np.frombuffer(body, np.int32)


# From the window to the device process.


@dataclass(frozen=True)
class Profile(Message):
    """Load a model, trace its training step and get its costs.

    ``costs``: ``measured`` or ``analytic``.
    """

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


# From the device process to the window.


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
    """The job failed: the model's step is not the one that was profiled.

    Profiling it again helps.
    """

    job: int
    message: str
    hint: str


# From the window to the solver process.


@dataclass(frozen=True)
class OpenQuestion(Message):
    """Explore a graph under constraints from now on.

    ``workers``: the most threads or processes to use.
    """

    question: int
    name: str
    workers: int
    constraints: Constraints
    graph: bytes


@dataclass(frozen=True)
class KnownSchedule(Message):
    """A schedule of the graph that the window knows.

    It is adapted where it breaks the constraints.
    """

    solver: str
    steps: bytes


@dataclass(frozen=True)
class KnownBound(Message):
    """A bound that the window knows: no schedule within the budget costs less.

    Infinite: no schedule fits the budget.
    """

    budget_bytes: int
    lower_bound: float


@dataclass(frozen=True)
class FillFrontier(Message):
    """Solve other budgets while nothing is asked, or do not.

    Switched on, it has its whole time again.
    """

    on: bool


@dataclass(frozen=True)
class SolveBudget(NewestJob):
    """Find the cheapest schedule within a budget."""

    budget_bytes: int
    time_limit_s: float


@dataclass(frozen=True)
class FindLeastMemory(NewestJob):
    """Find the smallest peak within a cost.

    The cost is at most ``1 + max_overhead`` times that of computing everything once; None: at any cost.
    """

    max_overhead: float | None
    time_limit_s: float


# From the solver process to the window.


@dataclass(frozen=True)
class Preparing(Message):
    """The search is being compiled, once for a machine: how far it is."""

    sentence: str


@dataclass(frozen=True)
class Prepared(Message):
    """The search is compiled: how long it took, in words."""

    sentence: str


@dataclass(frozen=True)
class MemoryNeeded(Message):
    """No schedule of the question has a smaller peak."""

    question: int
    bound_bytes: int


@dataclass(frozen=True)
class FoundSchedule(Message):
    """A schedule for a question.

    ``budget_bytes``: what it was made for.
    """

    question: int
    budget_bytes: int
    solver: str
    solve_seconds: float
    steps: bytes


@dataclass(frozen=True)
class FrontierSchedule(FoundSchedule):
    """A schedule that is new on the question's frontier."""


@dataclass(frozen=True)
class BaselineSchedule(FoundSchedule):
    """A published method's schedule; known ones may beat it."""


@dataclass(frozen=True)
class Filling(Message):
    """The work on other budgets has begun, or it has stopped by itself."""

    question: int
    state: FillState


@dataclass(frozen=True)
class FrontierBound(Message):
    """A bound that is new on the question's frontier.

    Infinite: no schedule fits the budget.
    """

    question: int
    budget_bytes: int
    lower_bound: float


@dataclass(frozen=True)
class Incumbent(Message):
    """The best schedule within the budget so far."""

    job: int
    cost: float
    steps: bytes


@dataclass(frozen=True)
class CostBound(Message):
    """No schedule within the budget costs less, under the assumptions."""

    job: int
    lower_bound: float
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class SmallerSchedule(Message):
    """The schedule with the smallest peak within the cost so far."""

    job: int
    peak_bytes: int
    cost: float
    steps: bytes


@dataclass(frozen=True)
class MemoryBound(Message):
    """No schedule within the cost has a smaller peak, in any order."""

    job: int
    lower_bound_bytes: int


@dataclass(frozen=True)
class SolveEnded(Message):
    """How a ``SolveBudget`` ended; the fields are those of ``SolveResult``.

    ``steps``: empty where there is no schedule.
    """

    job: int
    status: SolveStatus
    solver: str
    budget_bytes: int
    cost: float | None
    lower_bound: float | None
    solve_seconds: float
    assumptions: tuple[str, ...]
    message: str
    statistics: Mapping[str, Any]
    steps: bytes


@dataclass(frozen=True)
class LeastMemoryEnded(Message):
    """How a ``FindLeastMemory`` ended.

    ``status``: optimal where it is proved that no schedule needs less.

    ``probes``: how many budgets were tried.
    """

    job: int
    status: SolveStatus
    solver: str
    peak_bytes: int
    lower_bound_bytes: int
    solve_seconds: float
    assumptions: tuple[str, ...]
    message: str
    probes: int
    steps: bytes


@dataclass(frozen=True)
class SolveSkipped(Message):
    """A ``SolveBudget`` or a ``FindLeastMemory`` was not begun.

    It was cancelled before, or a newer one had come.
    """

    job: int


@dataclass(frozen=True)
class SolverFailed(Message):
    """What was asked failed: a sentence for the user, and what can be done."""

    message: str
    hint: str


# From the window to the checker process.


@dataclass(frozen=True)
class GraphToCheck(Message):
    """The graph of all later questions.

    Questions about an earlier graph are forgotten.
    """

    name: str
    graph: bytes


@dataclass(frozen=True)
class ConstraintsToCheck(Message):
    """A question: the constraints that go with the graph."""

    question: int
    constraints: Constraints


@dataclass(frozen=True)
class CheckSchedule(Message):
    """Replay a schedule of the graph.

    It is replayed under the question's constraints, and without them.
    """

    ticket: int
    question: int
    steps: bytes


# From the checker process to the window.


@dataclass(frozen=True)
class Checked(Message):
    """What the replay found.

    ``limited``: under the question's constraints; ``plain``: without them.
    """

    ticket: int
    limited: CheckReport
    plain: CheckReport


# From the window to the placing process, after a GraphToCheck.


@dataclass(frozen=True)
class PlaceSchedule(NewestJob):
    """Say where the buffers of a schedule of the graph lie in memory."""

    steps: bytes


# From the placing process to the window.


@dataclass(frozen=True)
class PlacingProgress(Message):
    """How much of the work is done, from 0 to 1."""

    job: int
    share: float


@dataclass(frozen=True)
class Placed(Message):
    """Where the buffers lie, as ``Placement.to_bytes`` says it."""

    job: int
    placement: bytes


# From the window to the process that searches for the largest batch.


@dataclass(frozen=True)
class FindLargestBatch(NewestJob):
    """Find the largest batch whose step fits, by scaling the graph.

    ``max_overhead``: the extra cost allowed, as a share of computing everything once; None: one forward pass;
    infinite: any. ``workers``: the most threads or processes to use.
    """

    name: str
    budget_bytes: int
    max_overhead: float | None
    time_limit_s: float
    workers: int
    graph: bytes


# From that process to the window.


@dataclass(frozen=True)
class LargestBatchProgress(Message):
    """What the search does, or what it has found so far."""

    job: int
    sentence: str


@dataclass(frozen=True)
class LargestBatchFound(Message):
    """The largest batch that was found; all of it is of scaled graphs.

    ``peak_bytes``: predicted. ``upper_batch``: no larger one fits, which is proved. ``plain_batch``: without
    recomputation; 0: none. ``baselines``: by solver, the largest found for it. ``choices``: pairs of a batch
    and the extra cost that it takes, a share of computing everything once; both rise. ``cancelled``: the
    search was stopped. ``note``: what was taken to grow. ``graph_and_schedule``: JSON of
    ``{"graph": …, "schedule": …}`` at that batch, each as in its own file.
    """

    job: int
    batch: int
    peak_bytes: int
    upper_batch: int
    plain_batch: int
    baselines: Mapping[str, Any]
    choices: tuple[tuple[int, float], ...]
    cancelled: bool
    note: str
    graph_and_schedule: bytes


@dataclass(frozen=True)
class LargestBatchFailed(Message):
    """No batch was found: a sentence for the user, and what can be done.

    ``proved``: there is none.
    """

    job: int
    message: str
    hint: str
    proved: bool


# From the window to the process that certifies.


@dataclass(frozen=True)
class Certify(NewestJob):
    """Prove a bound for a budget, and write the certificate.

    It says that no schedule costs less, or that none fits. ``known_cost``: of a schedule within the budget.
    """

    name: str
    budget_bytes: int
    known_cost: float
    seconds: float
    path: Path
    graph: bytes


# From that process to the window.


@dataclass(frozen=True)
class CertifyProgress(Message):
    """What is done for the certificate."""

    job: int
    sentence: str


@dataclass(frozen=True)
class Certified(Message):
    """The certificate is written.

    ``cost``: no schedule costs less; None: none fits.
    """

    job: int
    cost: float | None
    cases: int


@dataclass(frozen=True)
class CertifyFailed(Message):
    """Nothing was written: a sentence for the user, and what can be done."""

    job: int
    message: str
    hint: str


# From the window to the animation process.


@dataclass(frozen=True)
class BeginAnimation(Message):
    """Make an animated picture of the frames that follow.

    ``samples`` messages ``AnimationSample`` come first, then an ``AnimationFrame`` for each of
    ``milliseconds``.

    ``milliseconds``: how long each frame is shown. ``colors``: red, green and blue of those that must be
    exact.
    """

    path: Path
    width: int
    height: int
    milliseconds: tuple[int, ...]
    colors: tuple[tuple[int, int, int], ...]
    samples: int


@dataclass(frozen=True)
class AnimationSample(Message):
    """A frame that the colours are chosen from.

    RGB, 8 bit, rows without padding.
    """

    pixels: bytes


@dataclass(frozen=True)
class AnimationFrame(Message):
    """The next frame: RGB, 8 bit, rows without padding."""

    pixels: bytes


# From the animation process to the window.


@dataclass(frozen=True)
class FrameTaken(Message):
    """``frames`` frames have been taken in; the window may send the next."""

    frames: int


@dataclass(frozen=True)
class AnimationSaved(Message):
    """The file is written; the message has its size in bytes."""

    size_bytes: int


@dataclass(frozen=True)
class AnimationFailed(Message):
    """Nothing was written: a sentence for the user, and what can be done."""

    message: str
    hint: str


WINDOW_MESSAGES = MessageTable(
    Profile,
    Export,
    DeviceProgress,
    EstimatedGraph,
    ProfiledGraph,
    Exported,
    DeviceCancelled,
    DeviceFailed,
    StepChanged,
    OpenQuestion,
    KnownSchedule,
    KnownBound,
    FillFrontier,
    SolveBudget,
    FindLeastMemory,
    Preparing,
    Prepared,
    MemoryNeeded,
    FrontierSchedule,
    BaselineSchedule,
    Filling,
    FrontierBound,
    Incumbent,
    CostBound,
    SmallerSchedule,
    MemoryBound,
    SolveEnded,
    LeastMemoryEnded,
    SolveSkipped,
    SolverFailed,
    GraphToCheck,
    ConstraintsToCheck,
    CheckSchedule,
    Checked,
    PlaceSchedule,
    PlacingProgress,
    Placed,
    FindLargestBatch,
    LargestBatchProgress,
    LargestBatchFound,
    LargestBatchFailed,
    Certify,
    CertifyProgress,
    Certified,
    CertifyFailed,
    BeginAnimation,
    AnimationSample,
    AnimationFrame,
    FrameTaken,
    AnimationSaved,
    AnimationFailed,
)
