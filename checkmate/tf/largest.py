"""One step at the size that is to be the largest, traced there, scheduled, and measured in fresh processes.

The plain step is never run here: it may need many times the device. What the allocator was asked for before the first step, which
the prediction of its chunks starts from, is recorded in the process that measures the scheduled one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest
from checkmate.tf import session
from checkmate.tf.costs import analytic_costs
from checkmate.tf.fit import Solve, fit
from checkmate.tf.verify import Measured, measure_fresh


@dataclass(frozen=True, eq=False)
class Tried:
    """The step as it was traced, and the schedule whose measured peak is the least; None where there was none to measure.

    ``attempts``: schedules measured.
    """

    graph: Graph
    schedule: Schedule | None
    measured: Measured | None
    attempts: int


def try_size(
    request: ModelRequest,
    allowed: int,
    first: Callable[[Graph], Schedule | None],
    solve: Callable[[Graph], Solve],
    *,
    report: Report,
    cancelled: Cancelled,
) -> Tried:
    """Trace ``request``, and find a schedule whose measured peak is at most ``allowed`` bytes; failing that, the closest one.

    ``first``: the schedule to begin with, within ``allowed`` requested bytes; None: there is none. ``solve``: for the traced graph,
    what finds another for fewer requested bytes. Costs are operation counts.

    Raises:
        LoadError, TraceError: as ``session.prepare``. WorkerDiedError, CycleError: from measuring. CancelledError: the user
        cancelled.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    folded = dataclasses.replace(folded, graph=analytic_costs(folded))
    graph = folded.graph
    schedule = first(graph)
    if schedule is None:
        return Tried(graph, None, None, 0)
    measured = measure_fresh(
        request,
        schedule,
        message=f"measuring the step at batch {request.batch_size}",
        report=report,
        cancelled=cancelled,
        history=True,
    )
    if measured.peak_bytes <= allowed:
        return Tried(graph, schedule, measured, 1)
    fitted = fit(request, folded, measured, allowed, solve=solve(graph), report=report, cancelled=cancelled)
    better = fitted.measured is not None and fitted.measured.peak_bytes < measured.peak_bytes
    if better:
        schedule, measured = fitted.result.require_schedule(), fitted.measured or measured
    return Tried(graph, schedule, measured, 1 + fitted.attempts)


def seconds_of_plain(request: ModelRequest, *, report: Report, cancelled: Cancelled) -> float:
    """Seconds of one warm plain step in a fresh process; for small sizes."""
    found = measure_fresh(
        request,
        None,
        message=f"measuring the plain step at batch {request.batch_size}",
        report=report,
        cancelled=cancelled,
    )
    return found.seconds


def device_kind(request: ModelRequest) -> str:
    """``cpu`` or ``gpu``: where ``request`` would run in this process."""
    return str(session.choose_device(request).kind)
