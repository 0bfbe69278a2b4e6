"""Messages between the window and the process that certifies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkmate.ipc.messages import Message, NewestJob

# From the window.


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


# From the process that certifies.


@dataclass(frozen=True)
class CertifyProgress(Message):
    """What is done for the certificate."""

    job: int
    sentence: str


@dataclass(frozen=True)
class CertificateWritten(Message):
    """The certificate is written. ``cost``: no schedule costs less; None: none fits."""

    job: int
    cost: float | None
    cases: int


@dataclass(frozen=True)
class CertifyFailed(Message):
    """Nothing was written: a sentence for the user, and what can be done."""

    job: int
    message: str
    hint: str
