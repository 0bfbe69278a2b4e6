"""Search for the solver's budget whose schedule keeps a limit.

The limit is on the allocator's meter. A schedule counts the bytes that ops request. The meter shows what the
allocator hands out: chunks, which are more. How much more depends on the schedule. So each schedule's reading
is predicted, and one that should fit is measured. ``BudgetSearch`` only decides what to solve for next; its
callers solve, predict and measure, and tell it what they found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from checkmate.ir.result import SolveResult

_SOLVES = 6  # between two measurements
_LEAST_CUT = 0.002  # of the limit, so that every target is a new one
_SLACK = 0.03  # of the limit: what a schedule may leave unused without another being looked for
_NEAR = 0.02  # of the limit: a given schedule that should be over by less is measured all the same


@dataclass(frozen=True, eq=False)
class Candidate:
    """A schedule that was found.

    ``target`` is the budget that it was solved for, in requested bytes. ``expected`` is what the meter should
    show, in bytes.
    """

    target: int
    result: SolveResult
    expected: int

    @property
    def cost(self) -> float:
        return math.inf if self.result.cost is None else self.result.cost


@dataclass
class _Round:
    """The solves between two measurements.

    ``ceiling`` is the smallest target whose schedule does not fit, by prediction or by measurement.
    """

    ceiling: int
    solves: int = 0
    fitting: Candidate | None = None  # the cheapest that should fit
    closest: Candidate | None = None  # of those that should not, the one that is least over
    settled: bool = False


class BudgetSearch:
    """Decides which budget in requested bytes to solve for.

    The aim is that the meter shows few enough bytes. ``allowed`` is what the meter may show. Until
    ``settled``, solve for ``target`` and call ``found`` or ``found_nothing``. Then measure ``candidate`` and
    call ``measured``, which begins the next round.
    """

    def __init__(self, allowed: int, target: int, *, base_cost: float, solves: int = _SOLVES) -> None:
        """Begin with ``target``.

        ``base_cost`` is that of computing everything once: no schedule is cheaper. ``solves`` is the most in
        one round.
        """
        self.allowed, self.target, self.attempt = allowed, target, 1
        self._base_cost, self._solves = base_cost, solves
        self._surplus = 0  # bytes by which the meter showed more than was predicted
        self._floor = 0  # the largest target for which no schedule was found
        self._least_cut = max(1, int(_LEAST_CUT * allowed))
        self._round = _Round(allowed)

    @property
    def settled(self) -> bool:
        """Return whether nothing more is to be solved in this round."""
        return self._round.settled

    @property
    def goal(self) -> int:
        """Return what a schedule that fits should show by prediction."""
        return self.allowed - self._surplus

    @property
    def candidate(self) -> Candidate | None:
        """Return the cheapest schedule that should fit.

        If there is none, return the one that is least over.
        """
        return self._round.fitting or self._round.closest

    def is_worth_measuring(self, given: Candidate) -> bool:
        """Return whether a schedule from elsewhere is worth measuring.

        It is worth it if it is over the limit by no more than a prediction may be off.
        """
        return given.expected - self.allowed <= _NEAR * self.allowed

    def found(self, result: SolveResult, expected: int) -> Candidate:
        """Take the schedule that was found for ``target``.

        ``expected`` is what the meter should show for it, in bytes.
        """
        this, found = self._round, Candidate(self.target, result, expected)
        over = expected - self.goal
        if over > 0:
            if this.closest is None or expected < this.closest.expected:
                this.closest = found
            this.ceiling = min(this.ceiling, self.target)
            self._lower(result, over)
        else:
            if this.fitting is None or found.cost < this.fitting.cost:
                this.fitting = found
            this.settled = -over <= _SLACK * self.allowed or found.cost <= self._base_cost
        self._go_on()
        return found

    def found_nothing(self) -> None:
        """Take it that no schedule was found for ``target``."""
        this = self._round
        if this.fitting is not None:
            this.ceiling = self.target  # no luck in the time given: there is a schedule for less
        else:
            self._floor = max(self._floor, self.target)
            if this.solves == 0 and self.attempt == 1 and self.target < self.allowed:
                # What chunks add to the plain order need not be what they add to this one.
                this.solves, self.target = 1, self.allowed
                this.settled = self._solves == 1
                return
            self.target = (self.target + this.ceiling) // 2
        self._go_on()

    def measured(self, candidate: Candidate, shown: int) -> None:
        """Take what the meter showed, and begin the next round.

        It showed ``shown`` bytes for ``candidate``.
        """
        self._surplus = max(self._surplus, shown - candidate.expected)
        self._lower(candidate.result, shown - self.allowed)
        self.attempt += 1
        self._round = _Round(self.allowed)

    def _go_on(self) -> None:
        """Choose the next target, or settle the round."""
        this = self._round
        this.solves += 1
        if this.fitting is None:
            this.settled |= self.target <= self._floor + self._least_cut
        elif not this.settled:
            # Chunks do not grow evenly with what is requested: a cheaper schedule up to the ceiling may fit.
            self.target = (this.fitting.target + this.ceiling) // 2
            this.settled = this.ceiling - this.fitting.target <= _SLACK * self.allowed
        this.settled |= this.solves >= self._solves
        if this.settled and this.fitting is not None:
            self.target = this.fitting.target

    def _lower(self, result: SolveResult, over: int) -> None:
        """Lower the target by what was too much.

        Where no schedule was found that low, go only halfway there.
        """
        reached = min(self.target, result.peak_bytes or self.target)
        lower = reached - max(over, self._least_cut)
        self.target = lower if lower > self._floor else (self._floor + reached) // 2
