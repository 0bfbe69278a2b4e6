"""Decide which requested bytes to solve for, so that a step shows nearly what it may.

A schedule counts the bytes that ops request. What its step shows differs from schedule to schedule: an
allocator hands out chunks, a compiler fuses ops. So each schedule that is predicted, measured or compiled
says where to aim next: lower until one fits, then higher until one uses the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

USED = 0.98  # of the room: a schedule that shows this much uses the budget well enough
WORTH = 0.005  # of the step's cost: the least possible gain for which another schedule is solved for
_GOAL = 0.992  # of the room: what the next schedule should show
_LEAST_MOVE = 0.01  # of the room: closer targets would give the same schedule


@dataclass(frozen=True)
class Reading:
    """A schedule solved for ``target`` and requesting ``requested`` bytes, whose step shows ``shown``."""

    target: int
    requested: int
    shown: int
    cost: float


class Aim:
    """Decides which budget in requested bytes to solve for next, if a step may show ``room`` bytes. Solve for
    ``target``, then call ``took`` or ``found_nothing``; repeat until ``settled``."""

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
        whole: int = 0,
    ) -> None:
        """Begin with ``target``. ``rate``: expected shown bytes per requested byte, at least ``least_rate``.
        ``base_cost``: of computing everything once. ``used``: see ``USED``; ``worth``: see ``WORTH``.
        ``whole``: the second target, if nothing is found for the first one."""
        self.room, self.target = room, target
        self.settled = False
        self._rate, self._base_cost = max(least_rate, rate), base_cost
        self._least_rate, self._used, self._worth = least_rate, used, worth
        self._low: Reading | None = None  # of the readings that fit, the one with the largest target
        self._high: Reading | None = None  # of those that do not, the one with the smallest target
        self._best_cost = math.inf  # the least cost of a schedule that fits
        self._least_cost = math.inf  # the least cost of any schedule
        self._floor = 0  # the largest target for which no schedule was found
        self._whole = whole
        self._move = max(1, int(_LEAST_MOVE * room))

    @property
    def fitted(self) -> bool:
        return self._low is not None

    def targets(self, most: int) -> Iterator[int]:
        for _ in range(most):
            if self.settled:
                return
            yield self.target

    def took(self, reading: Reading) -> None:
        self._rate = max(self._least_rate, reading.shown / max(1, reading.requested))
        self._least_cost = min(self._least_cost, reading.cost)
        if reading.shown <= self.room:
            self._best_cost = min(self._best_cost, reading.cost)
            if self._low is None or reading.target >= self._low.target:
                self._low = reading
        elif self._high is None or reading.target <= self._high.target:
            self._high = reading
        if self._low is None:
            self._lower(reading)
        else:
            self._raise(self._low)

    def begin_again(self, room: int, over: Reading) -> None:
        """Start over with less ``room``, after a schedule that was predicted to fit was measured ``over``."""
        self.room, self._low, self._high, self._best_cost = room, None, over, math.inf
        self._least_cost = min(self._least_cost, over.cost)
        self._lower(over)

    def found_nothing(self) -> None:
        """Note that no schedule was found for ``target`` within the time limit."""
        if self._low is not None:
            self.settled = True  # one for a smaller target fits, so this one was only not found in time
            return
        self._floor = max(self._floor, self.target)
        if self._high is None:
            # Try the whole budget: for some schedules the meter shows little more than requested.
            self.settled = self.target >= self._whole
            self.target = max(self.target, self._whole)
            return
        self.target = (self._floor + self._high.target) // 2
        self.settled = self.target - self._floor <= self._move

    def _lower(self, reading: Reading) -> None:
        """Lower the target by the excess, or halfway to the floor if that would be below the floor."""
        reached = min(reading.target, reading.requested)
        lower = reached - max(int((reading.shown - self.room) / self._rate), self._move)
        self.target = lower if lower > self._floor else (self._floor + reached) // 2
        self.settled = self.target - self._floor <= self._move

    def _raise(self, low: Reading) -> None:
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
        """Whether the best cost may still fall notably. It hardly falls below the least cost found for a
        larger target, which is a schedule that does not fit."""
        least = self._base_cost if self._high is None else self._least_cost
        return self._best_cost - least > self._worth * self._base_cost
