"""How costs were read: what other programs took of the machine meanwhile, and how far the runs were apart.

Whatever else a machine does only adds to a step's time. So costs that were read on a busy machine, or in runs that were far apart,
are doubtful: they are used, said to be doubtful, and measured again when the machine is quiet.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Others may take this share of the cores, and never more than one core: a parallel op waits for its slowest thread.
_BUSY_SHARE, _BUSY_CORES = 0.15, 1.0
_WIDE_SPREAD = 0.15  # on two quiet cores the middle run of a step is a few percent slower than its quickest


@dataclass(frozen=True)
class Reading:
    """``load``: cores that other programs took, on average, of the ``cores`` that this process may use.

    ``spread``: how much longer the middle run of the whole step took than the quickest, over the quickest.
    """

    load: float = 0.0
    cores: int = 1
    spread: float = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether other programs took enough of the machine to matter."""
        return self.load > self._most_load

    @property
    def doubt(self) -> float:
        """How doubtful costs read so are: at most 1 where they can be believed."""
        return max(self.load / self._most_load, self.spread / _WIDE_SPREAD)

    @property
    def is_doubtful(self) -> bool:
        """Whether costs read so should be measured again when the machine is quiet."""
        return self.doubt > 1.0

    @property
    def _most_load(self) -> float:
        return min(_BUSY_SHARE * self.cores, _BUSY_CORES)

    def replaces(self, older: Reading) -> bool:
        """Whether costs read so take the place of those read as ``older``: a worse reading never does."""
        return self.doubt <= max(1.0, older.doubt)

    def with_worse(self, other: Reading) -> Reading:
        """The larger load and the larger spread of the two, for costs that both readings are in."""
        return Reading(
            max(self.load, other.load), max(self.cores, other.cores), max(self.spread, other.spread)
        )


def step_spread(seconds: Sequence[float]) -> float:
    """How much longer the middle one of ``seconds`` is than the least, over the least; 0 of one run."""
    least = min(seconds)
    return statistics.median(seconds) / least - 1 if least > 0 else 0.0
