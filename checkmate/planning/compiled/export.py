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

from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.compiled import save_compiled_step
from checkmate.backends.tf.xla.op_costs import costs_for_xla
from checkmate.errors import NoScheduleError
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.planning.compiled.search import CompiledSearch, FittedStep
from checkmate.planning.compiled.step import TracedForXla
from checkmate.planning.compiled.verify import begun, emission_of, given_schedule, measurements, notes_on
from checkmate.planning.export_folder import StepToWrite, write_verified
from checkmate.planning.measured_step import Retraced
from checkmate.planning.report.records import RunOutcome
from checkmate.planning.solving import StepSolver
from checkmate.planning.verification.plain import Plain
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest
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
    folded = dataclasses.replace(folded, graph=costs_for_xla(folded))
    search = begun(TracedForXla(request, folded, report, cancelled), solver)
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

    ``budget``: as for ``given_schedule``.

    Raises:
        NotCompiledError: XLA cannot compile the step. VerificationError, ExportError: as ``export``.
    """
    given = given_schedule(traced, budget, report, cancelled)
    plain = given.search.step.measured_plain(given.search.plain)
    return _written(given.search, given.fitted, plain, given.allowed, directory, traced.notes)


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
    return _run(begun(step, solver), budget, directory, traced.notes, traced.result)


def _run(
    search: CompiledSearch,
    budget: Budget,
    directory: Path,
    notes: tuple[str, ...],
    first: SolveResult | None = None,
) -> RunOutcome:
    """Fit, write and reload until the meter shows no more than is allowed.

    ``first`` is taken if it keeps that. If no schedule does, the last one written stays, and its report says
    so.
    """
    allowed = search.allowed_bytes(budget)
    given = None if first is None else search.as_given(first, allowed)
    fitted = given if given is not None and given.fit.fits else search.fitted(allowed)
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
    step, xla = search.step, emission_of(search, fitted)
    found = measurements(search, fitted, plain)
    schedule = fitted.result.require_schedule()
    save: Callable[[Path], None] = partial(save_compiled_step, step.folded, schedule, xla)
    written = StepToWrite(step.request, step.folded, fitted.result, save, step.report, step.cancelled)
    return write_verified(written, found, directory, allowed, (*more_notes, *notes_on(search, fitted)))
