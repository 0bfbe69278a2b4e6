"""Costs measured in a process of their own, so that this one needs neither a memory meter nor the device's memory.

A GPU serves one process at a time; a plain step that does not fit ends the process that runs it, and only
that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from checkmate.errors import CancelledError, StepTooLargeError, UsageError, WorkerDiedError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.machine.cost_store import ENOUGH_RUNS, CostStore
from checkmate.machine.load import LoadMeter
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.request import ModelRequest
from checkmate.tf.costs import session
from checkmate.tf.costs.cached import Known
from checkmate.tf.costs.profile import analytic_costs, graph_of_costs, kept_hint, measured_costs
from checkmate.tf.fresh import run_task
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.units import Budget

_OF_THE_FREE = 0.9  # memory, that a step may take which costs are measured on


def costed(
    request: ModelRequest,
    folded: FoldedStep,
    costs: str,
    *,
    store: CostStore | None = None,
    refresh: bool = False,
    estimated: Callable[[Graph], object] | None = None,
    meter: LoadMeter | None = None,
    report: Report,
    cancelled: Cancelled,
) -> FoldedStep:
    """Return ``folded``, the step of ``request``, with ``measured`` or ``analytic`` costs; see ``session.with_costs``.

    Nothing is run where every op's cost is known, or where costs are analytic. ``meter``: as for
    ``session.with_costs``; the measuring process looks for itself, and takes what is known where the machine
    is busy again by then.

    Raises:
        StepTooLargeError, ProfileError: the step does not fit, or could not be measured. WorkerDiedError: the
        measuring process ended. UsageError: ``costs`` is neither. CancelledError: the user cancelled; its
        hint says what is kept.
    """
    if costs not in ("analytic", "measured"):
        raise UsageError(f"unknown costs {costs!r}", hint="use measured or analytic")
    if costs == "analytic":
        return dataclasses.replace(folded, graph=analytic_costs(folded))
    meter = meter or LoadMeter()
    known = Known.of(folded, store, refresh=refresh, is_quiet=meter.is_quiet)
    if known.is_all:
        graph = measured_costs(
            folded, list, known, report, cancelled, meter
        )  # which runs nothing, and needs no batch
        return dataclasses.replace(folded, graph=graph)
    if estimated is not None:
        estimated(analytic_costs(folded))
    asked = {"store": None if store is None else str(store.path), "refresh": refresh}
    try:
        answer = _measured(request, folded, asked, "measuring what each op costs", report, cancelled)
    except CancelledError as error:
        kept = 0 if store is None else _runs_kept(Known.of(folded, store, refresh=False))
        raise CancelledError("cancelled", hint=kept_hint(kept)) from error
    return _with_answer(folded, answer)


def _measured(
    request: ModelRequest,
    folded: FoldedStep,
    asked: Mapping[str, Any],
    message: str,
    report: Report,
    cancelled: Cancelled,
) -> dict[str, Any]:
    task = {"do": "costs", "request": session.settled(request, folded.graph).to_json(), **asked}
    return run_task(task, message=message, report=report, cancelled=cancelled)


def _with_answer(folded: FoldedStep, answer: Mapping[str, Any]) -> FoldedStep:
    workspace, reserves = (
        {int(n): int(size) for n, size in answer[name].items()} for name in ("workspace", "reserves")
    )
    graph = graph_of_costs(folded.graph, answer["costs"], answer["notes"], workspace, reserves)
    return dataclasses.replace(folded, graph=graph)


def costs_without_plain(
    request: ModelRequest,
    folded: FoldedStep,
    budget: Budget,
    why: StepTooLargeError,
    solve: Callable[[Graph, int], SolveResult],
    *,
    report: Report,
    cancelled: Cancelled,
) -> FoldedStep:
    """Return ``folded`` with costs measured on a scheduled step, where the plain one does not fit; else estimated.

    That step runs in a fresh process, which has the device's memory to itself.

    Raises:
        NoScheduleError: there is none for the budget. CancelledError: the user cancelled.
    """
    estimated = dataclasses.replace(folded, graph=session.estimated_because(folded, why))
    graph = estimated.graph
    everything = simulate(graph, Schedule.of(graph, list(range(graph.n)))).peak_bytes
    target = budget.resolve(keep_everything_peak=everything, minimum=0)
    room = why.details.get("free_bytes")
    if room is not None:
        target = min(target or everything, int(_OF_THE_FREE * room) + graph.fixed_bytes)
    report(
        Progress(
            "solve",
            message="the plain step does not fit; solving by estimates for a step to measure costs on",
        )
    )
    schedule = solve(graph, target).schedule if target else None
    if schedule is None:
        return estimated
    try:
        answer = _measured(
            request,
            folded,
            {"steps": schedule.steps.tolist()},
            "measuring costs on a scheduled step",
            report,
            cancelled,
        )
    except (StepTooLargeError, WorkerDiedError):
        return estimated
    return _with_answer(folded, answer)


def measure_costs(task: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure the costs of one step here. ``task``: ``request``, ``store`` (a path or None), ``refresh``; or ``request`` and
    ``steps``, the schedule to run for it, where the plain step does not fit: what a cache knows is of plain
    steps.

    Returns ``costs`` (seconds per op), ``notes`` (how they were measured), ``workspace`` (op → bytes
    learned), ``reserves`` (value → bytes learned).
    """
    folded = session.prepare(
        ModelRequest.from_json(task["request"]), here=True, report=silent, cancelled=never
    )
    if "steps" in task:
        schedule, known = Schedule.of(folded.graph, task["steps"]), Known.of(folded, None, refresh=True)
        batch = session.flat_batch(folded.traced.loaded)
        graph = measured_costs(folded, lambda: batch, known, report, never, LoadMeter(), schedule=schedule)
    else:
        store = None if task["store"] is None else CostStore(Path(task["store"]))
        graph = session.with_costs(
            folded, "measured", store=store, refresh=task["refresh"], report=report, cancelled=never
        ).graph
    names = {op.name: node for node, op in enumerate(graph.ops)}
    values = {value.name: number for number, value in enumerate(graph.values)}
    learned, reserves = (graph.metadata.get(f"learned_{name}", {}) for name in ("workspace", "reserves"))
    return {
        "costs": [op.cost for op in graph.ops],
        "notes": graph.metadata["profile"],
        "workspace": {str(names[name]): size for name, size in learned.items()},
        "reserves": {str(values[name]): size for name, size in reserves.items()},
    }


def _runs_kept(known: Known) -> int:
    unfinished = [entry.runs for entry in known.entries.values() if entry.runs < ENOUGH_RUNS]
    return max(unfinished, default=0)
