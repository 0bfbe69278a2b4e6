"""Decide who uses the second of two cores: the prover or a second search.

The prover works while its bound rises. If the bound hardly rises any more and is still far from the best
schedule, that core finds more with a search of its own: seeds differ much in how soon they find the good
schedules of a tight budget. The search has it for as long as the prover had, or twice as long where the
prover's turn raised nothing. Then it is the prover's turn again. It keeps its cuts, but starts a program
again that was not solved in time, so it may be quiet for four times as long then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_FAR = 0.01  # of the cost: a bound this near may soon be a proof, so the prover goes on
# The bound rose by less than _RISE of what is missing for this long, in the prover's first turn.
_QUIET_S = 1.5
_RISE = 0.02
# A search's turn, as a multiple of the prover's turn before it: where that raised the bound, and else.
_AS_LONG, _LONGER = 1.0, 2.0
_PATIENCE = 4.0  # the factor by which the prover may be quiet for longer in each turn


@dataclass
class SecondCore:
    """The turns on the second core, from ``begun`` (seconds of any clock). The prover has the first turn."""

    begun: float
    searches: bool = field(init=False, default=False)
    _until: float = field(init=False, default=math.inf)  # the end of a search's turn
    _patience: float = field(init=False, default=_QUIET_S)
    _mark: float | None = field(init=False, default=None)  # the bound when it last rose by enough
    _rose: bool = field(init=False, default=False)  # whether it did so in this turn of the prover
    _marked_at: float = field(init=False, default=0.0)

    def changes(self, bound: float | None, cost: float, *, now: float) -> bool:
        """Return whether the turn changes now; ``searches`` says whose it is.

        ``bound``: the prover's own, None until it has one; ``cost``: of the best schedule, infinite if there
        is none.
        """
        if self.searches:
            if now < self._until:
                return False
            self.searches, self.begun, self._mark, self._rose = False, now, None, False
            self._patience *= _PATIENCE
            return True
        if (
            bound is None
            or math.isinf(cost)
            or not self._is_quiet(bound, cost, now)
            or cost - bound <= _FAR * cost
        ):
            return False
        self.searches = True
        self._until = now + (_AS_LONG if self._rose else _LONGER) * (now - self.begun)
        return True

    def _is_quiet(self, bound: float, cost: float, now: float) -> bool:
        """Return whether the bound has hardly risen for a while."""
        if self._mark is None or bound - self._mark > _RISE * (cost - self._mark):
            self._rose = self._mark is not None
            self._mark, self._marked_at = bound, now
        return now - self._marked_at >= self._patience
