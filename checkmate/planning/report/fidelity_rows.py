"""Measure one model at several budgets.

The rows have predictions beside what fresh processes measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from checkmate import __version__
from checkmate.backends.tf.allocator.predict import predicted_allocated, predicted_requested
from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.fresh import run_task
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.errors import CancelledError, CheckmateError
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.machine.processor import processor_name
from checkmate.machine.supported import versions
from checkmate.memory.simulate import simulate
from checkmate.planning.fitting.fit_budget import BudgetFit, fit
from checkmate.planning.plain_step import measured_plainly
from checkmate.planning.solving import StepSolver
from checkmate.planning.verification.report import gradients_equal
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.units import format_bytes, plural

if TYPE_CHECKING:
    from checkmate.backends.tf.measure.fresh_step import FreshMeasurement


Row = dict[str, Any]

_ROUNDS, _TIMING_S = 9, 40.0


def measure_model(
    request: ModelRequest,
    shares: Sequence[float],
    *,
    solver: StepSolver,
    keep: Callable[[Row], None],
    report: Report,
    cancelled: Cancelled,
) -> list[Row]:
    """Return a row per share of the plain step's measured peak.

    ``keep`` is called with each row as soon as its memory is known. Times and gradients are measured for all
    rows together at the end; the rows returned have them. Bytes and seconds. A failure is a row with the
    sentence of its error.

    Raises:
        CancelledError: the user cancelled.
    """
    try:
        request, folded, plain = measured_plainly(request, report=report, cancelled=cancelled)
    except CancelledError:
        raise
    except CheckmateError as error:
        rows = [_failed(share, error) for share in shares]
        for row in rows:
            keep(row)
        return rows
    rows, schedules = [], []
    for share in shares:
        row, schedule = _row(request, folded, plain, share, solver, report, cancelled)
        keep(row)
        rows.append(row)
        schedules.append(schedule)
    measured = [
        (row, schedule) for row, schedule in zip(rows, schedules, strict=True) if schedule is not None
    ]
    _add_times(request, folded.graph.n, measured, report, cancelled)
    _add_gradients(request, measured, report, cancelled)
    return rows


def _row(
    request: ModelRequest,
    folded: FoldedStep,
    plain: FreshMeasurement,
    share: float,
    solver: StepSolver,
    report: Report,
    cancelled: Cancelled,
) -> tuple[Row, Schedule | None]:
    allowed = int(share * plain.peak_bytes)
    facts = {
        "budget": share,
        "budget_bytes": allowed,
        "plain_peak_bytes": plain.peak_bytes,
        "ops": folded.graph.n,
        "made_with": made_with(folded.graph, plain),
    }
    try:
        fitted = fit(
            request, folded, plain.history, allowed, solve=solver.solve, report=report, cancelled=cancelled
        )
    except CancelledError:
        raise
    except CheckmateError as error:
        return {**_failed(share, error), **facts}, None
    if fitted.measured is None:
        problem = fitted.ran_out or fitted.result.message or "no schedule"
        return {**facts, "status": fitted.result.status.value, "problem": problem}, None
    return {**facts, **_memory(folded, plain, fitted)}, fitted.result.require_schedule()


def _memory(folded: FoldedStep, plain: FreshMeasurement, fitted: BudgetFit) -> Row:
    graph, schedule = folded.graph, fitted.result.require_schedule()
    steps = schedule.steps.tolist()
    measured = fitted.measured
    assert measured is not None
    timeline = simulate(graph, schedule)
    problem = ""
    if not fitted.fits:
        over = format_bytes(measured.peak_bytes - fitted.allowed_bytes)
        problem = (
            f"measured peak over the budget by {over} after {plural(fitted.attempts, 'attempt')}: the export "
            "is refused"
        )
    return {
        "status": "fits" if fitted.fits else "over",
        "problem": problem,
        "margin": fitted.margin,
        "attempts": fitted.attempts,
        "recomputations": schedule.recomputations,
        "peak_bytes": {
            "predicted": predicted_allocated(folded, graph, steps, plain.history),
            "measured": measured.peak_bytes,
            "scheduled": timeline.peak_bytes,
            "predicted_requested": graph.fixed_bytes + predicted_requested(folded, graph, steps),
            "measured_requested": measured.requested_peak_bytes,
            "fixed": graph.fixed_bytes,
        },
        "overhead": {"predicted": timeline.cost / graph.base_cost - 1},
        "seconds": {"predicted": timeline.cost, "plain_predicted": graph.base_cost},
    }


def _failed(share: float, error: CheckmateError) -> Row:
    return {"budget": share, "status": "failed", "problem": f"{type(error).__name__}: {error}"}


def _add_times(
    request: ModelRequest,
    ops: int,
    rows: Sequence[tuple[Row, Schedule]],
    report: Report,
    cancelled: Cancelled,
) -> None:
    """Time the plain step and all schedules in turns. The emitted step without recomputation is timed too."""
    if not rows:
        return
    everything = list(range(ops))
    schedules = [None, everything, *(schedule.steps.tolist() for _, schedule in rows)]
    task = {
        "do": "time_in_turns",
        "request": request.to_json(),
        "schedules": schedules,
        "rounds": _ROUNDS,
        "limit_s": _TIMING_S,
    }
    try:
        answer = run_task(task, message="timing all schedules in turns", report=report, cancelled=cancelled)
    except CancelledError:
        raise
    except CheckmateError as error:
        _note(rows, f"not timed: {error}")
        return
    plain, emitted, *scheduled = answer["seconds"]
    for (row, _), seconds in zip(rows, scheduled, strict=True):
        # Whatever else the machine does only adds time: the least of each is compared, as in the profile.
        least = min(seconds)
        row["seconds"].update(
            measured=least,
            median=statistics.median(seconds),
            plain_measured=min(plain),
            emitted_measured=min(emitted),
            rounds=len(seconds),
        )
        row["overhead"].update(measured=least / min(emitted) - 1, over_plain=least / min(plain) - 1)


def _add_gradients(
    request: ModelRequest, rows: Sequence[tuple[Row, Schedule]], report: Report, cancelled: Cancelled
) -> None:
    """Compare loss, gradients and new state with the plain step's. Both sides use the same kernels."""
    if not rows:
        return
    schedules = [schedule.steps.tolist() for _, schedule in rows]
    task = {"do": "compare_all", "request": request.to_json(), "schedules": schedules, "exact": True}
    try:
        answer = run_task(
            task, message="comparing gradients", report=report, cancelled=cancelled, environment=EXACT
        )
    except CancelledError:
        raise
    except CheckmateError as error:
        _note(rows, f"gradients not compared: {error}")
        return
    for (row, _), exact in zip(rows, answer["schedules"], strict=True):
        row["gradients"] = {
            "equal": gradients_equal({"exact": exact}),
            "bitwise": bool(exact["bitwise"]),
            "state_bitwise": bool(exact["state_bitwise"]),
            "worst": dict(exact["worst"]),
        }


def _note(rows: Sequence[tuple[Row, Schedule]], problem: str) -> None:
    for row, _ in rows:
        row["problem"] = "; ".join(filter(None, (row["problem"], problem)))


def made_with(graph: Graph, plain: FreshMeasurement) -> dict[str, Any]:
    """Return what the figures of a row depend on besides the model.

    ``checkmate``, ``tensorflow`` and ``keras`` are versions. ``kernels``: those that ran the plain step.
    ``device`` ran it. ``load``: cores that other programs took meanwhile, of ``cores``. What is not known is
    None.
    """
    return {
        "checkmate": __version__,
        "tensorflow": graph.metadata.get("tensorflow"),
        "keras": versions(["keras"]).get("keras"),
        "kernels": plain.settings.get("kernels"),
        "processor": processor_name(),
        "device": plain.device,
        "load": plain.load,
        "cores": plain.cores,
    }
