"""What the slider asks for, and how the solve for it stands; no Qt."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from app.state.knowledge import WhatIf

LONGER_SECONDS = 60.0  # the time that "Solve longer" gives a solve


@dataclass(frozen=True)
class Aim:
    """The aim of least memory at a limited extra cost.

    The cost is at most ``1 + max_overhead`` times computing everything once; infinite means any cost.
    """

    max_overhead: float

    @property
    def limited(self) -> bool:
        """Return whether the cost is limited."""
        return math.isfinite(self.max_overhead)

    @property
    def words(self) -> str:
        """Return the limit in words, such as ``at most +5 %``.

        The sentence around it begins with the least memory.
        """
        return f"at most +{100 * self.max_overhead:.3g} %" if self.limited else "at any cost"


@dataclass(frozen=True)
class Asked:
    """Where the slider stands: on a budget, or on an aim's result.

    The budget is in bytes. With an aim, the slider stands on what the aim leads to, and the budget means
    nothing.
    """

    budget_bytes: int = 0
    aim: Aim | None = None

    @property
    def words(self) -> str:
        """Return the words for the undo menu."""
        return "Move the budget" if self.aim is None else f"Least memory {self.aim.words}"


@dataclass
class Solve:
    """A solve that runs or has ended, as the solving panel shows it.

    ``best`` lists (seconds, the best so far), and ``bounds`` lists (seconds, proved bound). They are costs in
    the graph's unit or, with an ``aim``, peaks in bytes. Known at the end: ``assumptions`` of the bound;
    ``tightest_op``, the index of an op that needs too much by itself; ``probes``, how many budgets were tried
    for an aim.
    """

    job: int
    budget_bytes: int
    started: float
    what_if: WhatIf
    aim: Aim | None = None
    status: str = "solving"
    message: str = ""
    lower_bound: float | None = None
    seconds: float | None = None
    best: list[tuple[float, float]] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)
    assumptions: tuple[str, ...] = ()
    tightest_op: int | None = None
    probes: int = 0

    @property
    def running(self) -> bool:
        """Return whether it still runs."""
        return self.status == "solving"

    @property
    def gap(self) -> float | None:
        """Return the gap (best - bound) / best; None if either is unknown."""
        if not self.best or self.lower_bound is None:
            return None
        best = self.best[-1][1]
        return max(0.0, (best - self.lower_bound) / best) if best > 0 else 0.0

    def learn(self, best: float, bound: float) -> bool:
        """Take over what became known elsewhere; return whether it was new.

        This is possible even after the end of the solve.
        """
        at = self.seconds if self.seconds is not None else time.monotonic() - self.started
        news = (not self.best or best < self.best[-1][1]) or bound > (self.lower_bound or 0.0)
        self.found(at, best)
        if bound > (self.lower_bound or 0.0):
            self.proved(at, bound)
        if (
            self.status in ("feasible", "cancelled")
            and self.best
            and (self.lower_bound or 0.0) >= self.best[-1][1]
        ):
            self.status = "optimal"
        return news

    def found(self, seconds: float, value: float) -> None:
        """Take ``value`` as the best so far, if it is better."""
        if not self.best or value < self.best[-1][1]:
            self.best.append((seconds, value))

    def proved(self, seconds: float, value: float) -> None:
        """Take ``value`` as the bound, unless a better one is proved already."""
        self.lower_bound = max(value, self.lower_bound or 0.0)
        self.bounds.append((seconds, self.lower_bound))
