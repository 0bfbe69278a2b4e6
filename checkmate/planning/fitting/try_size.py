"""One step at a size that may be the largest.

The step is traced, scheduled, predicted, and measured. It is measured in a fresh process. The plain step is
never run here: it may need many times the device. The prediction of its chunks starts from what the allocator
was asked for before the first step. That is known from a small step, and from every scheduled one that was
measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from checkmate.backends.tf.allocator.predict import predicted_allocated
from checkmate.backends.tf.costs import session
from checkmate.backends.tf.costs.profile import analytic_costs
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement, measure_fresh
from checkmate.backends.tf.memory_check import first_region
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.planning.fitting.arranging import Arranger
from checkmate.planning.fitting.fit_budget import PredictedSearch, Solve
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest


@dataclass(frozen=True)
class MeterHistory:
    """What a measurement told of the step.

    ``history`` is what the allocator was asked for before the step, and ``fixed_bytes`` the graph's there.
    ``surplus`` is the share by which the meter has shown more than was predicted.
    """

    history: tuple[tuple[int, int], ...]
    fixed_bytes: int
    surplus: float = 0.0

    def at(self, fixed_bytes: int) -> tuple[tuple[int, int], ...]:
        """Return the history where ``fixed_bytes`` bytes are fixed. Larger inputs are one more request."""
        more = fixed_bytes - self.fixed_bytes
        handle = 1 + max((handle for handle, _ in self.history), default=0)
        return (*self.history, (handle, more)) if more > 0 else self.history

    def after(self, measured: FreshMeasurement, fixed_bytes: int, predicted: int) -> MeterHistory:
        """Return what is known once another size has been measured."""
        surplus = (1 + self.surplus) * measured.peak_bytes / predicted - 1
        return MeterHistory(measured.history, fixed_bytes, max(self.surplus, surplus))


@dataclass(frozen=True, eq=False)
class TriedSchedule:
    """A step as it was traced, and the best schedule for it.

    Its costs are operation counts. ``schedule`` is the one that comes closest to what is allowed; None where
    none was found. ``predicted_bytes`` is what the meter should show; ``measured`` is what it showed, where
    the step was run.
    """

    graph: Graph
    schedule: Schedule | None = None
    predicted_bytes: int | None = None
    measured: FreshMeasurement | None = None


def try_size(
    request: ModelRequest,
    allowed: int,
    first: Callable[[Graph], Schedule | None],
    solve: Callable[[Graph], Solve],
    known: MeterHistory,
    *,
    report: Report,
    cancelled: Cancelled,
) -> TriedSchedule:
    """Trace ``request``, find a schedule, and measure it once.

    The schedule is for ``allowed`` bytes on the meter. ``first`` gives the schedule to begin with, within
    ``allowed`` requested bytes; None where there is none. ``solve`` gives, for the traced graph, what finds
    another for fewer requested bytes. ``known`` is of the same step at another size: chunks are predicted
    from it, and what should be over is not run.

    Raises:
        LoadError, TraceError: as ``session.prepare``. WorkerDiedError, CycleError: from measuring.
        CancelledError: the user cancelled.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    request = session.with_kernels_of(request, folded.graph)
    folded = dataclasses.replace(folded, graph=analytic_costs(folded))
    graph, expected = folded.graph, None
    schedule, history = first(graph), known.at(graph.fixed_bytes)

    def predict(steps: list[int]) -> int:
        return int((1 + known.surplus) * predicted_allocated(folded, graph, steps, history))

    if schedule is not None:
        expected = predict(schedule.steps.tolist())
    if expected is None or expected > allowed:
        arrange = Arranger(folded, graph, history, cancelled).arranged
        search = PredictedSearch(graph, predict, allowed, solve(graph), report, cancelled, arrange)
        found = search.next()
        if found is not None and (expected is None or found.expected < expected):
            schedule, expected = found.result.require_schedule(), found.expected
    if schedule is None or expected is None or expected > allowed:
        return TriedSchedule(graph, schedule, expected)
    measured = measure_fresh(
        request,
        schedule,
        message="measuring the step at this size",
        report=report,
        cancelled=cancelled,
        region=first_region(graph, schedule),
        history=True,
    )
    return TriedSchedule(graph, schedule, expected, measured)


def measure_small(
    request: ModelRequest, fixed_bytes: int, *, report: Report, cancelled: Cancelled
) -> tuple[MeterHistory, float]:
    """Measure a small plain step in a fresh process.

    Return what it tells of larger ones, and the seconds that it takes, warm.
    """
    found = measure_fresh(
        request,
        None,
        message="measuring a small plain step",
        report=report,
        cancelled=cancelled,
        history=True,
    )
    return MeterHistory(found.history, fixed_bytes), found.seconds


def device_kind(request: ModelRequest) -> str:
    """Return ``cpu`` or ``gpu``: where ``request`` would run in this process."""
    return str(session.choose_device(request).kind)
