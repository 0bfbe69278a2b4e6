"""What the pipeline calls: profile, verify, export and run, on one traced step each."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkmate.cost_store import CostStore
from checkmate.errors import ExportError, FingerprintMismatchError, StepTooLargeError, VerificationError
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.origins import cache_facts, origin_words, reading_words
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest
from checkmate.tf import session
from checkmate.tf.export import example_script, measure_reloaded, save_step
from checkmate.tf.fit import Fitted, fit
from checkmate.tf.fold import FoldedStep
from checkmate.tf.fresh_costs import costed
from checkmate.tf.learn import step_fingerprint
from checkmate.tf.predict import predicted_allocated
from checkmate.tf.same_step import for_traced_step
from checkmate.tf.verify import (
    Measured,
    allocated_per_requested,
    compare_fresh,
    measure_fresh,
    verification_report,
)
from checkmate.units import Budget, format_bytes

# Chunks are lumpy: a schedule that just fits by the average slack may not by its own.
_SAFETY = 0.995
_EXPORTS = 3  # until the reloaded step, whose allocator has another history, keeps the budget too


@dataclass(frozen=True, eq=False)
class Exported:
    """What ``run`` found: the report, the schedule that fits, the graph it is for."""

    report: VerificationReport
    result: SolveResult
    graph: Graph


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
    """The graph of the model's training step, with ``measured`` or ``analytic`` costs; ``store``, ``estimated``: see ``with_costs``.

    Where the plain step does not fit the memory there is, costs are analytic, and the graph's notes say so.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    try:
        return costed(
            request,
            folded,
            costs,
            store=store,
            refresh=refresh,
            estimated=estimated,
            report=report,
            cancelled=cancelled,
        ).graph
    except StepTooLargeError as error:
        return session.estimated_because(folded, error)


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
    rate of allocated per requested bytes of the plain step.

    Raises:
        OtherStepError: ``graph`` is not this model's.
    """
    request = session.pinned(request)
    plain = _measure_plain(request, report, cancelled)
    retraced: tuple[str, ...] = ()
    if plain.fingerprint != step_fingerprint(graph):
        traced = session.prepare(request, report=report, cancelled=cancelled).graph
        graph, result, retraced = for_traced_step(traced, graph, result)
    measured = _measure_scheduled(request, result, report, cancelled)
    compared = compare_fresh(request, result.require_schedule(), report=report, cancelled=cancelled)
    budget, notes = _user_budget(budget_bytes, result, plain)
    return verification_report(
        request,
        graph,
        result.require_schedule(),
        budget_bytes=budget,
        plain=plain,
        measured=measured,
        compared=compared,
        notes=(*retraced, *notes, *_doubts(graph)),
    )


def export(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    directory: Path,
    *,
    budget_bytes: int | None,
    write: Callable[[Path, Graph, SolveResult, VerificationReport], None],
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    """Write the export folder: SavedModel, example, and by ``write`` the graph, schedule and report.

    A graph of another device, whose kernels use memory differently, gets the rules of this one; the report's notes say so.
    The folder appears whole or not at all. A step that fails verification is written too, its report saying so, only
    where its gradients are right; wrong gradients are refused.

    Raises:
        VerificationError: the gradients are not the plain step's. ExportError: the folder cannot be written.
        OtherStepError: ``graph`` is not this model's.
    """
    request = session.pinned(request)
    folded = session.prepare(request, report=report, cancelled=cancelled)
    graph, result, retraced = for_traced_step(folded.graph, graph, result)
    folded = dataclasses.replace(folded, graph=graph)
    plain = _measure_plain(request, report, cancelled)
    if plain.fingerprint != (found := step_fingerprint(graph)):
        raise FingerprintMismatchError(found=found, expected=plain.fingerprint, graph_name=request.model)
    measured = _measure_scheduled(request, result, report, cancelled)

    def write_all(folder: Path, found: VerificationReport) -> None:
        write(folder, graph, result, found)

    budget, notes = _user_budget(budget_bytes, result, plain)
    notes = (*notes, *_doubts(graph))
    return _write_folder(
        request,
        folded,
        graph,
        result,
        directory,
        budget,
        (*retraced, *notes),
        plain,
        measured,
        write_all,
        report,
        cancelled,
    )


def run(
    request: ModelRequest,
    budget: Budget,
    directory: Path,
    *,
    costs: str,
    solve: Callable[[Graph, int], SolveResult],
    minimum: Callable[[Graph], int],
    write: Callable[[Path, Graph, SolveResult, VerificationReport], None],
    store: CostStore | None = None,
    refresh: bool = False,
    report: Report,
    cancelled: Cancelled,
) -> Exported:
    """Profile, solve, emit, measure, correct until the *measured* peak is within the budget; then verify and export.

    A share is of the plain step's measured peak. ``solve`` gets the graph and a budget in requested bytes. ``store``,
    ``refresh``: costs measured before, as for ``with_costs``; peaks, times and gradients in the report are always of this run.

    Raises:
        NoScheduleError: no schedule for the budget, or none whose measured peak fits. Others as ``export``.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    with _staging(directory):
        pass  # an unwritable folder should be known before minutes of measuring
    request = session.settled(request, folded.graph)
    folded = costed(request, folded, costs, store=store, refresh=refresh, report=report, cancelled=cancelled)
    graph = folded.graph
    plain = _measure_plain(request, report, cancelled)
    ratio = max(1.0, allocated_per_requested(graph))
    allowed = budget.resolve(
        keep_everything_peak=plain.first_peak_bytes, minimum=int(minimum(graph) * ratio * (2 - _SAFETY) + 2**20)
    )
    goal = allowed
    for attempt in range(1, _EXPORTS + 1):
        fitted = fit(request, folded, plain, goal, solve=solve, report=report, cancelled=cancelled)
        measured = _require_fit(fitted)
        known = (*_known_before(graph), *_doubts(graph))
        notes = (fitted.margin, *_reload_margin(allowed - goal), *known, *folded.traced.loaded.notes)

        def write_all(folder: Path, found: VerificationReport, result: SolveResult = fitted.result) -> None:
            write(folder, graph, result, found)

        found = _write_folder(
            request,
            folded,
            graph,
            fitted.result,
            directory,
            allowed,
            notes,
            plain,
            measured,
            write_all,
            report,
            cancelled,
        )
        over = int(found.peak_bytes["reloaded_measured"] or 0) - allowed
        if over <= 0 or attempt == _EXPORTS:
            break
        goal -= over + int((1 - _SAFETY) * allowed)
    return Exported(found, fitted.result, graph)


