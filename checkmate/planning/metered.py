"""Find a schedule that keeps a budget on the allocator's meter: solve, predict, solve again, and measure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from checkmate.backends.protocol import BudgetSolver, Fitted, Measurable, Replica
from checkmate.errors import BudgetBelowMinimumError, InfeasibleError, StepTooLargeError, VerificationError
from checkmate.ir import Schedule, SolveResult, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.planning.aim import Aim, Reading
from checkmate.planning.arranging import arranged
from checkmate.planning.solving import known_minimum
from checkmate.progress import Progress, stop_if
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_bytes, format_bytes_enough, plural

_MEASUREMENTS, _SOLVES = 4, 6  # the most measurements, and the most solves before each
_USED = 0.97  # of the limit: a schedule that shows this much uses the budget well enough
_NEAR = 0.02  # of the limit: a supplied schedule predicted to exceed it by less is measured anyway
_SECONDS = 1.0  # for each of about ten solves for a budget that would be enough
APART = 1.05  # if a step shows more than this times the peak with one op at a time, ops run one by one
_OVER = 0.05  # of the budget: the assumed excess of a step that ran out of memory


@dataclass(frozen=True, eq=False)
class BudgetFit:
    """The outcome of a search for ``allowed_bytes`` on the meter. ``result``: of the best attempt's solve.
    ``measured``: its measurement in a fresh process; None if no step could run, as ``ran_out`` explains.
    ``attempts``: how many schedules were tried."""

    allowed_bytes: int
    result: SolveResult
    measured: Fitted | None
    attempts: int
    ran_out: str = ""

    @property
    def fits(self) -> bool:
        return self.measured is not None and self.measured.expected_bytes <= self.allowed_bytes

    def require_fit(self) -> Fitted:
        """Return the schedule within the budget, or raise a NoScheduleError or a VerificationError."""
        self.result.require_schedule()
        if self.measured is None and self.ran_out:
            raise VerificationError(
                f"no schedule that was tried for {format_bytes(self.allowed_bytes)} fits the device's "
                f"memory: {self.ran_out}; nothing was written",
                hint="try a smaller budget, or a smaller batch",
            )
        if self.measured is None or not self.fits:
            shown = 0 if self.measured is None else self.measured.expected_bytes
            raise VerificationError(
                f"after {plural(self.attempts, 'attempt')} the measured peak {format_bytes(shown)} is still "
                f"over the budget {format_bytes(self.allowed_bytes)}; nothing was written",
                hint=f"try a budget of {format_bytes_enough(shown)}",
            )
        return self.measured

    @property
    def _quality(self) -> str:
        above, under = self.result.above_best, " under assumptions" if self.result.assumptions else ""
        if self.result.status is SolveStatus.OPTIMAL:
            return f", optimal{under} (proved for the graph's sizes and costs)"
        return "" if above is None else f", at most {100 * above:.2g} % above the least possible cost{under}"

    @property
    def margin(self) -> str:
        """A sentence on how far the solver's budget is below the user's."""
        taken = self.allowed_bytes - self.result.budget_bytes
        solved = f"solved for {format_bytes(self.result.budget_bytes)} of requested bytes{self._quality}"
        if taken >= 0:
            return (
                f"{solved}: {format_bytes(taken)} of the {format_bytes(self.allowed_bytes)} are left for "
                "what the allocator adds"
            )
        return (
            f"{solved}, {format_bytes(-taken)} more than the meter may show: it does not see the smallest "
            "tensors"
        )


def fit_metered(
    step: Measurable, solver: BudgetSolver, allowed: int, first: SolveResult | None = None
) -> BudgetFit:
    """Find the schedule for ``allowed`` bytes on the meter by measuring a few; ``first`` before any other.

    The best attempt is returned even if it does not fit. A step that runs out of memory is taken to exceed
    the budget by the bytes in the error, else by a fixed share.

    Raises:
        NoScheduleError, WorkerDiedError, CycleError: from solving and measuring. CancelledError: the user
        cancelled.
    """
    search = PredictedSearch(step.replica, allowed, solver)
    best: BudgetFit | None = None
    ran_out, tried = "", 0
    for attempt in range(1, _MEASUREMENTS + 1):
        candidate = search.given(first) if first is not None and attempt == 1 else None
        candidate = candidate or search.next()
        if candidate is None:
            break
        tried = attempt
        try:
            found = step.measure(candidate.result, f" (attempt {attempt})", within=allowed)
        except StepTooLargeError as error:
            ran_out = str(error)
            best = best or BudgetFit(allowed, candidate.result, None, attempt, ran_out)
            search.measured(candidate, allowed + over_by(error, allowed))
            continue
        if found.expected_bytes > max(allowed, APART * candidate.expected):
            found = step.in_turn(found, allowed)
        shown, now = found.expected_bytes, BudgetFit(allowed, candidate.result, found, attempt)
        if best is None or best.measured is None or shown < best.measured.expected_bytes:
            best = now
        if now.fits:
            return now
        over = format_bytes(shown - allowed)
        solver.report(Progress("run", message=f"measured {format_bytes(shown)}, {over} over the budget"))
        search.measured(candidate, shown)
    best = best or BudgetFit(allowed, search.last, None, tried, ran_out)
    closest = best.measured and step.in_turn(best.measured, allowed)
    return replace(best, measured=closest, attempts=tried)


def over_by(error: StepTooLargeError, allowed: int) -> int:
    """Return the assumed excess, in bytes, of a step that ran out of memory."""
    needed, free = error.details.get("needed_bytes"), error.details.get("free_bytes")
    return max(1, int(_OVER * allowed) if needed is None or free is None else int(needed) - int(free))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A schedule solved for ``target`` requested bytes. ``expected``: its predicted peak on the meter."""

    target: int
    result: SolveResult
    expected: int

    @property
    def cost(self) -> float:
        return math.inf if self.result.cost is None else self.result.cost


