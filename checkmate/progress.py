from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from checkmate.errors import CancelledError


@dataclass(frozen=True)
class Progress:
    """One report of a stage: ``done`` of ``total`` units (None: not known), and what is happening."""

    stage: str
    done: float = 0.0
    total: float | None = None
    message: str = ""


Report = Callable[[Progress], None]
Cancelled = Callable[[], bool]


def silent(progress: Progress) -> None:
    pass


def never() -> bool:
    return False


class FillState(StrEnum):
    """How the work on other budgets stands, while nothing is asked."""

    WORKING = "working"
    DONE = "done"  # there is nothing left to do
    RESTING = "resting"  # its time is up


def stop_if(cancelled: Cancelled) -> None:
    if cancelled():
        raise CancelledError("cancelled")
