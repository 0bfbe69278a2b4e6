"""Messages between the window and the process that places buffers.

A ``GraphToCheck`` of the conversation with the checker comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.ipc.messages import Message, NewestJob
from checkmate.ipc.steps import CarriesSteps

# From the window.


@dataclass(frozen=True)
class PlaceSchedule(CarriesSteps, NewestJob):
    """Say where the buffers of a schedule of the graph lie in memory."""

    steps: bytes


# From the placing process.


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
