"""The report on a scheduled step of JAX: what XLA says, and what was run."""

from __future__ import annotations

from typing import Any

from checkmate.backends.jax.device import device_here
from checkmate.backends.jax.exported import JaxExport, versions
from checkmate.backends.jax.models.compare import Compared
from checkmate.backends.jax.report import JaxReport
from checkmate.backends.outcomes import Difference, reported_seconds
from checkmate.ir import Graph, Schedule, SolveResult, VerificationReport
from checkmate.memory.simulate import simulate
from checkmate.request import ModelRequest, Target
from checkmate.runner import JAX
from checkmate.units import format_bytes, format_bytes_apart, plural

_ROUNDING = 1e-6  # overall, equation by equation: kernels that add in no fixed order differ by that


def verification_report(
    request: ModelRequest,
    graph: Graph,
    result: SolveResult,
    told: JaxReport,
    compared: Compared,
    exported: JaxExport | None,
) -> VerificationReport:
    """Return what is known of a scheduled step, beside the plain one. Peaks are XLA's, of compiled steps:
    none is measured. Seconds are measured, and predicted by counted costs.
    """
    schedule, (before, after) = result.require_schedule(), compared.seconds
    return VerificationReport(
        model=request.shown,
        device=device_here().name,
        batch_size=graph.batch_size,
        budget_bytes=told.budget_bytes,
        gradients=_results(graph, compared),
        loss={"plain": compared.losses[0], "optimized": compared.losses[1]},
        peak_bytes=_peaks(graph, schedule, told, exported),
        seconds=reported_seconds(graph, float(simulate(graph, schedule).cost), after, before),
        recomputations=schedule.recomputations,
        steps=len(schedule.steps),
        problems=tuple(_problems(told, compared, exported)),
        notes=tuple(_notes(graph, told, compared)),
        settings={
            "target": Target.XLA.value,
            "framework": JAX,
            "predicted_overhead": told.predicted_overhead,
            "compilations": told.compilations,
            "versions": versions(),
        },
    )


def _peaks(
    graph: Graph, schedule: Schedule, told: JaxReport, exported: JaxExport | None
) -> dict[str, int | None]:
    measured = ("measured", "measured_requested", "plain_measured", "plain_measured_requested")
    return {
        **dict.fromkeys((*measured, "reloaded_measured")),
        "predicted": told.reached.whole,
        "predicted_requested": simulate(graph, schedule).peak_bytes,
        "plain_predicted": told.plain.whole,
        "plain_predicted_requested": simulate(graph, Schedule.plain(graph)).peak_bytes,
        "reloaded_predicted": None if exported is None else exported.reloaded.whole,
    }


def _results(graph: Graph, compared: Compared) -> dict[str, Any]:
    exact, usual = compared.exact, compared.compiled
    worst = None if usual is None else {"name": usual.where, "relative_error": usual.worst}
    largest = None if usual is None else {"name": usual.largest[0], "error": usual.largest[1]}
    return {
        "compared": "results",
        "equal": None if exact is None else _equal(exact),
        "bitwise": None if exact is None else exact.bitwise,
        "state_bitwise": None if exact is None else exact.bitwise,
        "worst": worst,
        "worst_of_largest": largest,
        "plain_rerun_relative_error": None,
        "overall_relative_error": None if usual is None else usual.overall,
        "count": 0 if usual is None else usual.count,
        "steps": 1,
        "batch_size": graph.batch_size,
        "device": device_here().name,
    }


def _equal(exact: Difference) -> bool:
    return exact.whole_equal and exact.overall <= _ROUNDING


def _problems(told: JaxReport, compared: Compared, exported: JaxExport | None) -> list[str]:
    problems = list(exported.problems) if exported is not None else []
    if told.over_bytes:
        whole, budget = format_bytes_apart(told.reached.whole, told.budget_bytes)
        problems.insert(0, f"XLA's compiled step takes {whole}, which is over the budget of {budget}")
    if compared.exact is not None and not _equal(compared.exact):
        exact = compared.exact
        problems.append(f"equation by equation, {exact.where} is {exact.worst:.2g} (relative) from the plain")
    return problems


def _notes(graph: Graph, told: JaxReport, compared: Compared) -> list[str]:
    tried = plural(told.compilations, "step")
    notes = [f"compiled by XLA: {tried} compiled in {told.compile_seconds:.0f} s"]
    if compared.compiled is None:
        notes.append("results were not compared: the plain step does not fit the device")
    elif compared.exact is None:
        needed = format_bytes(compared.needed)
        notes.append(
            f"not compared equation by equation: all values together take {needed}, more than half of the "
            "free memory"
        )
    return [*notes, *graph.origin.notes]
