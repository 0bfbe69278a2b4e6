"""The stages with TensorFlow: profile, verify, export and run.

Each works on one traced step.
"""

from __future__ import annotations

from pathlib import Path

from checkmate.backends.tf.costs import session
from checkmate.backends.tf.costs.fresh import with_costs, with_costs_of_scheduled_step
from checkmate.backends.tf.costs.known import CostOptions
from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.tasks import expect_tasks
from checkmate.errors import NoScheduleError, SolveCancelledError, StepTooLargeError, VerificationError
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.planning.compiled.export import export_compiled, export_compiled_within, run_compiled
from checkmate.planning.compiled.verify import verify_compiled
from checkmate.planning.export_folder import write_folder
from checkmate.planning.fitting.fit_budget import BudgetFit, fit
from checkmate.planning.measured_step import MeasuredStep, retrace
from checkmate.planning.report.notes import (
    costs_note,
    doubts_note,
    predicted_share_note,
    reload_margin_note,
    replaced_note,
)
from checkmate.planning.report.records import RunOutcome
from checkmate.planning.solving import StepSolver
from checkmate.planning.verification.comparing import compare_where_it_fits
from checkmate.planning.verification.plain import measure_plain
from checkmate.planning.verification.report import Measurements, allocated_per_requested, verification_report
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest
from checkmate.solvers.bounds import below_minimum, working_set_bound
from checkmate.units import Budget, format_bytes

# Chunks are lumpy: a schedule that just fits by the average slack may not by its own.
_SAFETY = 0.995
_HOPELESS = 0.9  # of what an op needs by itself: a budget below is refused before anything is measured
_EXPORTS = 4  # until the reloaded step, whose allocator has another history, keeps the budget too
_RELOADED_OVER = 0.05  # of the budget: how far over a reloaded step is taken to be that ran out of memory


