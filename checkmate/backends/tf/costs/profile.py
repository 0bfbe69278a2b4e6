"""Give the nodes of the folded step their costs, measured or estimated.

A measured cost is in seconds on this device (``backends.tf.costs.runs``). An estimated one is a count of
operations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.allocator.learn import with_workspace
from checkmate.backends.tf.allocator.learn_by_op import sizes_of_reserves
from checkmate.backends.tf.costs.cached import KnownCosts
from checkmate.backends.tf.costs.runs import HINT_NOT_RUN, measure_nodes, node_operations
from checkmate.backends.tf.memory_check import require_room
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir.graph import CostOrigin, CostUnit, Graph
from checkmate.ir.schedule import Schedule
from checkmate.machine.load import LoadMeter
from checkmate.progress import Cancelled, Progress, Report


def measured_costs(
    folded: FoldedStep,
    make_batch: Callable[[], Sequence[tf.Tensor]],
    known: KnownCosts,
    report: Report,
    cancelled: Cancelled,
    meter: LoadMeter,
    *,
    schedule: Schedule | None = None,
) -> Graph:
    """Return the graph with measured costs in seconds.

    Nothing is run if ``known`` has every op. Otherwise the step is measured, in fewer runs if most ops are
    known, and the known costs are merged in. Updates of the model's state by the measuring runs are undone.
    ``meter`` tells what other programs took of the machine meanwhile. ``schedule``: what is run to measure,
    where the plain step does not fit; None: the plain step. ``metadata["profile"]`` says how and when the
    costs were measured; its ``reading`` tells how busy the machine was, and how far the runs were apart.

    Raises:
        StepTooLargeError: the step does not fit the device's memory.
        ProfileError: TensorFlow could not run the step, or its profiler saw no ops.
        CancelledError: the user cancelled; its hint says what is kept.
    """
    if known.is_all:
        report(Progress("measure", 1, 1, f"all {folded.graph.n} ops were measured before"))
        costs = known.costs()
        notes: dict[str, Any] = {"runs": costs.runs, "step_seconds": sum(costs.seconds)}
    else:
        run = schedule or Schedule.plain(folded.graph)
        what = "the plain step" if schedule is None else "a scheduled step"
        require_room(folded.graph, run, what=what, hint=HINT_NOT_RUN)
        measured, notes = measure_nodes(folded, make_batch(), known, report, cancelled, meter, run)
        if schedule is not None:
            notes["measured_on"] = what
        costs = known.merged(measured)
        if "caveat" not in notes:
            known.keep(costs, folded.graph, ended=True)
        # Cached costs are of another day. The plain step of today tells how much slower that day was.
        notes["plain_per_predicted"] = notes["least_wall_seconds"] / max(sum(costs.seconds), 1e-12)
    notes |= {
        "allocated_per_requested": costs.slack,
        "noisy_ops": costs.noisy,
        "reading": costs.reading_facts(),
        # Per op: the deviation of the runs over their median.
        "op_spread": [round(spread, 3) for spread in costs.spread],
    }
    if known.store is not None:
        notes["cache"] = known.facts()
    workspace = {node: size for node, size in enumerate(costs.workspace) if size}
    reserves = sizes_of_reserves(folded, dict(enumerate(costs.reserves)))
    pieces = {node: held for node, held in costs.pieces.items() if node in workspace}
    return graph_with_costs(folded.graph, costs.seconds, notes, workspace, reserves, pieces)


def graph_with_costs(
    graph: Graph,
    seconds: Sequence[float],
    notes: dict[str, Any],
    workspace: Mapping[int, int],
    reserves: Mapping[int, int] = {},
    pieces: Mapping[int, Sequence[int]] = {},
) -> Graph:
    """Return ``graph`` with measured ``seconds`` per op.

    ``notes``: how they were measured; its ``caveat`` becomes a note of the graph. ``workspace``,
    ``reserves``: bytes that were learned, per op, and per value whose size no shape tells. ``pieces``: per op
    the requests that its workspace is made of.
    """
    costed = _replace_costs(graph, list(seconds), CostUnit.SECONDS, CostOrigin.MEASURED, notes)
    if "caveat" in notes:
        said = [*costed.metadata.get("notes", []), notes["caveat"]]
        costed = dataclasses.replace(costed, metadata={**costed.metadata, "notes": said})
    return with_workspace(costed, workspace, reserves, pieces)


def analytic_costs(folded: FoldedStep) -> Graph:
    """Return the graph with operation counts as costs.

    They are TensorFlow's own counts; elsewhere one operation per output element.
    """
    return _replace_costs(folded.graph, node_operations(folded), CostUnit.FLOP, CostOrigin.ANALYTIC, {})


def _replace_costs(
    graph: Graph, costs: list[float], unit: CostUnit, origin: CostOrigin, notes: dict[str, Any]
) -> Graph:
    ops = tuple(dataclasses.replace(op, cost=float(cost)) for op, cost in zip(graph.ops, costs, strict=True))
    metadata = {**graph.metadata, "profile": notes} if notes else graph.metadata
    return dataclasses.replace(graph, ops=ops, cost_unit=unit, cost_origin=origin, metadata=metadata)
