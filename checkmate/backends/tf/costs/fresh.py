"""Measure costs in a process of their own, which a plain step that does not fit may end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from checkmate.backends.tf.costs.known import CostOptions, KnownCosts
from checkmate.backends.tf.costs.profile import (
    analytic_costs,
    estimated_graph,
    graph_with_costs,
    kept_hint,
    measured_costs,
)
from checkmate.backends.tf.tasks import run_task
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request, with_kernels_of
from checkmate.errors import CancelledError, StepTooLargeError, WorkerDiedError
from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.machine.cost_store import ENOUGH_RUNS, CostStore
from checkmate.machine.load import LoadMeter
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.request import ModelRequest
from checkmate.units import Budget

_FREE_SHARE = 0.9  # share of the free memory that the step may take on which costs are measured


def with_costs(
    folded: FoldedStep,
    options: CostOptions,
    *,
    request: ModelRequest | None = None,
    report: Report,
    cancelled: Cancelled,
) -> FoldedStep:
    """Return ``folded`` with the costs that ``options`` ask for. ``request``: the model of the step, so that
    a child process can trace and measure it; None: measure in this process. The child looks costs up itself,
    and takes doubtful ones from the cache if the machine is busy again by then."""
    if options.kind == "analytic":
        return dataclasses.replace(folded, graph=analytic_costs(folded))
    known, store = options.look_up(folded), options.store
    if options.estimated is not None and not known.is_all:
        options.estimated(analytic_costs(folded))
    if request is None or known.is_all:
        graph = measured_costs(folded, known, report, cancelled, options.meter)
        return dataclasses.replace(folded, graph=graph)
    where = {"store": None if store is None else str(store.path), "refresh": options.refresh}
    try:
        return _measured_in_child(request, folded, where, "measuring what each op costs", report, cancelled)
    except CancelledError as error:
        entries = KnownCosts.look_up(folded, store, refresh=False).entries.values()
        kept = max((entry.runs for entry in entries if entry.runs < ENOUGH_RUNS), default=0)
        raise CancelledError("cancelled", hint=kept_hint(kept)) from error


def with_costs_of_scheduled_step(
    request: ModelRequest,
    folded: FoldedStep,
    budget: Budget,
    why: StepTooLargeError,
    solve: Callable[[Graph, int], SolveResult],
    *,
    report: Report,
    cancelled: Cancelled,
) -> FoldedStep:
    """Return ``folded`` with costs measured on a scheduled step, as the plain one does not fit (``why``);
    else estimated."""
    graph = estimated_graph(folded, why)
    estimated = dataclasses.replace(folded, graph=graph)
    everything = simulate(graph, Schedule.plain(graph)).peak_bytes
    target = budget.resolve(keep_everything_peak=everything, minimum=0)
    room = why.details.get("free_bytes")
    if room is not None:
        target = min(target or everything, int(_FREE_SHARE * room) + graph.fixed_bytes)
    message = "the plain step does not fit; solving with estimated costs for a step that can be measured"
    report(Progress("solve", message=message))
    schedule = solve(graph, target).schedule if target else None
    if schedule is None:
        return estimated
    steps = {"steps": schedule.steps.tolist()}
    message = "measuring costs on a scheduled step"
    try:
        return _measured_in_child(request, folded, steps, message, report, cancelled)
    except (StepTooLargeError, WorkerDiedError):
        return estimated


def _measured_in_child(
    request: ModelRequest,
    folded: FoldedStep,
    arguments: Mapping[str, Any],
    message: str,
    report: Report,
    cancelled: Cancelled,
) -> FoldedStep:
    request = with_kernels_of(request, folded.graph)
    task = {"do": "costs", "request": request.to_json(), **arguments}
    answer = run_task(task, message=message, report=report, cancelled=cancelled)
    sizes = (
        {int(number): found for number, found in answer[name].items()}
        for name in ("workspace", "reserves", "pieces")
    )
    graph = graph_with_costs(folded.graph, answer["costs"], answer["notes"], *sizes)
    return dataclasses.replace(folded, graph=graph)


def measure_costs(task: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure the costs of the step of ``task["request"]`` in this process. With ``steps``, a schedule to run
    where the plain step does not fit, nothing is looked up: a cache knows plain steps only. What was learned
    is by op or value number."""
    request = ModelRequest.from_json(task["request"])
    folded = trace_request(request, here=True, report=silent, cancelled=never)
    if "steps" in task:
        schedule = Schedule.of(folded.graph, task["steps"])
        known = KnownCosts.look_up(folded, None, refresh=True)
        graph = measured_costs(folded, known, report, never, LoadMeter(), schedule=schedule)
    else:
        store = None if task["store"] is None else CostStore(Path(task["store"]))
        options = CostOptions("measured", store=store, refresh=task["refresh"])
        graph = with_costs(folded, options, report=report, cancelled=never).graph
    ops = {op.name: str(node) for node, op in enumerate(graph.ops)}
    values = {value.name: str(number) for number, value in enumerate(graph.values)}
    origin = graph.origin
    return {
        "costs": [op.cost for op in graph.ops],
        "notes": origin.profile,
        "workspace": {ops[name]: size for name, size in origin.learned_workspace.items()},
        "reserves": {values[name]: size for name, size in origin.learned_reserves.items()},
        "pieces": {ops[name]: sizes for name, sizes in origin.learned_pieces.items()},
    }
