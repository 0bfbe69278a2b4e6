"""Decide which requested bytes to solve for.

The meter should show nearly what it may.

A schedule counts the bytes that ops request. The meter shows what the allocator hands out, which is more, and
differs from schedule to schedule. So schedules are measured, and each teaches where to aim next: lower until
one fits, then higher until one uses the budget. ``MeterAim`` only decides; its caller solves and measures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

USED = 0.98  # of what the meter may show: a schedule that takes as much is not bettered for memory
WORTH = 0.005  # of the step's cost: a gain that is worth another schedule
_GOAL = 0.992  # of what the meter may show: where to aim, between what is used and what is over
_LEAST_MOVE = 0.01  # of what the meter may show: targets that are nearer give the same schedule


@dataclass(frozen=True)
class Attempt:
    """A schedule that was measured.

    It was solved for ``target`` requested bytes and requests ``requested``. The meter showed ``shown`` bytes.
    """

    target: int
    requested: int
    shown: int
    cost: float


class MeterAim:
    """Decides which budget in requested bytes to solve for next.

    ``room`` is what the meter may show. Solve for ``target`` and call ``took`` or ``found_nothing``, until
    ``settled``.
    """

    def __init__(
        self,
        room: int,
        target: int,
        *,
        rate: float,
        base_cost: float,
        least_rate: float = 1.0,
        used: float = USED,
        worth: float = WORTH,
    ) -> None:
        """Begin with ``target``.

        ``rate`` is what the meter shows for each requested byte, as far as it is known; it is never below
        ``least_rate``. ``base_cost`` is that of computing everything once: no schedule is cheaper. ``used``
        is the share of the room that is enough, ``worth`` the share of the cost that is worth another
        schedule.
        """
        self.room, self.target = room, target
        self.settled = False
        self._rate, self._base_cost = max(least_rate, rate), base_cost
        self._least_rate, self._used, self._worth = least_rate, used, worth
        self._low: Attempt | None = None  # fits, by the largest target
        self._high: Attempt | None = None  # is over, by the smallest target
        self._best_cost = math.inf  # of those that fit
        self._least_cost = math.inf  # of all
        self._floor = 0  # the largest target for which no schedule was found
        self._move = max(1, int(_LEAST_MOVE * room))

    @property
    def fitted(self) -> bool:
        return self._low is not None

    def took(self, shot: Attempt) -> None:
        """Take what the meter showed for a schedule, and choose the next target."""
        self._rate = max(self._least_rate, shot.shown / max(1, shot.requested))
        self._least_cost = min(self._least_cost, shot.cost)
        if shot.shown <= self.room:
            self._best_cost = min(self._best_cost, shot.cost)
            if self._low is None or shot.target >= self._low.target:
                self._low = shot
        elif self._high is None or shot.target <= self._high.target:
            self._high = shot
        if self._low is None:
            self._lower(shot)
        else:
            self._raise(self._low)

    def found_nothing(self) -> None:
        """Take it that no schedule was found for ``target``, in the time given."""
        if self._low is not None:
            self.settled = True  # a schedule for less is known, so the solver had no luck
            return
        self._floor = max(self._floor, self.target)
        if self._high is None:
            self.settled = True
            return
        self.target = (self._floor + self._high.target) // 2
        self.settled = self.target - self._floor <= self._move

    def _lower(self, shot: Attempt) -> None:
        """Aim lower by what was too much. Go halfway where no schedule was found that low."""
        reached = min(shot.target, shot.requested)
        lower = reached - max(int((shot.shown - self.room) / self._rate), self._move)
        self.target = lower if lower > self._floor else (self._floor + reached) // 2
        self.settled = self.target - self._floor <= self._move

    def _raise(self, low: Attempt) -> None:
        """Aim higher by what is not used, where something is to be gained."""
        if low.shown >= self._used * self.room or not self._can_gain():
            self.settled = True
            return
        left = int((_GOAL * self.room - low.shown) / self._rate)
        aim = max(low.requested + left, low.target + left // 2)
        if self._high is not None:
            aim = min(aim, (low.target + self._high.target) // 2)
        self.settled = aim - low.target <= self._move
        self.target = aim

    def _can_gain(self) -> bool:
        """Return whether a cheaper schedule may be worth it.

        What fits will hardly be cheaper than the cheapest that was solved for more and is over.
        """
        least = self._base_cost if self._high is None else self._least_cost
        return self._best_cost - least > self._worth * self._base_cost
