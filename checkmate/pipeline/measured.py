"""What the pipeline calls: profile, verify, export and run, on one traced step each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkmate.errors import StepTooLargeError, VerificationError
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.machine.cost_origin import cache_facts, origin_words, reading_words
from checkmate.machine.cost_store import CostStore
from checkmate.memory.simulate import simulate
from checkmate.pipeline.comparing import compare_where_it_fits
from checkmate.pipeline.fit_budget import Fitted, fit
from checkmate.pipeline.plain import Plain, measure_plain
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest
from checkmate.tf.allocator.predict import predicted_allocated
from checkmate.tf.costs import session
from checkmate.tf.costs.fresh import with_costs_in_child, with_costs_of_scheduled_step
from checkmate.tf.costs.options import CostOptions
from checkmate.tf.emit.folder import put_in_place, staging
from checkmate.tf.emit.same_step import for_traced_step
from checkmate.tf.emit.saved_model import example_script, measure_reloaded, save_step
from checkmate.tf.measure.verify import (
    Measured,
    Measurements,
    allocated_per_requested,
    measure_fresh,
    verification_report,
)
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.units import Budget, format_bytes

# Chunks are lumpy: a schedule that just fits by the average slack may not by its own.
_SAFETY = 0.995
_EXPORTS = 3  # until the reloaded step, whose allocator has another history, keeps the budget too
_RELOADED_OVER = 0.05  # of the budget: by how much a reloaded step is taken to be over that ran out of memory

Write = Callable[[Path, Graph, SolveResult, VerificationReport], None]


@dataclass(frozen=True, eq=False)
class Exported:
    """What ``run`` found: the report, the schedule that fits, the graph it is for."""

    report: VerificationReport
    result: SolveResult
    graph: Graph


@dataclass(frozen=True, eq=False)
class _Step:
    """The step that is measured and written: as folded, with the graph that is solved, and what is known of it run plainly."""

    request: ModelRequest
    folded: FoldedStep
    plain: Plain
    report: Report
    cancelled: Cancelled

    @property
    def graph(self) -> Graph:
        return self.folded.graph

    def predicted(self, result: SolveResult) -> int:
        """The peak that the meter should show."""
        steps = result.require_schedule().steps.tolist()
        return predicted_allocated(self.folded, self.graph, steps, self.plain.history)


def profile(
    request: ModelRequest,
    *,
    costs: str,
    store: CostStore | None = None,
    refresh: bool = False,
    estimated: Callable[[Graph], object] | None = None,
    report: Report,
    cancelled: Cancelled,
) -> Graph:
    """The graph of the model's training step, with ``measured`` or ``analytic`` costs; ``store``, ``estimated``: see ``CostOptions``.

    Where the plain step does not fit the memory there is, costs are analytic, and the graph's notes say so.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    try:
        options = CostOptions(costs, store=store, refresh=refresh, estimated=estimated)
        return with_costs_in_child(request, folded, options, report=report, cancelled=cancelled).graph
    except StepTooLargeError as error:
        return session.estimated_graph(folded, error)


