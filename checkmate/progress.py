"""Progress and cancellation, as every long stage reports and honours them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkmate.errors import CancelledError


@dataclass(frozen=True)
class Progress:
    """One report: ``done`` of ``total`` units of ``stage`` (total None: unknown), and what is happening in words."""

    stage: str
    done: float = 0.0
    total: float | None = None
    message: str = ""


Report = Callable[[Progress], None]
Cancelled = Callable[[], bool]


def silent(progress: Progress) -> None:
    """Report nothing."""


def never() -> bool:
    """Never cancelled."""
    return False


def stop_if(cancelled: Cancelled) -> None:
    """Raise if the user has cancelled.

    Raises:
        CancelledError: they have.
    """
    if cancelled():
        raise CancelledError("cancelled")
