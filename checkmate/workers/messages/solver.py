"""Messages between the window and the solver process.

A question from the slider goes out as ``SolveBudget`` (or ``FindLeastMemory``). ``Incumbent`` and
``CostBound`` (or ``SmallerSchedule`` and ``MemoryBound``) come back while it works, and ``SolveEnded`` (or
``LeastMemoryEnded``) at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkmate.ipc.messages import Message, NewestJob
from checkmate.ipc.steps import CarriesSteps
from checkmate.ir.result import SolveStatus
from checkmate.progress import FillState
from checkmate.solvers.constraints import Constraints

# From the window.


@dataclass(frozen=True)
class OpenQuestion(Message):
    """Explore a graph under constraints from now on. ``workers``: the most threads or processes to use."""

    question: int
    name: str
    workers: int
    constraints: Constraints
    graph: bytes


@dataclass(frozen=True)
class KnownSchedule(CarriesSteps, Message):
    """A schedule of the graph that the window knows. It is adapted where it breaks the constraints."""

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
    """Solve other budgets while nothing is asked, or do not. Switched on, it has its whole time again."""

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


# From the solver process.


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
class FoundSchedule(CarriesSteps, Message):
    """A schedule for a question. ``budget_bytes``: what it was made for."""

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
    """A bound that is new on the question's frontier. Infinite: no schedule fits the budget."""

    question: int
    budget_bytes: int
    lower_bound: float


@dataclass(frozen=True)
class Incumbent(CarriesSteps, Message):
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
class SmallerSchedule(CarriesSteps, Message):
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
class SolveEnded(CarriesSteps, Message):
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
class LeastMemoryEnded(CarriesSteps, Message):
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
