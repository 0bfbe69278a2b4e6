"""How large a batch a schedule leaves room for.

At another batch each step's live bytes grow by the same bytes for each example, but for rounding. So the
memory at two batches says what it is at all others. Nothing is searched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.schedule import Schedule
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate


@dataclass(frozen=True, eq=False)
class GrowingMemory:
    """Hold the live bytes of a schedule's steps at any batch.

    They are what stands still, and what each example adds.
    """

    standing: NDArray[np.float64]
    per_example: NDArray[np.float64]

    @classmethod
    def of(cls, scaling: BatchScaling, steps: Iterable[int]) -> GrowingMemory:
        """Replay the schedule at the graph's own batch and at twice that."""
        batch, plan = scaling.batch, list(steps)
        once, twice = (
            simulate(graph, Schedule.of(graph, plan)).live_bytes.astype(np.float64)
            for graph in (scaling.at(batch), scaling.at(2 * batch))
        )
        per_example = (twice - once) / batch
        return cls(once - batch * per_example, per_example)

    def peak(self, batch: int) -> int:
        """Return the peak in bytes at a batch."""
        return round(float((self.standing + batch * self.per_example).max()))

    def largest(self, budget_bytes: int) -> int:
        """Return the largest batch whose peak is within the budget; 0 if none is."""
        room = budget_bytes - self.standing
        if (room < 0).any():
            return 0
        grows = self.per_example > 0
        return int((room[grows] / self.per_example[grows]).min()) if grows.any() else 0
