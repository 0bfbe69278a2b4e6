"""The messages between a prover and its process.

``job``: the number of the budget's proof that a message belongs to. ``steps``: a schedule's op indices in
order, int32.
"""

from __future__ import annotations

import sys

from checkmate.processes.messages import CarriesSteps, Message, MessageTable, NewestJob


class PickledGraph(Message):
    """The graph of all that follows.

    Pickled between two processes of this program on one machine only; files never are.
    """

    graph: bytes


class Prove(NewestJob):
    """Prove a bound for a budget.

    ``rounds``: programs to solve at most; None: as many as there is time for.
    """

    budget_bytes: int
    seconds: float
    rounds: int | None
    workers: int


class FittingSchedule(CarriesSteps, Message):
    """A schedule within the job's budget."""

    job: int
    steps: bytes


class ProofBegun(Message):
    """The process works on this job now."""

    job: int


class ProvedBound(Message):
    """A bound on the cost, infinite where no schedule exists.

    ``cuts``, ``programs``: how many were made and solved so far.
    """

    job: int
    bound: float
    cuts: int
    programs: int


class DescribedSchedule(CarriesSteps, Message):
    """A schedule that a solved program describes; it may not fit the budget."""

    job: int
    steps: bytes


class ProofEnded(Message):
    """The process has left this job; ``error``: a sentence, or empty."""

    job: int
    error: str
    cuts: int
    programs: int


PROVER_MESSAGES = MessageTable.of(sys.modules[__name__])
