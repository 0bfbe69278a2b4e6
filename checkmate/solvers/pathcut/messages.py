"""The messages between a prover and its process.

``job``: the number of the budget's proof that a message belongs to. ``steps``: a schedule's op indices in
order, int32.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ipc.messages import Message, MessageTable, NewestJob
from checkmate.ipc.steps import CarriesSteps


@dataclass(frozen=True)
class PickledGraph(Message):
    """The graph of all that follows.

    Pickled between two processes of this program on one machine only; files never are.
    """

    graph: bytes


@dataclass(frozen=True)
class Prove(NewestJob):
    """Prove a bound for a budget.

    ``rounds``: programs to solve at most; None: as many as there is time for.
    """

    budget_bytes: int
    seconds: float
    rounds: int | None
    workers: int


@dataclass(frozen=True)
class FittingSchedule(CarriesSteps, Message):
    """A schedule within the job's budget."""

    job: int
    steps: bytes


@dataclass(frozen=True)
class ProofBegun(Message):
    """The process works on this job now."""

    job: int


@dataclass(frozen=True)
class ProvedBound(Message):
    """A bound on the cost, infinite where no schedule exists.

    ``cuts``, ``programs``: how many were made and solved so far.
    """

    job: int
    bound: float
    cuts: int
    programs: int


@dataclass(frozen=True)
class DescribedSchedule(CarriesSteps, Message):
    """A schedule that a solved program describes; it may not fit the budget."""

    job: int
    steps: bytes


@dataclass(frozen=True)
class ProofEnded(Message):
    """The process has left this job; ``error``: a sentence, or empty."""

    job: int
    error: str
    cuts: int
    programs: int


PROVER_MESSAGES = MessageTable(
    PickledGraph, Prove, FittingSchedule, ProofBegun, ProvedBound, DescribedSchedule, ProofEnded
)