class PredictedSearch:
    """Solves for one target after another until the allocator's replica predicts that a schedule shows at
    most ``allowed`` bytes. A schedule that is predicted to exceed them is reordered before another one is
    solved for. ``last``: the last result, even if it has no schedule."""

    last: SolveResult

    def __init__(self, replica: Replica, allowed: int, solver: BudgetSolver) -> None:
        """The first target is ``allowed`` over the plain step's predicted ratio of shown to requested
        bytes."""
        self._replica, self._allowed, self._solver = replica, allowed, solver
        graph = self._graph = replica.graph
        everything = Schedule.plain(graph)
        rate = max(1.0, replica.predicted(everything.steps.tolist()) / simulate(graph, everything).peak_bytes)
        self._surplus, self._round = 0, 1  # the largest excess of a measurement over its prediction, in bytes
        self._aim = Aim(
            allowed, int(allowed / rate), rate=rate, base_cost=graph.base_cost, used=_USED, whole=allowed
        )

    @property
    def _goal(self) -> int:
        """The largest peak that may be predicted for a schedule that fits."""
        return self._allowed - self._surplus

    def given(self, first: SolveResult) -> Candidate | None:
        """Return ``first`` as a candidate; None if it is predicted to exceed the limit by too much."""
        self.last = first
        if first.schedule is None:
            return None
        found = Candidate(first.budget_bytes, *self._arranged(first))
        if found.expected - self._allowed <= _NEAR * self._allowed:
            return found
        expected = format_bytes(found.expected)
        sentence = (
            f"the schedule should show {expected} on the allocator's meter, over the budget: looking for a "
            "smaller one"
        )
        self._solver.report(Progress("solve", message=sentence))
        return None

    def next(self) -> Candidate | None:
        """Return the cheapest schedule that is predicted to fit, else the closest; None if none was found."""
        found: list[Candidate] = []
        for target in self._aim.targets(_SOLVES):
            result = self._solved(target)
            if result is None or result.schedule is None:
                self._aim.found_nothing()
                continue
            candidate = Candidate(target, *self._arranged(result))
            found.append(candidate)
            self._aim.took(self._reading(candidate))
        fitting = [each for each in found if each.expected <= self._goal]
        if fitting:
            return min(fitting, key=lambda each: each.cost)
        return min(found, key=lambda each: each.expected, default=None)

    def measured(self, candidate: Candidate, shown: int) -> None:
        """Note that ``candidate`` was measured at ``shown`` bytes, which is over the limit."""
        self._surplus = max(self._surplus, shown - candidate.expected)
        self._round += 1
        self._aim.begin_again(self._goal, self._reading(candidate))

    def _reading(self, candidate: Candidate) -> Reading:
        requested = candidate.result.peak_bytes or candidate.target
        return Reading(candidate.target, requested, candidate.expected, candidate.cost)

    def _arranged(self, result: SolveResult) -> tuple[SolveResult, int]:
        """Reorder a schedule that is predicted not to fit; return the better one and its predicted peak."""
        expected = self._predicted(result)
        if expected <= self._goal:
            return result, expected
        other = arranged(self._replica, result, self._goal, self._solver.cancelled)
        shows = self._predicted(other)
        less, before = format_bytes(shows), format_bytes(expected)
        if less != before:  # a gain too small to be read is not worth a sentence
            sentence = f"arranged the steps: they should show {less}, not {before}"
            self._solver.report(Progress("solve", message=sentence))
        return other, shows

    def _predicted(self, result: SolveResult) -> int:
        return self._replica.predicted(result.require_schedule().steps.tolist())

    def _solved(self, target: int) -> SolveResult | None:
        """Solve for ``target`` bytes; return None where a single op needs more."""
        stop_if(self._solver.cancelled)
        sentence = f"solving for {format_bytes(target)} (attempt {self._round})"
        self._solver.report(Progress("solve", message=sentence))
        try:
            self.last = self._solver.solve_above_minimum(self._graph, target)
        except BudgetBelowMinimumError as error:
            if target >= self._allowed:
                enough = format_bytes_enough(self._smallest())
                hint = f"raise the budget to {enough} (predicted to be enough), or use a smaller batch"
                raise InfeasibleError(str(error), hint=hint, details=error.details) from error
            return None  # the allocator's expected excess was deducted from the target; it was too much
        return self.last

    def _smallest(self) -> int:
        self._solver.report(Progress("solve", message="looking for a budget that would be enough"))
        known = known_minimum(self._graph, options=SolveOptions(time_limit_s=_SECONDS))
        return self._replica.predicted(known.schedule.steps.tolist())
