"""Messages between the window and the process that checks schedules."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ipc.messages import Message
from checkmate.ipc.steps import CarriesSteps
from checkmate.ir.report import CheckReport
from checkmate.solvers.constraints import Constraints

# From the window.


@dataclass(frozen=True)
class GraphToCheck(Message):
    """The graph of all later questions. Questions about an earlier graph are forgotten."""

    name: str
    graph: bytes


@dataclass(frozen=True)
class ConstraintsToCheck(Message):
    """A question: the constraints that go with the graph."""

    question: int
    constraints: Constraints


@dataclass(frozen=True)
class CheckSchedule(CarriesSteps, Message):
    """Replay a schedule of the graph. It is replayed under the question's constraints, and without them."""

    ticket: int
    question: int
    steps: bytes


# From the checker process.


@dataclass(frozen=True)
class Checked(Message):
    """What the replay found. ``limited``: under the question's constraints; ``plain``: without them."""

    ticket: int
    limited: CheckReport
    plain: CheckReport
