"""Check that the scheduled step does what was promised: its gradients, its peak and its time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkmate.backends.outcomes import reported_seconds
from checkmate.backends.tf.comparing import GRADIENTS, Compared
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.backends.tf.plain import Plain
from checkmate.ir import Graph, Schedule, Timeline, VerificationReport
from checkmate.machine.cost_origin import taken_words
from checkmate.machine.load import Reading
from checkmate.memory.simulate import simulate
from checkmate.request import ModelRequest
from checkmate.units import format_bytes

# Two runs of the plain step may differ by rounding; scheduled gradients may differ by a few times that.
_SPREAD_FACTOR = 10.0
_ROUNDING = 1e-5
_STEADY = 0.02  # of the least peak: steps that differ by less are called the same


@dataclass(frozen=True, eq=False)
class Measurements:
    """The measurements of a schedule to report on. ``reloaded``: the exported step, loaded again.
    ``predicted_bytes``: the peak by the allocator's replica, or by XLA; None: predict it from requested bytes
    and the plain step's slack. ``live_bytes``: per step of the schedule, by XLA; empty if they were
    measured."""

    plain: Plain
    measured: FreshMeasurement
    compared: Compared
    reloaded: Mapping[str, Any] | None = None
    predicted_bytes: int | None = None
    plain_predicted_bytes: int | None = None
    live_bytes: tuple[int, ...] = ()

    @property
    def reloaded_peak(self) -> int | None:
        return None if self.reloaded is None else int(self.reloaded["peak_bytes"])


def verification_report(
    request: ModelRequest,
    graph: Graph,
    schedule: Schedule,
    found: Measurements,
    *,
    budget_bytes: int,
    notes: tuple[str, ...] = (),
) -> VerificationReport:
    """Return what was measured beside what was predicted; ``problems`` says what is not as promised. Seconds
    are predicted as profiled (``predicted``) and scaled by what the plain step takes now
    (``predicted_today``).
    """
    timeline = simulate(graph, schedule)
    plain, measured, compared = found.plain, found.measured, found.compared
    all_notes = (
        plain.note,
        compared.note,
        *notes,
        _busy_note(plain.measured, measured),
        _varying_peak_note(measured.peaks, (found.reloaded or {}).get("peaks", ())),
        # why equal bits could not be asked for, if they could not
        "" if compared.found is None else str(compared.found["exact"].get("note", "")),
    )
    return VerificationReport(
        model=request.shown,
        device=measured.device,
        batch_size=graph.batch_size,
        budget_bytes=budget_bytes,
        gradients=_gradients(compared),
        loss=_loss(compared, measured),
        peak_bytes=_peaks(graph, timeline, found),
        seconds=reported_seconds(
            graph,
            timeline.cost,
            measured.seconds,
            None if plain.measured is None else plain.measured.seconds,
        ),
        recomputations=schedule.recomputations,
        steps=len(schedule.steps),
        problems=tuple(_problems(budget_bytes, found)),
        settings=dict(measured.settings),
        notes=tuple(note for note in all_notes if note),
        plain=plain.facts(),
        live_bytes=found.live_bytes or measured.curve,
    )


def _peaks(graph: Graph, timeline: Timeline, found: Measurements) -> dict[str, int | None]:
    plain_peak = simulate(graph, Schedule.plain(graph)).peak_bytes
    slack = graph.origin.allocated_per_requested
    seen, predicted, plain = found.plain.measured, found.predicted_bytes, found.plain_predicted_bytes
    if plain is None:
        plain = found.plain.predicted_bytes if seen is None else round(plain_peak * slack)
    return {
        "predicted": round(timeline.peak_bytes * slack) if predicted is None else predicted,
        "measured": found.measured.peak_bytes,
        "predicted_requested": timeline.peak_bytes,
        "measured_requested": found.measured.requested_peak_bytes,
        "plain_predicted": plain,
        "plain_predicted_requested": plain_peak,
        "plain_measured": None if seen is None else seen.first_peak_bytes,
        "plain_measured_requested": None if seen is None else seen.requested_peak_bytes,
        "reloaded_measured": found.reloaded_peak,
    }


def _varying_peak_note(*processes: Sequence[int]) -> str:
    """Return a note if some steps of a process needed more than others; ``processes``: peaks of each."""
    varying = [peaks for peaks in processes if peaks and max(peaks) > (1 + _STEADY) * min(peaks)]
    if not varying:
        return ""
    peaks = max(varying, key=max)
    least, most = format_bytes(min(peaks)), format_bytes(max(peaks))
    return (
        f"the peak differs from step to step: {least} to {most} in {len(peaks)} steps; longer training may "
        "need more"
    )


def _busy_note(plain: FreshMeasurement | None, measured: FreshMeasurement) -> str:
    readings = (Reading(step.load, step.cores) for step in (plain, measured) if step)
    worst = max(readings, key=lambda reading: reading.doubt)
    if not worst.is_busy:
        return ""
    return (
        f"seconds were measured on a busy machine ({taken_words(worst)}); they are longer than on a quiet one"
    )


def _gradients(compared: Compared) -> dict[str, Any]:
    where = {
        "compared": compared.what,
        "batch_size": compared.batch or None,
        "device": compared.device or None,
    }
    if compared.found is None:
        unknown = (
            "equal",
            "bitwise",
            "state_bitwise",
            "worst",
            "worst_of_largest",
            "plain_rerun_relative_error",
            "overall_relative_error",
        )
        return {**dict.fromkeys(unknown), **where, "count": 0}
    exact, usual = compared.found["exact"], compared.found["usual"]
    return {
        "equal": gradients_equal(compared.found),
        "bitwise": bool(exact["bitwise"]),
        "state_bitwise": bool(exact["state_bitwise"]),
        "worst": dict(usual["worst"]),
        "worst_of_largest": dict(usual["worst_of_largest"]),
        "plain_rerun_relative_error": usual["plain_rerun_relative_error"],
        "overall_relative_error": usual["overall_relative_error"],
        "exact_worst": dict(exact["worst"]),
        "exact_plain_rerun_relative_error": exact["plain_rerun_relative_error"],
        "count": exact["gradients"],
        "steps": exact.get("steps") or 1,
        **where,
    }


def _loss(compared: Compared, measured: FreshMeasurement) -> dict[str, float | None]:
    if compared.found is None:
        return {"plain": None, "optimized": measured.loss}
    return dict(compared.found["usual"]["loss"])


def gradients_equal(compared: Mapping[str, Any]) -> bool:
    """Return whether what was compared counts as equal. It does if it is bitwise equal with the same kernels,
    as near as sums in another order are, or within a few times the plain step's own spread. Counters and
    random seeds must be the same.
    """
    exact = compared["exact"]
    if not exact.get("whole_equal", True):
        return False
    if exact["bitwise"] or float(exact["overall_relative_error"]) <= float(exact.get("sum_rounding", 0.0)):
        return True
    spread = float(exact["plain_rerun_relative_error"])
    worst = float(exact["worst"]["relative_error"])
    return 0 < spread < math.inf and worst <= max(_SPREAD_FACTOR * spread, _ROUNDING)


def _problems(budget_bytes: int, found: Measurements) -> list[str]:
    compared, peak, reloaded = found.compared, found.measured.peak_bytes, found.reloaded_peak
    problems: list[str] = []
    if compared.found is None:
        problems.append(
            f"the {compared.what} were not compared: the plain step fits at no batch that was tried"
        )
    elif not gradients_equal(compared.found):
        problems.append(_difference(compared))
    if peak > budget_bytes:
        problems.append(_over("the step's measured peak", peak, budget_bytes))
    if reloaded is not None and reloaded > budget_bytes:
        problems.append(_over("the reloaded step's measured peak", reloaded, budget_bytes))
    return problems


def _difference(compared: Compared) -> str:
    assert compared.found is not None
    worst = compared.found["exact"]["worst"]
    error = float(worst["relative_error"])
    by = f"differs by {error:.2g} (relative)"
    if math.isinf(error):
        by = "is infinite or not a number where the plain step's is not, or the other way round"
    if compared.what == GRADIENTS:
        return f"the gradient of {worst['name']} {by}"
    if not compared.found["exact"]["whole_equal"]:
        return "a whole number among the variables and results is not the plain step's"
    return f"{worst['name']} {by}"


def _over(what: str, peak: int, budget: int) -> str:
    percent = 100 * (peak / budget - 1)
    return f"{what} {format_bytes(peak)} is over the budget {format_bytes(budget)} by {percent:.1f} %"
