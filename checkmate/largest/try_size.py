"""One step at a size that may be the largest: traced, scheduled, predicted, and measured in a fresh process.

The plain step is never run here: it may need many times the device. The prediction of its chunks starts from
what the allocator was asked for before the first step, known from a small step and from every scheduled one
that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from checkmate.backends.tf.costs.profile import analytic_costs
from checkmate.backends.tf.emit.side_by_side import runs_side_by_side
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.plain import AllocatorReplica, MeterHistory
from checkmate.backends.tf.trace.of_request import trace_request, with_kernels_of
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.largest.batch import cost_limit
from checkmate.memory.check import check
from checkmate.planning.metered import PredictedSearch
from checkmate.planning.solving import solve
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.solvers.listeners import CostCapListener
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.tolerances import ROUNDING

_SOLVE_S = 3.0  # for each schedule that is looked for


@dataclass(frozen=True, eq=False)
class TriedSchedule:
    """A step as it was traced, with operation counts as costs, and the best schedule for it.

    ``schedule`` comes closest to what is allowed; None where none was found. ``predicted_bytes`` is what the
    meter should show; ``measured`` is what it showed, where the step was run.
    """

    graph: Graph
    schedule: Schedule | None = None
    predicted_bytes: int | None = None
    measured: FreshMeasurement | None = None


@dataclass(frozen=True, eq=False)
class CappedSolver:
    """Schedules within the extra cost that the user allows; ``max_overhead`` as for ``max_batch``."""

    max_overhead: float | None
    options: SolveOptions
    report: Report
    cancelled: Cancelled

    def limit(self, graph: Graph) -> float:
        return cost_limit(graph, self.max_overhead) * (1 + ROUNDING)

    def solve_above_minimum(self, graph: Graph, budget_bytes: int) -> SolveResult:
        """A schedule that costs too much counts as none."""
        limit, seconds = self.limit(graph), min(_SOLVE_S, self.options.time_limit_s)
        options = replace(self.options, time_limit_s=seconds, start=None, gap=0.0)
        ear = CostCapListener(limit, self.cancelled)
        found = solve(graph, budget_bytes, solver="auto", options=options, listener=ear)
        if found.cost is None or found.cost <= limit:
            return found
        return replace(
            found,
            status=SolveStatus.LIMIT,
            schedule=None,
            cost=None,
            peak_bytes=None,
            message="it costs more than allowed",
        )


def try_size(
    request: ModelRequest,
    allowed: int,
    candidates: Sequence[Sequence[int]],
    solver: CappedSolver,
    known: MeterHistory,
) -> TriedSchedule:
    """Trace ``request``, find a schedule for ``allowed`` bytes on the meter, and measure it once.

    It is the first of ``candidates`` that holds for the traced step, else one is solved for. ``known`` is of
    the same step at another size: chunks are predicted from it, and what should be over is not run.
    """
    report, cancelled = solver.report, solver.cancelled
    folded = trace_request(request, report=report, cancelled=cancelled)
    request = with_kernels_of(request, folded.graph)
    folded = replace(folded, graph=analytic_costs(folded))
    graph, expected = folded.graph, None
    replica = AllocatorReplica(folded, known.at(graph.fixed_bytes), known.surplus)
    schedule = _first(graph, allowed, candidates, solver)
    if schedule is not None:
        expected = replica.predicted(schedule.steps.tolist())
    if expected is None or expected > allowed:
        found = PredictedSearch(replica, allowed, solver).next()
        if found is not None and (expected is None or found.expected < expected):
            schedule, expected = found.result.require_schedule(), found.expected
    if schedule is None or expected is None or expected > allowed:
        return TriedSchedule(graph, schedule, expected)
    measure = partial(
        measure_fresh,
        request,
        schedule,
        message="measuring the step at this size",
        report=report,
        cancelled=cancelled,
        region=first_region(graph, schedule),
        history=True,
    )
    measured = measure()
    if measured.peak_bytes > allowed and runs_side_by_side(folded, schedule):
        measured = measure(in_turn=True)
    return TriedSchedule(graph, schedule, expected, measured)


def _first(
    graph: Graph, allowed: int, candidates: Sequence[Sequence[int]], solver: CappedSolver
) -> Schedule | None:
    for steps in candidates:
        found = check(graph, steps, budget_bytes=allowed)
        if found.ok and found.cost <= solver.limit(graph):
            return Schedule.of(graph, list(steps))
    return solver.solve_above_minimum(graph, allowed).schedule


def measure_small(
    request: ModelRequest, fixed_bytes: int, *, report: Report, cancelled: Cancelled
) -> tuple[MeterHistory, float]:
    """Measure a small plain step; return what larger ones can be predicted from, and its warm seconds."""
    found = measure_fresh(
        request,
        None,
        message="measuring a small plain step",
        report=report,
        cancelled=cancelled,
        history=True,
    )
    return MeterHistory(found.history, fixed_bytes), found.seconds
