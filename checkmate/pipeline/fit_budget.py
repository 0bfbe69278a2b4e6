"""From a budget that the allocator's meter must keep to a schedule that keeps it: solve, predict, solve again, then measure.

A schedule counts requested bytes; the meter shows chunks. How far the two are apart depends on the schedule, so the budget in
requested bytes is found by predicting each schedule's chunks, and by measuring the one that should fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from checkmate.errors import BudgetBelowMinimumError, StepTooLargeError, VerificationError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest
from checkmate.tf.allocator.predict import predicted_allocated
from checkmate.tf.measure.verify import Measured, measure_fresh
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.units import format_bytes

_SOLVES = 6  # between two measurements
_MEASUREMENTS = 4
_LEAST_CUT = 0.002  # of the budget, so that every attempt is a new one
_SLACK = 0.03  # of the budget: what a schedule may leave unused without another being looked for
_NEAR = (
    0.02  # of the budget: a schedule that is given and predicted to be over by less is measured all the same
)
_OVER = 0.05  # of the budget: by how much a step is taken to be over that ran out of memory

Solve = Callable[[Graph, int], SolveResult]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was reached for ``allowed_bytes`` on the meter.

    ``result``: the last solve. ``predicted_bytes``: what the meter should show for its schedule; ``measured``: what a fresh
    process showed; both None where there is no schedule. ``attempts``: schedules measured. ``ran_out``: why nothing was measured
    where the device had no memory for any of them.
    """

    allowed_bytes: int
    result: SolveResult
    predicted_bytes: int | None
    measured: Measured | None
    attempts: int
    ran_out: str = ""

    @property
    def fits(self) -> bool:
        """The measured peak is within the budget."""
        return self.measured is not None and self.measured.peak_bytes <= self.allowed_bytes

    def require_fit(self) -> Measured:
        """Return what was measured of the schedule within the budget.

        Raises:
            NoScheduleError: there is no schedule. VerificationError: none that was measured keeps the budget.
        """
        self.result.require_schedule()
        if self.measured is None and self.ran_out:
            raise VerificationError(
                f"no schedule within {format_bytes(self.allowed_bytes)} that was tried has room in the device's memory: "
                f"{self.ran_out}; nothing was written",
                hint="try a smaller budget, or a smaller batch",
            )
        if self.measured is None or not self.fits:
            shown = 0 if self.measured is None else self.measured.peak_bytes
            raise VerificationError(
                f"after {self.attempts} attempts the measured peak {format_bytes(shown)} is still over the budget "
                f"{format_bytes(self.allowed_bytes)}; nothing was written",
                hint=f"try a budget of {format_bytes(shown * 1.02)}",
            )
        return self.measured

    @property
    def margin(self) -> str:
        """Say in words what separates the user's budget from the solver's."""
        taken = self.allowed_bytes - self.result.budget_bytes
        if taken >= 0:
            return (
                f"solved for {format_bytes(self.result.budget_bytes)} of requested bytes: {format_bytes(taken)} of the "
                f"{format_bytes(self.allowed_bytes)} are left for what the allocator's chunks add"
            )
        return (
            f"solved for {format_bytes(self.result.budget_bytes)} of requested bytes, {format_bytes(-taken)} more than the "
            "meter may show: it does not see the smallest tensors"
        )


def fit(
    request: ModelRequest,
    folded: FoldedStep,
    history: Sequence[tuple[int, int]],
    allowed: int,
    *,
    solve: Solve,
    first: SolveResult | None = None,
    report: Report,
    cancelled: Cancelled,
) -> Fitted:
    """The schedule for ``allowed`` bytes on the meter. ``folded`` has the graph to solve.

    ``history``: what the allocator is asked for before the first step. ``first``: a schedule to try before any other. The best
    attempt is returned whether it fits or not; one that runs out of memory is over, by how much it says or by a share.

    Raises:
        NoScheduleError, WorkerDiedError, CycleError: from solving and measuring. CancelledError: the user cancelled.
    """

    def expected(steps: list[int]) -> int:
        return predicted_allocated(folded, folded.graph, steps, history)

    search = Targets(folded.graph, expected, allowed, solve, report, cancelled)
    best: Fitted | None = None
    ran_out = ""
    for attempt in range(1, _MEASUREMENTS + 1):
        candidate = search.given(first) if first is not None and attempt == 1 else None
        candidate = candidate or search.next(attempt)
        if candidate is None or candidate.result.schedule is None:
            return best or Fitted(allowed, search.last, None, None, attempt - 1, ran_out)
        try:
            found = measure_fresh(
                request,
                candidate.result.schedule,
                message=f"measuring the scheduled step (attempt {attempt})",
                report=report,
                cancelled=cancelled,
            )
        except StepTooLargeError as error:
            ran_out = str(error)
            best = best or Fitted(allowed, candidate.result, candidate.expected, None, attempt, ran_out)
            search.learn(candidate, allowed + over_by(error, allowed))
            continue
        now = Fitted(allowed, candidate.result, candidate.expected, found, attempt)
        if best is None or best.measured is None or found.peak_bytes < best.measured.peak_bytes:
            best = now
        if now.fits:
            return now
        search.learn(candidate, found.peak_bytes)
    return best or Fitted(allowed, search.last, None, None, _MEASUREMENTS, ran_out)


