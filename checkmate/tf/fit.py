"""From a budget that the allocator's meter must keep to a schedule that keeps it: solve, predict, solve again, then measure.

A schedule counts requested bytes; the meter shows chunks. How far the two are apart depends on the schedule, so the budget in
requested bytes is found by predicting each schedule's chunks, and by measuring the one that should fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from checkmate.errors import CheckmateError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest
from checkmate.simulate import simulate
from checkmate.tf.fold import FoldedStep
from checkmate.tf.predict import predicted_allocated
from checkmate.tf.verify import Measured, measure_fresh
from checkmate.units import format_bytes

_SOLVES = 4  # between two measurements
_MEASUREMENTS = 4
_LEAST_CUT = 0.002  # of the budget, so that every attempt is a new one

Solve = Callable[[Graph, int], SolveResult]


@dataclass(frozen=True, eq=False)
class Fitted:
    """What was reached for ``allowed_bytes`` on the meter.

    ``result``: the last solve. ``predicted_bytes``: what the meter should show for its schedule; ``measured``: what a fresh
    process showed; both None where there is no schedule. ``attempts``: schedules measured.
    """

    allowed_bytes: int
    result: SolveResult
    predicted_bytes: int | None
    measured: Measured | None
    attempts: int

    @property
    def fits(self) -> bool:
        """The measured peak is within the budget."""
        return self.measured is not None and self.measured.peak_bytes <= self.allowed_bytes

    @property
    def margin(self) -> str:
        """What separates the user's budget from the solver's, in words."""
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
    plain: Measured,
    allowed: int,
    *,
    solve: Solve,
    report: Report,
    cancelled: Cancelled,
) -> Fitted:
    """The schedule for ``allowed`` bytes on the meter. ``folded`` has the graph to solve; ``plain`` was measured with history.

    The last attempt is returned whether it fits or not.

    Raises:
        NoScheduleError, WorkerDiedError, CycleError: from solving and measuring. CancelledError: the user cancelled.
    """
    graph = folded.graph
    everything = list(range(graph.n))
    requested = simulate(graph, Schedule.of(graph, everything)).peak_bytes
    target = allowed + requested - predicted_allocated(folded, graph, everything, plain.history)
    least_cut = max(1, int(_LEAST_CUT * allowed))
    best: Fitted | None = None
    surplus = 0  # bytes by which the meter showed more than was predicted
    for attempt in range(1, _MEASUREMENTS + 1):
        for _ in range(_SOLVES):
            stop_if(cancelled)
            report(Progress("solve", message=f"solving for {format_bytes(target)} (attempt {attempt})"))
            result = solve(graph, target)
            if result.schedule is None:
                return best or Fitted(allowed, result, None, None, attempt - 1)
            expected = predicted_allocated(folded, graph, result.schedule.steps.tolist(), plain.history)
            over = expected + surplus - allowed
            if over <= 0:
                break
            target = min(target, result.peak_bytes or target) - max(over, least_cut)
        found = measure_fresh(
            request,
            result.require_schedule(),
            message=f"measuring the scheduled step (attempt {attempt})",
            report=report,
            cancelled=cancelled,
        )
        best = Fitted(allowed, result, expected, found, attempt)
        if best.fits:
            return best
        surplus = max(surplus, found.peak_bytes - expected)
        target = min(target, result.peak_bytes or target) - max(found.peak_bytes - allowed, least_cut)
    if best is None:
        raise CheckmateError("no schedule was measured")
    return best
