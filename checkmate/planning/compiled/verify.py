"""Measure a step that XLA compiles beside the plain one, compiled too.

Its peak is XLA's own, known before it runs. Then both run in fresh processes, and gradients are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.backends.tf.measure.fresh_step import measure_fresh
from checkmate.backends.tf.xla.fit import XlaFit
from checkmate.backends.tf.xla.tied import XlaEmission
from checkmate.backends.xla_policy.waits import WaitPolicy, why_less
from checkmate.ir.graph import CostOrigin, Graph
from checkmate.ir.report import VerificationReport
from checkmate.planning.compiled.search import CompiledSearch, FittedStep
from checkmate.planning.compiled.step import TracedForXla
from checkmate.planning.measured_step import Retraced
from checkmate.planning.solving import StepSolver, keep_everything_peak
from checkmate.planning.verification.comparing import compare_where_it_fits
from checkmate.planning.verification.plain import Plain
from checkmate.planning.verification.report import Measurements, verification_report
from checkmate.progress import Cancelled, Progress, Report
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget


def verify_compiled(
    traced: Retraced, budget: int | Budget | None, *, report: Report, cancelled: Cancelled
) -> VerificationReport:
    """Measure a schedule for XLA as it is; write nothing.

    ``budget``: as for ``given_schedule``.

    Raises:
        NotCompiledError: XLA cannot compile the step. StepTooLargeError: the scheduled step does not fit.
    """
    given = given_schedule(traced, budget, report, cancelled)
    step = given.search.step
    found = measurements(given.search, given.fitted, step.measured_plain(given.search.plain))
    return verification_report(
        step.request,
        step.graph,
        given.fitted.result.require_schedule(),
        found,
        budget_bytes=given.allowed,
        notes=(*traced.notes, *notes_on(given.search, given.fitted)),
    )


@dataclass(frozen=True, eq=False)
class GivenSchedule:
    """A schedule of a file as XLA compiles it. ``allowed``: the bytes that it may take."""

    search: CompiledSearch
    fitted: FittedStep
    allowed: int


def given_schedule(
    traced: Retraced, budget: int | Budget | None, report: Report, cancelled: Cancelled
) -> GivenSchedule:
    """Compile the plain step and the schedule of a file.

    ``budget``: what the compiled step may take. None means the schedule's own budget. That counts the graph's
    bytes, of which XLA takes as many as it does of the plain step's.

    Raises:
        NotCompiledError: XLA cannot compile the step.
    """
    step = TracedForXla(traced.request, traced.folded, report, cancelled)
    search = begun(step, StepSolver("auto", SolveOptions(), report, cancelled))
    plain, result = search.plain.memory, traced.result
    if budget is None:
        fixed, everything = step.graph.fixed_bytes, keep_everything_peak(step.graph)
        share = (result.budget_bytes - fixed) / max(1, everything - fixed)
        allowed = plain.peak_bytes - plain.temp_bytes + int(min(1.0, share) * plain.temp_bytes)
    else:
        allowed = search.allowed_bytes(budget) if isinstance(budget, Budget) else budget
    return GivenSchedule(search, search.as_given(result, allowed), allowed)


def begun(step: TracedForXla, solver: StepSolver) -> CompiledSearch:
    """Compile the plain step; return the search for a scheduled one."""
    step.report(Progress("compile", message="compiling the plain step with XLA"))
    return CompiledSearch(step, step.compiled(None), solver)


def measurements(search: CompiledSearch, fitted: FittedStep, plain: Plain) -> Measurements:
    """Run a compiled schedule in fresh processes, alone and compared."""
    step, schedule = search.step, fitted.result.require_schedule()
    xla = emission_of(search, fitted)
    measured = measure_fresh(
        step.request,
        schedule,
        message="measuring the scheduled step, compiled by XLA",
        report=step.report,
        cancelled=step.cancelled,
        region=xla.region,
        xla=xla,
    )
    compared = compare_where_it_fits(
        step.request, step.folded, schedule, plain, xla=xla, report=step.report, cancelled=step.cancelled
    )
    return Measurements(
        plain,
        measured,
        compared,
        predicted_bytes=fitted.fit.memory.peak_bytes,
        plain_predicted_bytes=search.plain.memory.peak_bytes,
        live_bytes=fitted.fit.memory.live_by_step(len(schedule.steps)),
    )


def emission_of(search: CompiledSearch, fitted: FittedStep) -> XlaEmission:
    """Return how a fitted step is emitted."""
    return search.step.emission(fitted.fit.memory, fitted.fit.tied)


def notes_on(search: CompiledSearch, fitted: FittedStep) -> tuple[str, ...]:
    """Return what a report says of how a step was compiled."""
    graph = search.step.graph
    return (
        fitted.note,
        _costs_note(graph),
        *_tied_note(fitted.fit),
        *search.step.folded.traced.loaded.notes,
    )


def _costs_note(graph: Graph) -> str:
    if graph.cost_origin is not CostOrigin.ANALYTIC:
        return "the schedule was chosen by what ops cost one by one: XLA fuses them, and then they cost less"
    return "the schedule was chosen by estimates: XLA fuses ops, so seconds are not predicted"


def _tied_note(fit: XlaFit) -> tuple[str, ...]:
    if fit.schedule is not None and not fit.extra_steps:
        return (f"nothing is recomputed: {why_less(fit.tied)}",)
    if fit.tied is not WaitPolicy.ALL:
        return ()
    return ("all steps wait for those before them: with ties of recomputations alone XLA needs more",)