def over_by(error: StepTooLargeError, allowed: int) -> int:
    """Bytes by which a step that ran out of memory is taken to be over."""
    needed, free = error.details.get("needed_bytes"), error.details.get("free_bytes")
    return max(1, int(_OVER * allowed) if needed is None or free is None else int(needed) - int(free))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A solve and what the meter should show for its schedule."""

    target: int
    result: SolveResult
    expected: int

    @property
    def cost(self) -> float:
        """Of the schedule."""
        return math.inf if self.result.cost is None else self.result.cost


class Targets:
    """Which budget in requested bytes to solve for next. ``expected``: from steps to what the meter should show."""

    def __init__(
        self,
        graph: Graph,
        expected: Callable[[list[int]], int],
        allowed: int,
        solve: Solve,
        report: Report,
        cancelled: Cancelled,
    ) -> None:
        self._graph, self._expected, self._allowed = graph, expected, allowed
        self._solve, self._report, self._cancelled = solve, report, cancelled
        everything = list(range(graph.n))
        requested = simulate(graph, Schedule.of(graph, everything)).peak_bytes
        self._target = int(allowed * min(1.0, requested / expected(everything)))
        self._surplus = 0  # bytes by which the meter showed more than was predicted
        self._floor = 0  # the largest budget for which no schedule was found
        self._least_cut = max(1, int(_LEAST_CUT * allowed))
        self.last: SolveResult

    def given(self, first: SolveResult) -> Candidate | None:
        """``first`` as a candidate; None where it should be over by more than a prediction may be off: then less is aimed at."""
        self.last = first
        if first.schedule is None:
            return None
        found = Candidate(first.budget_bytes, first, self._expected(first.schedule.steps.tolist()))
        over = found.expected - self._allowed
        if over <= _NEAR * self._allowed:
            return found
        sentence = f"the schedule should show {format_bytes(found.expected)} on the allocator's meter: a smaller one is looked for"
        self._report(Progress("solve", message=sentence))
        return None

    def next(self, attempt: int) -> Candidate | None:
        """The cheapest of some schedules that should fit; failing any, the one that comes closest; None without any."""
        closest: Candidate | None = None
        fitting: Candidate | None = None
        ceiling = (
            self._allowed
        )  # the smallest budget whose schedule does not fit, by prediction or by measurement
        for number in range(_SOLVES):
            found = self._candidate(attempt)
            if found is None and fitting is not None:
                ceiling = self._target  # no luck in the time given: there is a schedule for less
            elif found is None:
                self._floor = max(self._floor, self._target)
                # What chunks add to the plain order need not be what they add to this one.
                self._target = (
                    self._allowed if number == 0 and attempt == 1 else (self._target + ceiling) // 2
                )
            elif (over := found.expected + self._surplus - self._allowed) > 0:
                closest = found if closest is None or found.expected < closest.expected else closest
                ceiling = min(ceiling, self._target)
                self._lower(found.result, over)
            else:
                fitting = found if fitting is None or found.cost < fitting.cost else fitting
                if -over <= _SLACK * self._allowed or found.cost <= self._graph.base_cost:
                    break
            if fitting is not None:
                # Chunks do not grow evenly with what is requested: a cheaper one between this and the ceiling may fit.
                self._target = (fitting.target + ceiling) // 2
                if ceiling - fitting.target <= _SLACK * self._allowed:
                    break
            elif self._target <= self._floor + self._least_cut:
                break
        if fitting is not None:
            self._target = fitting.target
        return fitting or closest

    def _candidate(self, attempt: int) -> Candidate | None:
        """The schedule for the target and what is expected of it."""
        stop_if(self._cancelled)
        self._report(
            Progress("solve", message=f"solving for {format_bytes(self._target)} (attempt {attempt})")
        )
        try:
            result = self.last = self._solve(self._graph, self._target)
        except BudgetBelowMinimumError:
            if self._target >= self._allowed:
                raise
            return None  # what was taken off for chunks was too much
        if result.schedule is None:
            return None
        return Candidate(self._target, result, self._expected(result.schedule.steps.tolist()))

    def learn(self, candidate: Candidate, shown: int) -> None:
        """A measurement: the meter showed ``shown`` bytes."""
        self._surplus = max(self._surplus, shown - candidate.expected)
        self._lower(candidate.result, shown - self._allowed)

    def _lower(self, result: SolveResult, over: int) -> None:
        """Take off what was too much, but never go where no schedule was found: halfway there instead."""
        reached = min(self._target, result.peak_bytes or self._target)
        lower = reached - max(over, self._least_cut)
        self._target = lower if lower > self._floor else (self._floor + reached) // 2