def verify(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    *,
    budget_bytes: int | None,
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    """Measure the scheduled step against the plain one; nothing is written.

    ``budget_bytes``: what the allocator may show; None: the schedule's own budget, which counts requested bytes, at the
    rate of allocated per requested bytes of the plain step. Where the plain step does not fit, gradients are compared where
    it does, and the report says where.

    Raises:
        OtherStepError: ``graph`` is not this model's. StepTooLargeError: the scheduled step does not fit.
    """
    step, result, retraced = _step(request, graph, result, report, cancelled)
    graph = step.graph
    measured = _measured(step, result)
    compared = compare_where_it_fits(
        step.request, step.folded, result.require_schedule(), step.plain, report=report, cancelled=cancelled
    )
    budget, notes = _user_budget(budget_bytes, result, step)
    return verification_report(
        request,
        graph,
        result.require_schedule(),
        Measurements(step.plain, measured, compared, predicted_bytes=step.predicted(result)),
        budget_bytes=budget,
        notes=(*retraced, *notes, *_doubts(graph)),
    )


def export(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    directory: Path,
    *,
    budget_bytes: int | None,
    write: Write,
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    """Write the export folder: SavedModel, example, and by ``write`` the graph, schedule and report.

    A graph of another device, whose kernels use memory differently, gets the rules of this one; the report's notes say so.
    The folder appears whole or not at all. A step that fails verification is written too, its report saying so, only
    where its gradients are right; wrong gradients are refused.

    Raises:
        VerificationError: the gradients are not the plain step's. ExportError: the folder cannot be written.
        OtherStepError: ``graph`` is not this model's. StepTooLargeError: the scheduled step does not fit.
    """
    step, result, retraced = _step(request, graph, result, report, cancelled)
    measured = _measured(step, result)
    budget, notes = _user_budget(budget_bytes, result, step)
    return _write_folder(
        step, result, measured, directory, budget, (*retraced, *notes, *_doubts(step.graph)), write
    )


def export_within(
    request: ModelRequest,
    graph: Graph,
    first: SolveResult,
    budget: Budget,
    directory: Path,
    *,
    solve: Callable[[Graph, int], SolveResult],
    minimum: Callable[[Graph], int],
    write: Write,
    report: Report,
    cancelled: Cancelled,
) -> Exported:
    """Export ``first`` if its measured peak is within ``budget``, else what is solved for less until one is; as ``run`` does.

    Raises:
        As ``run``. OtherStepError: ``graph`` is not this model's.
    """
    with staging(directory):
        pass  # an unwritable folder should be known before minutes of measuring
    step, first, retraced = _step(request, graph, first, report, cancelled)
    return _within_budget(
        step, budget, directory, solve=solve, minimum=minimum, write=write, first=first, retraced=retraced
    )


def run(
    request: ModelRequest,
    budget: Budget,
    directory: Path,
    *,
    costs: str,
    solve: Callable[[Graph, int], SolveResult],
    minimum: Callable[[Graph], int],
    write: Write,
    store: CostStore | None = None,
    refresh: bool = False,
    report: Report,
    cancelled: Cancelled,
) -> Exported:
    """Profile, solve, emit, measure, correct until the *measured* peak is within the budget; then verify and export.

    A share is of the plain step's measured peak, or of the predicted one where the plain step does not fit. ``solve`` gets the
    graph and a budget in requested bytes. ``store``, ``refresh``: costs measured before, as for ``CostOptions``; peaks, times and
    gradients in the report are always of this run.

    Raises:
        NoScheduleError: no schedule for the budget, or none whose measured peak fits. Others as ``export``.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    with staging(directory):
        pass  # an unwritable folder should be known before minutes of measuring
    request = session.with_kernels_of(request, folded.graph)
    too_large: StepTooLargeError | None = None
    try:
        options = CostOptions(costs, store=store, refresh=refresh)
        folded = with_costs_in_child(request, folded, options, report=report, cancelled=cancelled)
    except StepTooLargeError as error:
        too_large = error
        folded = with_costs_of_scheduled_step(
            request, folded, budget, error, solve, report=report, cancelled=cancelled
        )
    plain = measure_plain(request, folded, too_large=too_large, report=report, cancelled=cancelled)
    step = _Step(request, folded, plain, report, cancelled)
    return _within_budget(step, budget, directory, solve=solve, minimum=minimum, write=write)


def _within_budget(
    step: _Step,
    budget: Budget,
    directory: Path,
    *,
    solve: Callable[[Graph, int], SolveResult],
    minimum: Callable[[Graph], int],
    write: Write,
    first: SolveResult | None = None,
    retraced: tuple[str, ...] = (),
) -> Exported:
    """Fit, write and reload until what is reloaded keeps the budget too. ``first``: a schedule to try before any other."""
    ratio = max(1.0, allocated_per_requested(step.graph))
    allowed = budget.resolve(
        keep_everything_peak=step.plain.peak_bytes,
        minimum=int(minimum(step.graph) * ratio * (2 - _SAFETY) + 2**20),
    )
    goal = allowed
    for attempt in range(1, _EXPORTS + 1):
        fitted = fit(
            step.request,
            step.folded,
            step.plain.history,
            goal,
            solve=solve,
            first=first if attempt == 1 else None,
            report=step.report,
            cancelled=step.cancelled,
        )
        measured = _require_fit(fitted)
        notes = (
            *retraced,
            *_share_of_predicted(budget, allowed, step.plain),
            *_another(first, fitted.result, allowed),
            fitted.margin,
            *_reload_margin(allowed - goal),
            *_costs_note(step.graph),
            *_doubts(step.graph),
            *step.folded.traced.loaded.notes,
        )
        try:
            found = _write_folder(step, fitted.result, measured, directory, allowed, notes, write)
        except StepTooLargeError:  # the reloaded step, whose allocator has another history
            if attempt == _EXPORTS:
                raise
            goal -= int(_RELOADED_OVER * allowed)
            continue
        over = int(found.peak_bytes["reloaded_measured"] or 0) - allowed
        if over <= 0 or attempt == _EXPORTS:
            break
        step.report(
            Progress("solve", message=f"the reloaded step is over by {format_bytes(over)}: solving for less")
        )
        goal -= over + int((1 - _SAFETY) * allowed)
    return Exported(found, fitted.result, step.graph)


def _step(
    request: ModelRequest, graph: Graph, result: SolveResult, report: Report, cancelled: Cancelled
) -> tuple[_Step, SolveResult, tuple[str, ...]]:
    """The step that ``graph`` (of a file) describes, traced again here; ``result`` for it, and notes on what changed.

    Raises:
        OtherStepError: ``graph`` is not this model's.
    """
    request = session.with_kernels_here(request)
    folded = session.prepare(request, report=report, cancelled=cancelled)
    graph, result, retraced = for_traced_step(folded.graph, graph, result)
    folded = dataclasses.replace(folded, graph=graph)
    plain = measure_plain(request, folded, report=report, cancelled=cancelled)
    return _Step(request, folded, plain, report, cancelled), result, retraced


def _measured(step: _Step, result: SolveResult) -> Measured:
    message = "measuring the scheduled step"
    schedule = result.require_schedule()
    return measure_fresh(
        step.request, schedule, message=message, report=step.report, cancelled=step.cancelled
    )


def _share_of_predicted(budget: Budget, allowed: int, plain: Plain) -> tuple[str, ...]:
    """What a share is of, where the plain step was not measured."""
    if budget.share is None or plain.measured is not None:
        return ()
    peak = format_bytes(plain.peak_bytes)
    return (
        f"the budget {format_bytes(allowed)} is {100 * budget.share:g} % of the plain step's predicted peak {peak}",
    )


def _another(first: SolveResult | None, result: SolveResult, allowed: int) -> tuple[str, ...]:
    """That another schedule was written than the one that was asked for."""
    if first is None or result is first:
        return ()
    asked, found = format_bytes(first.peak_bytes or 0), format_bytes(result.peak_bytes or 0)
    return (
        f"the schedule that was asked for ({asked} of requested bytes) was over {format_bytes(allowed)} on the allocator's meter: "
        f"one of {found} took its place",
    )


def _reload_margin(taken: int) -> tuple[str, ...]:
    """Why the goal is below the budget, if it is."""
    if not taken:
        return ()
    return (
        f"{format_bytes(taken)} of the budget are left because the reloaded step's chunks lie differently",
    )


def _costs_note(graph: Graph) -> tuple[str, ...]:
    """Since when the costs that the prediction of the time stands on are known, or on what else they were measured."""
    if measured_on := graph.metadata.get("profile", {}).get("measured_on"):
        return (f"op costs: measured on {measured_on}, because the plain step does not fit",)
    estimated = tuple(
        note for note in graph.metadata.get("notes", ()) if str(note).startswith(session.ESTIMATED)
    )
    return (f"op costs: {origin_words(graph)}",) if cache_facts(graph).get("ops") else estimated


def _doubts(graph: Graph) -> tuple[str, ...]:
    """Why the costs that the schedule was chosen by are doubtful, if they are."""
    words = reading_words(graph)
    return (words,) if words else ()


def _require_fit(fitted: Fitted) -> Measured:
    """What was measured of a schedule within the budget.

    Raises:
        NoScheduleError: there is no schedule. VerificationError: none that was measured keeps the budget.
    """
    fitted.result.require_schedule()
    if fitted.measured is None and fitted.ran_out:
        raise VerificationError(
            f"no schedule within {format_bytes(fitted.allowed_bytes)} that was tried has room in the device's memory: "
            f"{fitted.ran_out}; nothing was written",
            hint="try a smaller budget, or a smaller batch",
        )
    if fitted.measured is None or not fitted.fits:
        shown = 0 if fitted.measured is None else fitted.measured.peak_bytes
        raise VerificationError(
            f"after {fitted.attempts} attempts the measured peak {format_bytes(shown)} is still over the budget "
            f"{format_bytes(fitted.allowed_bytes)}; nothing was written",
            hint=f"try a budget of {format_bytes(shown * 1.02)}",
        )
    return fitted.measured


def _user_budget(budget_bytes: int | None, result: SolveResult, step: _Step) -> tuple[int, tuple[str, ...]]:
    if budget_bytes is not None:
        return budget_bytes, ()
    seen = step.plain.measured
    requested = simulate(step.graph, Schedule.plain(step.graph)).peak_bytes
    rate = max(1.0, step.plain.peak_bytes / (requested if seen is None else seen.requested_peak_bytes))
    should = "should show" if seen is None else "shows"
    note = (
        f"the schedule's budget {format_bytes(result.budget_bytes)} counts requested bytes; the plain step's allocator "
        f"{should} {rate:.3f} bytes for each"
    )
    return int(result.budget_bytes * rate), (note,)


def _write_folder(
    step: _Step,
    result: SolveResult,
    measured: Measured,
    directory: Path,
    budget: int,
    notes: tuple[str, ...],
    write: Write,
) -> VerificationReport:
    schedule = result.require_schedule()
    report, cancelled = step.report, step.cancelled
    compared = compare_where_it_fits(
        step.request, step.folded, schedule, step.plain, report=report, cancelled=cancelled
    )
    batch = session.flat_batch(step.folded.traced.loaded)
    with staging(directory) as staged:
        report(Progress("export", message="writing the SavedModel"))
        save_step(step.folded, schedule, staged / "saved_model")
        saved, device = staged / "saved_model", step.request.device
        reloaded = measure_reloaded(saved, batch, device=device, report=report, cancelled=cancelled)
        found = verification_report(
            step.request,
            step.graph,
            schedule,
            Measurements(step.plain, measured, compared, reloaded, step.predicted(result)),
            budget_bytes=budget,
            notes=notes,
        )
        if found.gradients["equal"] is False:
            raise VerificationError(
                f"{found.problems[0]}; nothing was written",
                hint="please report the model: this is a fault of checkmate",
            )
        (staged / "train_example.py").write_text(example_script(step.folded, batch), encoding="utf-8")
        write(staged, step.graph, result, found)
        put_in_place(staged, directory)
    return found


def devices() -> list[dict[str, object]]:
    """The devices TensorFlow sees, and whether each can be used."""
    return session.visible_devices()
