"""The messages between greedy as plain Python and its process.

``steps``: a schedule's op indices in order, int32.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ipc.messages import Message, MessageTable, NewestJob
from checkmate.ipc.steps import CarriesSteps
from checkmate.solvers.pathcut.messages import PickledGraph


@dataclass(frozen=True)
class FitBudget(NewestJob):
    """Look for a schedule within the budget."""

    budget_bytes: int


@dataclass(frozen=True)
class Fitted(CarriesSteps, Message):
    """The schedule that was found, and whether it is within the budget."""

    job: int
    budget_bytes: int
    fits: bool
    steps: bytes


PLAIN_GREEDY_MESSAGES = MessageTable(PickledGraph, FitBudget, Fitted)
