"""Fit a step that XLA compiles to a budget, verify it and export it.

XLA tells a step's bytes when it has compiled it. So a schedule is chosen by compiling, and no step is run
for that. Then the chosen one is run in fresh processes: beside the plain step, compiled too, and once more
after it was written and loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

from checkmate.errors import NoScheduleError
from checkmate.ir.graph import CostOrigin, Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.pipeline.compiled.search import CompiledSearch, FittedStep
from checkmate.pipeline.compiled.step import TracedForXla
from checkmate.pipeline.export_folder import StepToWrite, write_verified
from checkmate.pipeline.measured_step import Retraced
from checkmate.pipeline.report.records import RunOutcome
from checkmate.pipeline.solving import StepSolver, keep_everything_peak
from checkmate.pipeline.verification.comparing import compare_where_it_fits
from checkmate.pipeline.verification.plain import Plain
from checkmate.pipeline.verification.report import Measurements
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from checkmate.tf.costs.profile import analytic_costs
from checkmate.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.xla.emission import XlaEmission
from checkmate.tf.xla.saved_model import save_compiled_step
from checkmate.tf.xla.ties import Tied
from checkmate.units import Budget, format_bytes

_EXPORTS = 3  # until the meter shows no more than the budget, too


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
    search = _begun(TracedForXla(request, folded, report, cancelled), solver)
    return _run(search, budget, directory, ())


def export_compiled(
    traced: Retraced,
    directory: Path,
    budget: int | Budget | None,
    *,
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    """Export a schedule for XLA as it is.

    ``budget``: what the compiled step may take. None means the schedule's own budget. That counts the graph's
    bytes, of which XLA takes as many as it does of the plain step's.

    Raises:
        NotCompiledError: XLA cannot compile the step. VerificationError, ExportError: as ``export``.
    """
    step = TracedForXla(traced.request, traced.folded, report, cancelled)
    solver = StepSolver("auto", SolveOptions(), report, cancelled)
    search = _begun(step, solver)
    plain, result = search.plain.memory, traced.result
    if budget is None:
        fixed, everything = step.graph.fixed_bytes, keep_everything_peak(step.graph)
        share = (result.budget_bytes - fixed) / max(1, everything - fixed)
        allowed = plain.peak_bytes - plain.temp_bytes + int(min(1.0, share) * plain.temp_bytes)
    else:
        allowed = search.allowed_bytes(budget) if isinstance(budget, Budget) else budget
    fitted = search.as_given(result, allowed)
    return _written(search, fitted, step.measured_plain(search.plain), allowed, directory, traced.notes)


def export_compiled_within(
    traced: Retraced,
    budget: Budget,
    directory: Path,
    *,
    solver: StepSolver,
    report: Report,
    cancelled: Cancelled,
) -> RunOutcome:
    """Export the given schedule if it keeps ``budget`` compiled.

    Otherwise solve for less, as ``run_compiled`` does.

    Raises:
        As ``run_compiled``.
    """
    step = TracedForXla(traced.request, traced.folded, report, cancelled)
    return _run(_begun(step, solver, traced.result), budget, directory, traced.notes)


def _begun(step: TracedForXla, solver: StepSolver, first: SolveResult | None = None) -> CompiledSearch:
    step.report(Progress("compile", message="compiling the plain step with XLA"))
    return CompiledSearch(step, step.compiled(None), solver, first)


def _run(search: CompiledSearch, budget: Budget, directory: Path, notes: tuple[str, ...]) -> RunOutcome:
    """Fit, write and reload until the meter shows no more than is allowed.

    If no schedule keeps it, the last one written stays, and its report says so.
    """
    allowed = search.allowed_bytes(budget)
    fitted = search.fitted(allowed)
    plain = search.step.measured_plain(search.plain)
    for attempt in range(1, _EXPORTS + 1):
        found = _written(search, fitted, plain, allowed, directory, notes)
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
    search: CompiledSearch,
    fitted: FittedStep,
    plain: Plain,
    allowed: int,
    directory: Path,
    more_notes: tuple[str, ...],
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
    notes = (
        *more_notes,
        fitted.note,
        *_costs_note(step.graph),
        *_tied_note(fitted.fit.tied),
        *step.folded.traced.loaded.notes,
    )
    return write_verified(written, found, directory, allowed, notes)


def _measured(step: TracedForXla, schedule: Schedule, xla: XlaEmission) -> FreshMeasurement:
    return measure_fresh(
        step.request,
        schedule,
        message="measuring the scheduled step, compiled by XLA",
        report=step.report,
        cancelled=step.cancelled,
        region=xla.region,
        xla=xla,
    )


def _costs_note(graph: Graph) -> tuple[str, ...]:
    if graph.cost_origin is not CostOrigin.ANALYTIC:
        return (
            "the schedule was chosen by what ops cost one by one: XLA fuses them, and then they cost less",
        )
    return ("the schedule was chosen by counts of operations: XLA fuses ops, so seconds are not predicted",)


def _tied_note(tied: Tied) -> tuple[str, ...]:
    if tied is not Tied.ALL:
        return ()
    return ("all steps wait for those before them: with ties of recomputations alone XLA needs more",)