def profile(request: ModelRequest, *, costs: CostOptions, report: Report, cancelled: Cancelled) -> Graph:
    """Return the graph of the model's training step, with costs.

    Where the plain step does not fit the memory there is, costs are analytic, and the graph's notes say so.

    Raises:
        LoadError, TraceError, ProfileError: with the reason. CancelledError: the user cancelled.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    try:
        return with_costs(folded, costs, request=request, report=report, cancelled=cancelled).graph
    except StepTooLargeError as error:
        return session.estimated_graph(folded, error)


def verify(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    *,
    budget_bytes: int | Budget | None,
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    """Measure the scheduled step against the plain one; write nothing.

    ``budget_bytes`` is what the allocator may show; a share is of the plain step's measured peak. None means
    the schedule's own budget, which counts requested bytes, at the plain step's rate of allocated per
    requested bytes. Where the plain step does not
    fit, gradients are compared where it does, and the report says where. A step for XLA is compiled, and its
    peak is XLA's own (``checkmate.planning.compiled.verify``).

    Raises:
        OtherStepError: ``graph`` is not this model's. StepTooLargeError: the scheduled step does not fit.
        NotCompiledError: XLA cannot compile the step.
    """
    traced = retrace(request, graph, result, report, cancelled)
    if traced.for_xla:
        return verify_compiled(traced, budget_bytes, report=report, cancelled=cancelled)
    step, result, retraced = traced.measured(report, cancelled)
    measured = step.measure(result)
    compared = compare_where_it_fits(
        step.request,
        step.folded,
        result.require_schedule(),
        step.plain,
        usual=measured.compared,
        report=report,
        cancelled=cancelled,
    )
    budget, notes = step.metered_budget(budget_bytes, result)
    return verification_report(
        request,
        step.graph,
        result.require_schedule(),
        Measurements(step.plain, measured, compared, predicted_bytes=step.predicted_peak(result)),
        budget_bytes=budget,
        notes=(*retraced, *notes, *doubts_note(step.graph)),
    )


def export(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    directory: Path,
    *,
    budget_bytes: int | Budget | None,
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    """Write the export folder.

    It holds the SavedModel, an example, the graph, the schedule and the report. A graph of another device,
    whose kernels use memory differently, gets the rules of this one; the report's notes say so. The folder
    appears whole or not at all. A step that fails verification is written too, its report saying so, only
    where its gradients are right; wrong gradients are refused.

    Raises:
        VerificationError: the gradients are not the plain step's. ExportError: the folder cannot be written.
        OtherStepError: ``graph`` is not this model's. StepTooLargeError: the scheduled step does not fit.
    """
    traced = retrace(request, graph, result, report, cancelled)
    if traced.for_xla:
        return export_compiled(traced, directory, budget_bytes, report=report, cancelled=cancelled)
    step, result, retraced = traced.measured(report, cancelled)
    budget, notes = step.metered_budget(budget_bytes, result)
    result, arranged = step.arranged(result, budget)
    measured = step.measure(result)
    return write_folder(
        step, result, measured, directory, budget, (*retraced, *notes, *arranged, *doubts_note(step.graph))
    )


def export_within(
    request: ModelRequest,
    graph: Graph,
    first: SolveResult,
    budget: Budget,
    directory: Path,
    *,
    solver: StepSolver,
    report: Report,
    cancelled: Cancelled,
) -> RunOutcome:
    """Export ``first`` if its measured peak is within ``budget``.

    Otherwise solve for less. It goes on as ``run`` does, until a measured peak fits.

    Raises:
        OtherStepError: ``graph`` is not this model's. Others as ``run``.
    """
    traced = retrace(request, graph, first, report, cancelled)
    if traced.for_xla:
        return export_compiled_within(
            traced, budget, directory, solver=solver, report=report, cancelled=cancelled
        )
    step, first, retraced = traced.measured(report, cancelled)
    return _within_budget(step, budget, directory, solver=solver, first=first, retraced=retraced)


def run(
    request: ModelRequest,
    budget: Budget,
    directory: Path,
    *,
    costs: CostOptions,
    solver: StepSolver,
    report: Report,
    cancelled: Cancelled,
) -> RunOutcome:
    """Profile and solve until the peak fits; then verify and export.

    The step is emitted and measured, and the budget to solve for is corrected, until the peak fits. A share
    is of the plain step's *measured* peak, or of the predicted one where the plain step does not fit.
    ``costs`` may take op costs that were measured before; peaks, times and gradients in the report are always
    of this run. A step for XLA is fitted by compiling (``checkmate.planning.compiled.export``).

    Raises:
        NoScheduleError: there is no schedule for the budget. VerificationError: none whose measured peak
        fits, or wrong gradients. Others as ``export``.
    """
    expect_tasks()
    folded = session.prepare(request, report=report, cancelled=cancelled)
    request = session.with_kernels_of(request, folded.graph)
    if folded.traced.loaded.jit_compiled:
        return run_compiled(
            request, folded, budget, directory, solver=solver, report=report, cancelled=cancelled
        )
    _refuse_hopeless(folded.graph, budget)
    too_large: StepTooLargeError | None = None
    try:
        folded = with_costs(folded, costs, request=request, report=report, cancelled=cancelled)
    except StepTooLargeError as error:
        too_large = error
        folded = with_costs_of_scheduled_step(
            request, folded, budget, error, solver.solve_above_minimum, report=report, cancelled=cancelled
        )
    plain = measure_plain(request, folded, too_large=too_large, report=report, cancelled=cancelled)
    return _within_budget(
        MeasuredStep(request, folded, plain, report, cancelled), budget, directory, solver=solver
    )


def _refuse_hopeless(graph: Graph, budget: Budget) -> None:
    """Raise an error if no schedule can come near ``budget``.

    This is before anything is measured.

    Raises:
        BudgetBelowMinimumError: some op needs more by itself, and by far: measuring may correct a size.
    """
    if budget.bytes_ is not None and budget.bytes_ < _HOPELESS * working_set_bound(graph).bytes:
        error = below_minimum(graph, budget.bytes_)
        assert error is not None
        raise error


def _within_budget(
    step: MeasuredStep,
    budget: Budget,
    directory: Path,
    *,
    solver: StepSolver,
    first: SolveResult | None = None,
    retraced: tuple[str, ...] = (),
) -> RunOutcome:
    """Fit, write and reload until the reloaded step keeps the budget too.

    ``first`` is a schedule to try before any other. If none keeps it, the last one written stays.
    """
    expect_tasks(EXACT)  # gradients are compared there
    goal = allowed = _allowed_bytes(step, budget, solver)
    outcome: RunOutcome | None = None
    for attempt in range(1, _EXPORTS + 1):
        try:
            fitted = _fitted(step, goal, solver, first if attempt == 1 else None)
            measured = fitted.require_fit()
        except (NoScheduleError, VerificationError) as error:
            if outcome is None or isinstance(error, SolveCancelledError):
                raise
            break
        notes = (
            *retraced,
            *predicted_share_note(budget, allowed, step.plain),
            *replaced_note(first, fitted.result, allowed),
            fitted.margin,
            *reload_margin_note(allowed - goal),
            *costs_note(step.graph),
            *doubts_note(step.graph),
            *step.folded.traced.loaded.notes,
        )
        try:
            found = write_folder(step, fitted.result, measured, directory, allowed, notes)
        except StepTooLargeError:  # the reloaded step, whose allocator has another history
            if attempt == _EXPORTS:
                if outcome is None:
                    raise
                break
            goal -= int(_RELOADED_OVER * allowed)
            continue
        outcome = RunOutcome(found, fitted.result, step.graph)
        reloaded = int(found.peak_bytes["reloaded_measured"] or 0)
        if reloaded <= allowed or attempt == _EXPORTS:
            break
        over = format_bytes(reloaded - allowed)
        step.report(Progress("solve", message=f"the reloaded step is over by {over}: solving for less"))
        goal = goal_after_reload(goal, allowed, measured.peak_bytes, reloaded)
    assert outcome is not None  # the loop raises unless it has written one
    return outcome


def goal_after_reload(goal: int, allowed: int, measured: int, reloaded: int) -> int:
    """Return the peak to fit the next schedule to, in bytes.

    The last one showed ``measured`` bytes before it was saved and ``reloaded`` bytes after, more than the
    ``allowed`` ones. The next one may take as much more after reloading, or as many times more.
    """
    by_difference = goal - (reloaded - allowed) - int((1 - _SAFETY) * allowed)
    by_ratio = int(_SAFETY * allowed * measured / reloaded)
    return min(by_difference, by_ratio)


def _allowed_bytes(step: MeasuredStep, budget: Budget, solver: StepSolver) -> int:
    """Return what the allocator's meter may show, in bytes."""
    least = 0
    if budget == Budget():  # only then is the least memory looked for, which takes a dozen solves
        ratio = max(1.0, allocated_per_requested(step.graph))
        least = int(solver.minimum_bytes(step.graph) * ratio * (2 - _SAFETY) + 2**20)
    return budget.resolve(keep_everything_peak=step.plain.peak_bytes, minimum=least)


def _fitted(step: MeasuredStep, goal: int, solver: StepSolver, first: SolveResult | None) -> BudgetFit:
    """Fit a schedule to ``goal`` bytes; try ``first`` before any other."""
    return fit(
        step.request,
        step.folded,
        step.plain.history,
        goal,
        solve=solver.solve_above_minimum,
        first=first,
        compare=step.plain.measured is not None,
        report=step.report,
        cancelled=step.cancelled,
    )


def devices() -> list[dict[str, object]]:
    """Return the devices that TensorFlow sees, and whether each can be used."""
    return session.visible_devices()
