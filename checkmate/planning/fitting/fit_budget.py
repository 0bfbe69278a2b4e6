"""Find a schedule that keeps a budget on the allocator's meter.

Solve, predict, solve again, and measure. ``BudgetSearch`` decides which budget in requested bytes to solve
for; here schedules are solved, predicted and measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from checkmate.backends.tf.allocator.predict import predicted_allocated
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import BudgetBelowMinimumError, InfeasibleError, StepTooLargeError, VerificationError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.budget_search import BudgetSearch, Candidate
from checkmate.memory.simulate import simulate
from checkmate.planning.fitting.arranging import Arranger
from checkmate.planning.solving import known_minimum
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_bytes, format_bytes_up, plural

_MEASUREMENTS = 4
_ROOM = 1.02  # times what the smallest known schedule should show: a budget that is said to be enough
_SECONDS = 1.0  # for each of about ten solves that look for it
_OVER = 0.05  # of the budget: how far over a step is taken to be that ran out of memory

Solve = Callable[[Graph, int], SolveResult]
Arrange = Callable[[SolveResult, int], SolveResult]


@dataclass(frozen=True, eq=False)
class BudgetFit:
    """What was reached for ``allowed_bytes`` on the meter.

    ``result``: the last solve. ``predicted_bytes``: what the meter should show for its schedule;
    ``measured``: what a fresh process showed; both None where there is no schedule. ``attempts``: schedules
    measured. ``ran_out``: why nothing was measured where the device had no memory for any of them.
    """

    allowed_bytes: int
    result: SolveResult
    predicted_bytes: int | None
    measured: FreshMeasurement | None
    attempts: int
    ran_out: str = ""

    @property
    def fits(self) -> bool:
        """Return whether the measured peak is within the budget."""
        return self.measured is not None and self.measured.peak_bytes <= self.allowed_bytes

    def require_fit(self) -> FreshMeasurement:
        """Return what was measured of the schedule within the budget.

        Raises:
            NoScheduleError: there is no schedule. VerificationError: none that was measured keeps the budget.
        """
        self.result.require_schedule()
        if self.measured is None and self.ran_out:
            raise VerificationError(
                f"no schedule that was tried for {format_bytes(self.allowed_bytes)} fits the device's "
                f"memory: {self.ran_out}; nothing was written",
                hint="try a smaller budget, or a smaller batch",
            )
        if self.measured is None or not self.fits:
            shown = 0 if self.measured is None else self.measured.peak_bytes
            raise VerificationError(
                f"after {plural(self.attempts, 'attempt')} the measured peak {format_bytes(shown)} is still "
                f"over the budget {format_bytes(self.allowed_bytes)}; nothing was written",
                hint=f"try a budget of {format_bytes_up(int(shown * _ROOM))}",
            )
        return self.measured

    @property
    def _quality(self) -> str:
        above, under = self.result.above_best, " under assumptions" if self.result.assumptions else ""
        if self.result.status is SolveStatus.OPTIMAL:
            return f", optimal{under} (proved)"
        return "" if above is None else f", at most {100 * above:.2g} % above the least possible cost{under}"

    @property
    def margin(self) -> str:
        """Say in words what separates the user's budget from the solver's."""
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


def fit(
    request: ModelRequest,
    folded: FoldedStep,
    history: Sequence[tuple[int, int]],
    allowed: int,
    *,
    solve: Solve,
    first: SolveResult | None = None,
    compare: bool = False,
    report: Report,
    cancelled: Cancelled,
) -> BudgetFit:
    """Find the schedule for ``allowed`` bytes on the meter.

    A few schedules are measured on the way. ``folded`` has the graph to solve. ``history`` is what the
    allocator is asked for before the first step: (handle, bytes). ``first`` is a schedule to try before any
    other. ``compare``: a step that fits is compared with the plain one where it was measured, if there is
    room for both. The best attempt is returned whether it fits or not. A step that runs out of memory is over
    by as much as the error says, or by a share of the budget.

    Raises:
        NoScheduleError, WorkerDiedError, CycleError: from solving and measuring. CancelledError: the user
        cancelled.
    """

    def predict(steps: list[int]) -> int:
        return predicted_allocated(folded, folded.graph, steps, history)

    arranger = Arranger(folded, folded.graph, history, cancelled)
    search = PredictedSearch(folded.graph, predict, allowed, solve, report, cancelled, arranger.arranged)
    best: BudgetFit | None = None
    ran_out, tried = "", 0
    for attempt in range(1, _MEASUREMENTS + 1):
        candidate = search.given(first) if first is not None and attempt == 1 else None
        candidate = candidate or search.next()
        if candidate is None:
            break
        tried = attempt
        try:
            found = measure_fresh(
                request,
                candidate.result.require_schedule(),
                message=f"measuring the scheduled step (attempt {attempt})",
                report=report,
                cancelled=cancelled,
                region=first_region(folded.graph, candidate.result.require_schedule()),
                compare_within=allowed if compare else None,
            )
        except StepTooLargeError as error:
            ran_out = str(error)
            best = best or BudgetFit(allowed, candidate.result, candidate.expected, None, attempt, ran_out)
            search.measured(candidate, allowed + over_by(error, allowed))
            continue
        now = BudgetFit(allowed, candidate.result, candidate.expected, found, attempt)
        if best is None or best.measured is None or found.peak_bytes < best.measured.peak_bytes:
            best = now
        if now.fits:
            return now
        over = format_bytes(found.peak_bytes - allowed)
        report(
            Progress("measure", message=f"measured {format_bytes(found.peak_bytes)}, {over} over the budget")
        )
        search.measured(candidate, found.peak_bytes)
    return replace(best or BudgetFit(allowed, search.last, None, None, tried, ran_out), attempts=tried)


def over_by(error: StepTooLargeError, allowed: int) -> int:
    """Return by how many bytes a step is taken to be over. The step ran out of memory."""
    needed, free = error.details.get("needed_bytes"), error.details.get("free_bytes")
    return max(1, int(_OVER * allowed) if needed is None or free is None else int(needed) - int(free))


class PredictedSearch:
    """Solves for one target after another until a schedule should fit.

    It fits if the meter should show few enough bytes. ``allowed`` is what the meter may show; ``predict``
    takes steps to the bytes that it should show. What to solve for is ``BudgetSearch``'s decision.
    ``arrange`` puts a result's steps in an order that should show less, at most so many bytes if it can. A
    schedule that should be over is arranged before another is solved for. ``last`` is the last result,
    whatever it was.
    """

    last: SolveResult

    def __init__(
        self,
        graph: Graph,
        predict: Callable[[list[int]], int],
        allowed: int,
        solve: Solve,
        report: Report,
        cancelled: Cancelled,
        arrange: Arrange = lambda result, goal: result,
    ) -> None:
        """Begin with the limit, scaled by the plain step.

        The scale is the plain step's requested peak over what the meter should show of it, at most 1.
        """
        self._graph, self._predict = graph, predict
        self._solve, self._report, self._cancelled = solve, report, cancelled
        self._arrange = arrange
        everything = list(range(graph.n))
        requested = simulate(graph, Schedule.of(graph, everything)).peak_bytes
        target = int(allowed * min(1.0, requested / predict(everything)))
        self._budgets = BudgetSearch(allowed, target, base_cost=graph.base_cost)

    def given(self, first: SolveResult) -> Candidate | None:
        """Return ``first`` as a candidate; None where it should be too far over."""
        self.last = first
        if first.schedule is None:
            return None
        found = Candidate(first.budget_bytes, *self._arranged(first))
        if self._budgets.is_worth_measuring(found):
            return found
        expected = format_bytes(found.expected)
        sentence = (
            f"the schedule should show {expected} on the allocator's meter, over the budget: looking for a "
            "smaller one"
        )
        self._report(Progress("solve", message=sentence))
        return None

    def next(self) -> Candidate | None:
        """Return the cheapest schedule that should fit.

        If there is none, return the one that comes closest. None where no schedule was found.

        Raises:
            InfeasibleError: one op needs more than is allowed. CancelledError: the user cancelled.
        """
        budgets = self._budgets
        while not budgets.settled:
            result = self._solved(budgets.target)
            if result is None or result.schedule is None:
                budgets.found_nothing()
            else:
                budgets.found(*self._arranged(result))
        return budgets.candidate

    def measured(self, candidate: Candidate, shown: int) -> None:
        """Take it that the meter showed ``shown`` bytes for ``candidate``."""
        self._budgets.measured(candidate, shown)

    def _arranged(self, result: SolveResult) -> tuple[SolveResult, int]:
        """Return a result that should fit if its steps can be arranged so.

        Also return what it should show, in bytes.
        """
        expected = self._predict(result.require_schedule().steps.tolist())
        if expected <= self._budgets.goal:
            return result, expected
        stop_if(self._cancelled)
        arranged = self._arrange(result, self._budgets.goal)
        shows = self._predict(arranged.require_schedule().steps.tolist())
        if shows >= expected:
            return result, expected
        less, before = format_bytes(shows), format_bytes(expected)
        if less != before:  # a gain too small to be read is not worth a sentence
            sentence = f"arranged the steps: they should show {less}, not {before}"
            self._report(Progress("solve", message=sentence))
        return arranged, shows

    def _solved(self, target: int) -> SolveResult | None:
        """Return what solving for ``target`` gave. It is None where one op needs more than ``target``."""
        stop_if(self._cancelled)
        sentence = f"solving for {format_bytes(target)} (attempt {self._budgets.attempt})"
        self._report(Progress("solve", message=sentence))
        try:
            self.last = self._solve(self._graph, target)
        except BudgetBelowMinimumError as error:
            if target >= self._budgets.allowed:
                enough = format_bytes_up(int(self._smallest() * _ROOM))
                hint = f"raise the budget to {enough} (predicted to be enough), or use a smaller batch"
                raise InfeasibleError(str(error), hint=hint, details=error.details) from error
            return None  # what was taken off for chunks was too much
        return self.last

    def _smallest(self) -> int:
        """Return the bytes that the smallest schedule found in a few seconds should show."""
        self._report(Progress("solve", message="looking for a budget that would be enough"))
        known = known_minimum(self._graph, options=SolveOptions(time_limit_s=_SECONDS))
        return self._predict(known.schedule.steps.tolist())
