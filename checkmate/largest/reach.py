"""What memory known schedules take at other batches.

Each step's live bytes grow by the same bytes for each example, but for rounding: two batches say what it is
at all others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Schedule
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate


@dataclass(frozen=True, eq=False)
class MemoryAtBatches:
    """The live bytes of a schedule's steps: ``fixed``, and ``grown`` for each example; float64[steps]."""

    fixed: NDArray[np.float64]
    grown: NDArray[np.float64]

    @classmethod
    def of(cls, scaling: BatchScaling, steps: Iterable[int]) -> MemoryAtBatches:
        plan, batch = list(steps), scaling.batch
        graphs = scaling.at(batch), scaling.at(2 * batch)
        one, two = (simulate(graph, Schedule.of(graph, plan)).live_bytes for graph in graphs)
        return cls(np.asarray(2 * one - two, np.float64), np.asarray((two - one) / batch, np.float64))

    def peak(self, batch: int) -> int:
        return max(0, round(float((self.fixed + batch * self.grown).max())))

    def largest(self, budget_bytes: int, most: int) -> int:
        """Return the largest batch up to ``most`` whose peak is within the budget; 0 if none is."""
        return bisect_right(range(1, most + 1), budget_bytes, key=self.peak)


@dataclass(frozen=True, eq=False)
class Reach:
    """The memory of known schedules at any batch up to ``most``; ``plain`` keeps everything. ``batch``: the
    one that it is extrapolated from."""

    batch: int
    plain: MemoryAtBatches
    others: tuple[MemoryAtBatches, ...]
    most: int

    @classmethod
    def of(cls, scaling: BatchScaling, plans: Iterable[Iterable[int]]) -> Reach:
        plain = MemoryAtBatches.of(scaling, range(scaling.graph.n))
        others = tuple(MemoryAtBatches.of(scaling, steps) for steps in plans)
        return cls(scaling.batch, plain, others, scaling.largest())

    def kept(self, budget_bytes: int) -> int:
        """The largest batch at which the budget holds everything."""
        return self.plain.largest(budget_bytes, self.most)

    def fits(self, budget_bytes: int) -> int:
        """The largest batch at which a known schedule keeps to the budget."""
        return max(one.largest(budget_bytes, self.most) for one in (self.plain, *self.others))
