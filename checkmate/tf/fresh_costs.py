"""Costs measured in a process of their own, so that this one needs neither a memory meter nor the device's memory.

A GPU serves one process at a time; a plain step that does not fit ends the process that runs it, and only that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from checkmate.cost_store import ENOUGH_RUNS, CostStore
from checkmate.errors import CancelledError, UsageError
from checkmate.ir.graph import Graph
from checkmate.machine_load import LoadMeter
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.request import ModelRequest
from checkmate.tf import session
from checkmate.tf.costs import analytic_costs, graph_of_costs, kept_hint, measured_costs
from checkmate.tf.fold import FoldedStep
from checkmate.tf.fresh import run_task
from checkmate.tf.known_costs import Known


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

    Nothing is run where every op's cost is known, or where costs are analytic. ``meter``: as for ``session.with_costs``; the
    measuring process looks for itself, and takes what is known where the machine is busy again by then.

    Raises:
        StepTooLargeError, ProfileError: the step does not fit, or could not be measured. WorkerDiedError: the measuring process
        ended. UsageError: ``costs`` is neither. CancelledError: the user cancelled; its hint says what is kept.
    """
    if costs not in ("analytic", "measured"):
        raise UsageError(f"unknown costs {costs!r}", hint="use measured or analytic")
    if costs == "analytic":
        return dataclasses.replace(folded, graph=analytic_costs(folded))
    meter = meter or LoadMeter()
    known = Known.of(folded, store, refresh=refresh, is_quiet=meter.is_quiet)
    if known.is_all:
        graph = measured_costs(folded, list, known, report, cancelled, meter)  # which runs nothing, and needs no batch
        return dataclasses.replace(folded, graph=graph)
    if estimated is not None:
        estimated(analytic_costs(folded))
    task = {
        "do": "costs",
        "request": session.settled(request, folded.graph).to_json(),
        "store": None if store is None else str(store.path),
        "refresh": refresh,
    }
    try:
        answer = run_task(task, message="measuring what each op costs", report=report, cancelled=cancelled)
    except CancelledError as error:
        kept = 0 if store is None else _runs_kept(Known.of(folded, store, refresh=False))
        raise CancelledError("cancelled", hint=kept_hint(kept)) from error
    workspace = {int(node): int(size) for node, size in answer["workspace"].items()}
    return dataclasses.replace(folded, graph=graph_of_costs(folded.graph, answer["costs"], answer["notes"], workspace))


def measure_costs(task: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure the costs of one step here. ``task``: ``request``, ``store`` (a path or None), ``refresh``.

    Returns ``costs`` (seconds per op), ``notes`` (how they were measured), ``workspace`` (op → bytes learned).
    """
    folded = session.prepare(ModelRequest.from_json(task["request"]), here=True, report=silent, cancelled=never)
    store = None if task["store"] is None else CostStore(Path(task["store"]))
    graph = session.with_costs(
        folded, "measured", store=store, refresh=task["refresh"], report=report, cancelled=never
    ).graph
    names = {op.name: node for node, op in enumerate(graph.ops)}
    learned = graph.metadata.get("learned_workspace", {})
    return {
        "costs": [op.cost for op in graph.ops],
        "notes": graph.metadata["profile"],
        "workspace": {str(names[name]): size for name, size in learned.items()},
    }


def _runs_kept(known: Known) -> int:
    unfinished = [entry.runs for entry in known.entries.values() if entry.runs < ENOUGH_RUNS]
    return max(unfinished, default=0)
