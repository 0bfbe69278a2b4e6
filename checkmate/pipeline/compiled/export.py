"""Fit a step that XLA compiles to a budget, verify it and export it.

XLA tells a step's bytes when it has compiled it. So a schedule is chosen by compiling, and no step is run
for that. Then the chosen one is run in fresh processes: beside the plain step, compiled too, and once more
after it was written and loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from checkmate.errors import BudgetBelowMinimumError, NoScheduleError
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.pipeline.compiled.step import TracedForXla
from checkmate.pipeline.export_folder import StepToWrite, write_verified
from checkmate.pipeline.report.records import RunOutcome
from checkmate.pipeline.solving import StepSolver, keep_everything_peak
from checkmate.pipeline.verification.comparing import compare_where_it_fits
from checkmate.pipeline.verification.plain import Plain
from checkmate.pipeline.verification.report import Measurements
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest
from checkmate.tf.costs.profile import analytic_costs
from checkmate.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.xla.compiled import StepCompilation
from checkmate.tf.xla.emission import XlaEmission
from checkmate.tf.xla.fit import XlaFit, fit_compiled
from checkmate.tf.xla.saved_model import save_compiled_step
from checkmate.tf.xla.ties import Tied
from checkmate.units import Budget, format_bytes, format_bytes_up, plural

_EXPORTS = 3  # until the meter shows no more than the budget, too
COSTS = "the schedule was chosen by counts of operations: XLA fuses ops, whose own seconds do not hold then"


def run_compiled(
    request: ModelRequest,
    folded: FoldedStep,
    budget: Budget,
    directory: Path,
    *,
    solver: StepSolver,
    report: Report,
    cancelled: Cancelled,
) -> RunOutcome:
    """Solve until the compiled step fits; then verify and export it.

    A share is of the plain step's bytes as XLA compiles it: arguments, results and temporaries.

    Raises:
        NotCompiledError: XLA cannot compile the step. NoScheduleError: no schedule that was compiled keeps
        the budget. VerificationError, ExportError: as ``export``. CancelledError: the user cancelled.
    """
    folded = dataclasses.replace(folded, graph=analytic_costs(folded))
    step = TracedForXla(request, folded, report, cancelled)
    report(Progress("compile", message="compiling the plain step with XLA"))
    plain = step.compiled(None)
    search = _Search(step, plain, solver)
    allowed = search.allowed_bytes(budget)
    first = search.fitted(allowed)
    return _within_meter(search, first, step.measured_plain(plain), allowed, directory)


@dataclass(frozen=True, eq=False)
class FittedStep:
    """A schedule whose compiled step keeps the budget.

    ``fit``: how it was found, and what XLA said.
    """

    result: SolveResult
    fit: XlaFit

    @property
    def note(self) -> str:
        """Return how many schedules were compiled for it."""
        tried = plural(1 + len(self.fit.attempts), "step")
        return f"compiled by XLA: {tried} compiled in {self.fit.compile_seconds:.0f} s; {COSTS}"


class _Search:
    """Look for schedules of one step by compiling them."""

    def __init__(self, step: TracedForXla, plain: StepCompilation, solver: StepSolver) -> None:
        self.step, self.plain, self._solver = step, plain, solver
        self._results: list[SolveResult] = []

    def allowed_bytes(self, budget: Budget) -> int:
        """Return what arguments, results and temporaries may take in all."""
        least = 0
        if budget == Budget():
            least = self.step.compiled(self._least()).memory.peak_bytes
        return budget.resolve(keep_everything_peak=self.plain.memory.peak_bytes, minimum=least)

    def fitted(self, goal: int) -> FittedStep:
        """Return the cheapest schedule whose compiled step takes ``goal`` bytes.

        Raises:
            NoScheduleError: no schedule that was compiled takes so little.
        """
        fit = fit_compiled(
            self.step.graph,
            self.plain,
            goal,
            compile=self.step.compiled,
            solve=self._solved,
            least=self._least,
            report=self.step.report,
        )
        if not fit.fits:
            raise _none_fits(self.step, fit)
        return FittedStep(self._result_of(fit.schedule), fit)

    def _solved(self, asked: int) -> Schedule | None:
        try:
            return self._kept(self._solver.solve_above_minimum(self.step.graph, asked))
        except BudgetBelowMinimumError:
            return None

    def _least(self) -> Schedule:
        graph = self.step.graph
        schedule = self._kept(self._solver.solve(graph, self._solver.minimum_bytes(graph)))
        return Schedule.plain(graph) if schedule is None else schedule

    def _kept(self, result: SolveResult) -> Schedule | None:
        """Return the schedule of ``result``, and remember what it is of."""
        self._results.append(result)
        return result.schedule

    def _result_of(self, schedule: Schedule | None) -> SolveResult:
        """Return what solving gave ``schedule``; None: the plain step."""
        graph = self.step.graph
        for result in self._results:
            if schedule is not None and result.schedule is schedule:
                return result
        return self._solver.solve(graph, keep_everything_peak(graph))


def _none_fits(step: TracedForXla, fit: XlaFit) -> NoScheduleError:
    least = fit.memory.peak_bytes
    return NoScheduleError(
        f"no schedule was found with which XLA keeps a training step of "
        f"{step.folded.traced.loaded.name!r} within {format_bytes(fit.budget_bytes)}: the least that was "
        f"compiled takes {format_bytes(least)}",
        hint=f"raise the budget to {format_bytes_up(least)} or more, use a smaller batch, or add "
        "--target executor",
        details={"budget_bytes": fit.budget_bytes, "needed_bytes": least},
    )


def _within_meter(
    search: _Search, fitted: FittedStep, plain: Plain, allowed: int, directory: Path
) -> RunOutcome:
    """Write and reload until the meter shows no more than is allowed.

    If no schedule keeps it, the last one written stays, and its report says so.
    """
    for attempt in range(1, _EXPORTS + 1):
        found = _written(search, fitted, plain, allowed, directory)
        outcome = RunOutcome(found, fitted.result, search.step.graph)
        over = max(int(found.peak_bytes[name] or 0) for name in ("measured", "reloaded_measured")) - allowed
        if over <= 0 or attempt == _EXPORTS:
            break
        sentence = f"the meter shows {format_bytes(over)} more than the budget: compiling for less"
        search.step.report(Progress("solve", message=sentence))
        try:
            fitted = search.fitted(min(allowed, fitted.fit.memory.peak_bytes) - over)
        except NoScheduleError:
            break
    return outcome


def _written(
    search: _Search, fitted: FittedStep, plain: Plain, allowed: int, directory: Path
) -> VerificationReport:
    """Measure, compare and write one schedule; return its report."""
    step, memory, schedule = search.step, fitted.fit.memory, fitted.result.require_schedule()
    xla = step.emission(memory, fitted.fit.tied)
    measured = _measured(step, schedule, xla)
    compared = compare_where_it_fits(
        step.request, step.folded, schedule, plain, xla=xla, report=step.report, cancelled=step.cancelled
    )
    found = Measurements(
        plain,
        measured,
        compared,
        predicted_bytes=memory.peak_bytes,
        plain_predicted_bytes=search.plain.memory.peak_bytes,
    )
    save: Callable[[Path], None] = partial(save_compiled_step, step.folded, schedule, xla)
    written = StepToWrite(step.request, step.folded, fitted.result, save, step.report, step.cancelled)
    notes = (fitted.note, *_tied_note(fitted.fit.tied), *step.folded.traced.loaded.notes)
    return write_verified(written, found, directory, allowed, notes)


def _measured(step: TracedForXla, schedule: Schedule, xla: XlaEmission) -> FreshMeasurement:
    return measure_fresh(
        step.request,
        schedule,
        message="measuring the scheduled step, compiled by XLA",
        report=step.report,
        cancelled=step.cancelled,
        xla=xla,
    )


def _tied_note(tied: Tied) -> tuple[str, ...]:
    if tied is not Tied.ALL:
        return ()
    return ("all steps wait for those before them: with ties of recomputations alone XLA needs more",)
