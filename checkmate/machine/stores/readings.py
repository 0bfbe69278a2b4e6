"""Say how far measured costs can be trusted.

Other programs on the machine can only make a step slower. So costs measured on a busy machine, or in runs
that differ widely, are doubtful: they are used, reported as doubtful, and measured again when the machine is
quiet.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Others may take this share of the cores, and never more than one core: a parallel op waits for its slowest
# thread.
_BUSY_SHARE, _BUSY_CORES = 0.15, 1.0
_WIDE_SPREAD = 0.15  # on two quiet cores the middle run of a step is a few percent slower than its quickest


@dataclass(frozen=True)
class Reading:
    """Tell under which conditions costs were measured.

    ``load``: cores that other programs took, on average, of the ``cores`` that this process may use.
    ``spread``: how much longer the middle run of the whole step took than the quickest, over the quickest.
    """

    load: float = 0.0
    cores: int = 1
    spread: float = 0.0

    @property
    def is_busy(self) -> bool:
        """Return whether other programs took enough of the machine to matter."""
        return self.load > self._most_load

    @property
    def doubt(self) -> float:
        """Return how doubtful the costs are; at most 1 is trustworthy."""
        return max(self.load / self._most_load, self.spread / _WIDE_SPREAD)

    @property
    def is_doubtful(self) -> bool:
        """Return whether the costs should be measured again. That is done when the machine is quiet."""
        return self.doubt > 1.0

    @property
    def _most_load(self) -> float:
        return min(_BUSY_SHARE * self.cores, _BUSY_CORES)

    def replaces(self, older: Reading) -> bool:
        """Return whether these costs replace those of ``older``.

        A worse measurement never replaces a better one.
        """
        return self.doubt <= max(1.0, older.doubt)

    def with_worse(self, other: Reading) -> Reading:
        """Return the larger load and the larger spread of the two.

        It applies to costs that come from both measurements.
        """
        return Reading(
            max(self.load, other.load), max(self.cores, other.cores), max(self.spread, other.spread)
        )


def step_spread(seconds: Sequence[float]) -> float:
    """Return how much longer the middle run is than the quickest.

    The result is relative to the quickest; 0 for one run.
    """
    least = min(seconds)
    return statistics.median(seconds) / least - 1 if least > 0 else 0.0
