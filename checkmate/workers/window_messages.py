"""Every message between the window and its processes, a class each: what the window asks, and the answers.

``question``: the number that the window gave a graph with its constraints. ``graph``: a graph file's JSON;
``graph_and_schedule``: JSON of ``{"graph": …, "schedule": …}``, each as in its own file. Budgets and peaks
are in bytes, fixed bytes included; costs and their bounds are in the graph's unit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkmate.formats.graph import graph_from_json, graph_to_json
from checkmate.formats.schedule import result_from_json, result_to_json
from checkmate.ir import CheckReport, Graph, SolveResult, SolveStatus
from checkmate.processes.messages import CarriesSteps, Job, Message, MessageTable, NewestJob
from checkmate.progress import FillState
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from checkmate.units import Budget

# The solver. A question from the slider goes out as ``SolveBudget`` or ``FindLeastMemory``; ``Incumbent`` and
# ``SolveBound`` come back while it works, and ``SolveEnded`` at the end.


class OpenQuestion(Message):
    """Explore a graph under constraints from now on. ``workers``: the most threads or processes to use."""

    question: int
    workers: int
    constraints: Constraints
    graph: bytes


class KnownSchedule(CarriesSteps, Message):
    """A schedule of the graph that the window knows. It is adapted where it breaks the constraints."""

    solver: str
    steps: bytes


class KnownBound(Message):
    """A bound that the window knows: no schedule within the budget costs less; infinite: none fits."""

    budget_bytes: int
    lower_bound: float


class FillFrontier(Message):
    """Solve other budgets while nothing is asked, or do not. Switched on, it has its whole time again."""

    on: bool


class SolveBudget(NewestJob):
    """Find the cheapest schedule within a budget."""

    budget_bytes: int
    time_limit_s: float


class FindLeastMemory(NewestJob):
    """Find the smallest peak at a cost of ``1 + max_overhead`` times computing everything once; None: any."""

    max_overhead: float | None
    time_limit_s: float


class Preparing(Message):
    """The search is being compiled, once for a machine: how far it is, or how long it took when ``done``."""

    sentence: str
    done: bool


class MemoryNeeded(Message):
    """No schedule of the question has a smaller peak."""

    question: int
    bound_bytes: int


class FrontierSchedule(CarriesSteps, Message):
    """A schedule that is new on the frontier. ``baseline``: a published method's; known ones may beat it."""

    question: int
    budget_bytes: int
    solver: str
    solve_seconds: float
    baseline: bool
    steps: bytes


class FrontierBound(Message):
    """A bound that is new on the question's frontier. Infinite: no schedule fits the budget."""

    question: int
    budget_bytes: int
    lower_bound: float


class Filling(Message):
    """The work on other budgets has begun, or it has stopped by itself."""

    question: int
    state: FillState


class Incumbent(CarriesSteps, Message):
    """The best schedule so far. ``budget_bytes``: what it was made for, or the smallest peak so far."""

    job: int
    budget_bytes: int
    steps: bytes


class SolveBound(Message):
    """No schedule within the budget costs less, or none within the cost has a smaller peak."""

    job: int
    bound: float
    assumptions: tuple[str, ...]


class SolveEnded(CarriesSteps, Message):
    """How a ``SolveBudget`` or a ``FindLeastMemory`` ended.

    ``budget_bytes``: what was asked, or the smallest peak. ``bound``: on the cost, or on the peak.
    ``statistics``: of the solver; ``probes``: how many budgets were tried. ``steps``: empty where there is no
    schedule.
    """

    job: int
    status: SolveStatus
    solver: str
    budget_bytes: int
    bound: float | None
    solve_seconds: float
    assumptions: tuple[str, ...]
    message: str
    statistics: Mapping[str, Any]
    steps: bytes


# Replays: the checker and the placer.


class GraphToReplay(Message):
    """The graph of all later questions. Questions about an earlier graph are forgotten."""

    graph: bytes


class ConstraintsToCheck(Message):
    """A question: the constraints that go with the graph."""

    question: int
    constraints: Constraints


class CheckSchedule(CarriesSteps, Job):
    """Replay a schedule of the graph under the question's constraints, and without them."""

    question: int
    steps: bytes


class Checked(Message):
    """What the replay found. ``limited``: under the question's constraints; ``plain``: without them."""

    job: int
    limited: CheckReport
    plain: CheckReport


class PlaceSchedule(CarriesSteps, NewestJob):
    """Say where the buffers of a schedule of the graph lie in memory."""

    steps: bytes


class Placed(Message):
    """Where the buffers lie, as ``Placement.to_bytes`` says it."""

    job: int
    placement: bytes


# Long searches: the largest batch, and certificates.


class FindLargestBatch(NewestJob):
    """``max_overhead``: a share of computing everything once; None: one forward pass; infinite: any."""

    budget_bytes: int
    max_overhead: float | None
    time_limit_s: float
    workers: int
    graph: bytes


class LargestBatchFound(Message):
    """The largest batch that was found; all of it is of scaled graphs.

    ``upper_batch``: no larger one fits, which is proved. ``plain_batch``: without recomputation; 0: none.
    ``baselines``: by solver, the largest found for it. ``choices``: pairs of a batch and its extra cost, a
    share of computing everything once; both rise. ``note``: what was taken to grow.
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


class Certify(NewestJob):
    """Prove and write how little schedules within a budget can cost; ``known_cost``: that of one."""

    budget_bytes: int
    known_cost: float
    seconds: float
    path: Path
    graph: bytes


class CertificateWritten(Message):
    """The certificate is written; the window reads it, and verifies it itself."""

    job: int


# Models: what needs TensorFlow or JAX.


class Profile(Job):
    """Load a model, trace its training step and get its costs. ``costs``: ``measured`` or ``analytic``."""

    request: ModelRequest
    costs: str


class ProfiledGraph(Message):
    """The graph that a ``Profile`` asked for. ``estimated``: its costs are, and the measured ones follow."""

    job: int
    estimated: bool
    graph: bytes


class Export(Job):
    """Write a schedule as a training graph, verify it and measure it.

    ``budget``: what the device's allocator may show; a share is of the plain step's peak there.
    ``constraints``: kept by a schedule that takes the place of one over the budget. The graph holds the
    request it was made from.
    """

    directory: Path
    budget: Budget
    constraints: Constraints | None
    graph_and_schedule: bytes


class Exported(Message):
    """``schedule``: JSON of the one that was written, another one where the measured peak was over the
    budget.
    """

    job: int
    report: Mapping[str, Any]
    schedule: bytes


def pack_solved(graph: Graph, result: SolveResult) -> bytes:
    return json.dumps({"graph": graph_to_json(graph), "schedule": result_to_json(graph, result)}).encode(
        "utf-8"
    )


def unpack_solved(body: bytes) -> tuple[Graph, SolveResult]:
    data = json.loads(body)
    graph = graph_from_json(Path("graph"), data["graph"])
    return graph, result_from_json(Path("schedule"), data["schedule"], graph)


WINDOW_MESSAGES = MessageTable.of(sys.modules[__name__])