def _reload_margin(taken: int) -> tuple[str, ...]:
    """Why the goal is below the budget, if it is."""
    if not taken:
        return ()
    return (f"{format_bytes(taken)} of the budget are left because the reloaded step's chunks lie differently",)


def _known_before(graph: Graph) -> tuple[str, ...]:
    """Since when the costs that the prediction of the time stands on are known, if any were known before."""
    return (f"op costs: {origin_words(graph)}",) if cache_facts(graph).get("ops") else ()


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
    if fitted.measured is None or not fitted.fits:
        shown = 0 if fitted.measured is None else fitted.measured.peak_bytes
        raise VerificationError(
            f"after {fitted.attempts} attempts the measured peak {format_bytes(shown)} is still over the budget "
            f"{format_bytes(fitted.allowed_bytes)}; nothing was written",
            hint=f"try a budget of {format_bytes(shown * 1.02)}",
        )
    return fitted.measured


def _measure_plain(request: ModelRequest, report: Report, cancelled: Cancelled) -> Measured:
    return measure_fresh(
        request, None, message="measuring the plain step", report=report, cancelled=cancelled, history=True
    )


def _measure_scheduled(request: ModelRequest, result: SolveResult, report: Report, cancelled: Cancelled) -> Measured:
    schedule = result.require_schedule()
    return measure_fresh(request, schedule, message="measuring the scheduled step", report=report, cancelled=cancelled)


def _user_budget(budget_bytes: int | None, result: SolveResult, plain: Measured) -> tuple[int, tuple[str, ...]]:
    if budget_bytes is not None:
        return budget_bytes, ()
    rate = max(1.0, plain.first_peak_bytes / plain.requested_peak_bytes)
    note = (
        f"the schedule's budget {format_bytes(result.budget_bytes)} counts requested bytes; the plain step's allocator "
        f"shows {rate:.3f} bytes for each"
    )
    return int(result.budget_bytes * rate), (note,)


def _write_folder(
    request: ModelRequest,
    folded: FoldedStep,
    graph: Graph,
    result: SolveResult,
    directory: Path,
    budget: int,
    notes: tuple[str, ...],
    plain: Measured,
    measured: Measured,
    write: Callable[[Path, VerificationReport], None],
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    schedule = result.require_schedule()
    compared = compare_fresh(request, schedule, report=report, cancelled=cancelled)
    batch = session.flat_batch(folded.traced.loaded)
    with _staging(directory) as staged:
        report(Progress("export", message="writing the SavedModel"))
        save_step(folded, schedule, staged / "saved_model")
        reloaded = measure_reloaded(staged / "saved_model", batch, report=report, cancelled=cancelled)
        found = verification_report(
            request,
            graph,
            schedule,
            budget_bytes=budget,
            plain=plain,
            measured=measured,
            compared=compared,
            reloaded=reloaded,
            predicted_bytes=predicted_allocated(folded, graph, schedule.steps.tolist(), plain.history),
            notes=notes,
        )
        if not found.gradients["equal"]:
            raise VerificationError(
                f"{found.problems[0]}; nothing was written",
                hint="please report the model: this is a fault of checkmate",
            )
        (staged / "train_example.py").write_text(example_script(folded, batch), encoding="utf-8")
        write(staged, found)
        _replace(staged, directory)
    return found


@contextmanager
def _staging(directory: Path) -> Iterator[Path]:
    """A new folder beside ``directory`` that vanishes unless it was moved into place.

    Raises:
        ExportError: the parent cannot be written to, or ``directory`` is a file.
    """
    if directory.exists() and not directory.is_dir():
        raise ExportError(f"{directory} is a file, not a folder", hint="choose another output folder")
    parent = directory.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if directory.exists() and not os.access(directory, os.W_OK):
            raise PermissionError(13, "Permission denied")
        staged = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=parent))
    except OSError as error:
        raise ExportError(
            f"cannot write to {parent}: {error.strerror or error}", hint="choose another output folder"
        ) from error
    try:
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _replace(staged: Path, directory: Path) -> None:
    """Put ``staged`` in the place of ``directory``; an earlier export there is removed last."""
    os.chmod(staged, 0o755)
    if not directory.exists():
        os.rename(staged, directory)
        return
    if any(directory.iterdir()) and not (directory / "schedule.json").exists():
        raise ExportError(f"{directory} is not empty and holds no earlier export", hint="choose another output folder")
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}-old-", dir=directory.absolute().parent))
    os.rename(directory, old / "old")
    os.rename(staged, directory)
    shutil.rmtree(old, ignore_errors=True)


def devices() -> list[dict[str, object]]:
    """The devices TensorFlow sees, and whether each can be used."""
    return session.visible_devices()
