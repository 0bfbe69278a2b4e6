"""One step at a size that may be the largest: traced there, scheduled, its chunks predicted, and measured in a fresh process.

The plain step is never run here: it may need many times the device. What the allocator was asked for before the first step, which
the prediction of its chunks starts from, is recorded in the process that measures the first scheduled one.
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
from checkmate.tf.fit import Solve, Targets
from checkmate.tf.predict import predicted_allocated
from checkmate.tf.verify import Measured, measure_fresh


@dataclass(frozen=True, eq=False)
class Tried:
    """The step as it was traced, with operation counts as costs, and the schedule that comes closest to what is allowed.

    ``schedule``: None where none was found. ``predicted_bytes``: what the meter should show, where something to predict it from was
    known; ``measured``: what it showed, where it was run.
    """

    graph: Graph
    schedule: Schedule | None = None
    predicted_bytes: int | None = None
    measured: Measured | None = None


def try_size(
    request: ModelRequest,
    allowed: int,
    first: Callable[[Graph], Schedule | None],
    solve: Callable[[Graph], Solve],
    known: Measured | None,
    surplus: float,
    *,
    report: Report,
    cancelled: Cancelled,
) -> Tried:
    """Trace ``request``, find a schedule that should show at most ``allowed`` bytes on the meter, and measure it once.

    ``first``: the schedule to begin with, within ``allowed`` requested bytes; None: there is none. ``solve``: for the traced graph,
    what finds another for fewer requested bytes. ``known``: an earlier measurement of the same step at another size, with its
    history, and ``surplus``, the share by which the meter showed more than was predicted: chunks are then predicted, and what
    should be over is not run. Without, the first schedule is measured whatever it shows.

    Raises:
        LoadError, TraceError: as ``session.prepare``. WorkerDiedError, CycleError: from measuring. CancelledError: the user
        cancelled.
    """
    folded = session.prepare(request, report=report, cancelled=cancelled)
    folded = dataclasses.replace(folded, graph=analytic_costs(folded))
    graph, expected = folded.graph, None
    schedule = first(graph)
    if known is not None:
        history = known.history

        def predict(steps: list[int]) -> int:
            return int((1 + surplus) * predicted_allocated(folded, graph, steps, history))

        if schedule is not None:
            expected = predict(schedule.steps.tolist())
        if expected is None or expected > allowed:
            found = Targets(graph, predict, allowed, solve(graph), report, cancelled).next(1)
            if found is not None and (expected is None or found.expected < expected):
                schedule, expected = found.result.require_schedule(), found.expected
        if expected is not None and expected > allowed:
            return Tried(graph, schedule, expected)
    if schedule is None:
        return Tried(graph)
    measured = measure_fresh(
        request, schedule, message="measuring the step at this size", report=report, cancelled=cancelled, history=True
    )
    if expected is None:
        expected = predicted_allocated(folded, graph, schedule.steps.tolist(), measured.history)
    return Tried(graph, schedule, expected, measured)


def seconds_of_plain(request: ModelRequest, *, report: Report, cancelled: Cancelled) -> float:
    """Seconds of one warm plain step in a fresh process; for small sizes."""
    found = measure_fresh(
        request, None, message="measuring a small plain step, for the time", report=report, cancelled=cancelled
    )
    return found.seconds


def device_kind(request: ModelRequest) -> str:
    """``cpu`` or ``gpu``: where ``request`` would run in this process."""
    return str(session.choose_device(request).kind)
