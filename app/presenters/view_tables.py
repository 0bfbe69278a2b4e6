"""What each view shows, as a table for a file.

Tables have full names, plain numbers, and units in the headings. No Qt here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.presenters.memory_curve import KINDS, memory_stack
from app.presenters.schedule_rows import ScheduleRow
from app.state.knowledge import ListedSchedule
from app.state.solve import Solve
from checkmate.ir.graph import Graph
from checkmate.memory.hotspot import Moment
from checkmate.solvers.known_frontier import Frontier


@dataclass(frozen=True)
class ViewTable:
    """A table; each of ``rows`` is as long as ``columns``."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> ViewTable:
        return cls(tuple(columns), tuple(tuple(row) for row in rows))

    def csv(self) -> str:
        """Return comma-separated text with a line of headings. None is an empty field."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()


def layers_table(graph: Graph) -> ViewTable:
    """Return a row per layer.

    It has the ops of each phase, the bytes written forward and backward, and the cost of running each op
    once.
    """
    sums: dict[str, list[float]] = {}
    for op in graph.ops:
        entry = sums.setdefault(op.group or op.name, [0, 0, 0, 0, 0.0])
        late = op.phase.value in ("backward", "update")
        entry[late] += 1
        entry[2 + late] += sum(graph.values[value].bytes for value in op.outputs)
        entry[4] += op.cost
    columns = (
        "layer",
        "forward_ops",
        "backward_ops",
        "forward_bytes",
        "backward_bytes",
        f"cost_{graph.cost_unit.value}",
    )
    return ViewTable.of(columns, ([name, *entry] for name, entry in sums.items()))


def ops_table(shown: ListedSchedule) -> ViewTable:
    """Return a row per op.

    It says what the op is, how often the schedule on screen runs it, and when first.
    """
    graph, steps = shown.graph, shown.schedule.steps
    runs = np.bincount(steps, minlength=graph.n)
    first = np.full(graph.n, -1)
    first[steps[::-1]] = np.arange(len(steps))[::-1]
    columns = (
        "op",
        "name",
        "type",
        "phase",
        "layer",
        f"cost_{graph.cost_unit.value}",
        "bytes",
        "runs",
        "first_step",
    )
    rows = (
        (
            i,
            op.name,
            op.type,
            op.phase.value,
            op.group,
            op.cost,
            sum(graph.values[v].bytes for v in op.outputs),
            int(runs[i]),
            int(first[i]) + 1,
        )
        for i, op in enumerate(graph.ops)
    )
    return ViewTable.of(columns, rows)


def steps_table(shown: ListedSchedule) -> ViewTable:
    """Return a row per step. It has the op, whether it is recomputed, the live bytes and what fills them."""
    graph, schedule, timeline = shown.graph, shown.schedule, shown.timeline
    stack = memory_stack(graph, schedule, timeline)
    stages = shown.matrices.stage_of_step
    columns = (
        "step",
        "stage",
        "op",
        "name",
        "recomputed",
        "live_bytes",
        *(f"{kind}_bytes" for kind in KINDS),
    )
    rows = (
        (
            at + 1,
            int(stages[at]) + 1,
            int(op),
            graph.ops[int(op)].name,
            int(not schedule.first_occurrence[at]),
            int(timeline.live_bytes[at]),
            *(int(layer[at]) for layer in stack.layers),
        )
        for at, op in enumerate(schedule.steps)
    )
    return ViewTable.of(columns, rows)


def computed_table(shown: ListedSchedule) -> ViewTable:
    """Return the set cells of R, in the order of execution."""
    matrices, ops = shown.matrices, shown.graph.ops
    steps = zip(matrices.stage_of_step.tolist(), shown.schedule.steps.tolist(), strict=True)
    return ViewTable.of(
        ("stage", "op", "name"), dict.fromkeys((stage + 1, op, ops[op].name) for stage, op in steps)
    )


def held_table(shown: ListedSchedule) -> ViewTable:
    """Return the set cells of S as spans.

    A span is an output of an op and the stages it is held into, from the first to the last, both included.
    """
    matrices, ops = shown.matrices, shown.graph.ops
    spans = zip(
        matrices.order[matrices.held_column].tolist(),
        matrices.held_from.tolist(),
        matrices.held_to.tolist(),
        strict=True,
    )
    columns = ("op", "name", "from_stage", "to_stage")
    return ViewTable.of(columns, sorted((op, ops[op].name, begin + 1, end) for op, begin, end in spans))


def schedules_table(rows: Iterable[ScheduleRow]) -> ViewTable:
    """Return the list of schedules as a table.

    It has the user's own, the baselines and the frontier, and the bound known for each peak.
    """
    columns = (
        "group",
        "name",
        "peak_bytes",
        "cost",
        "overhead",
        "lower_bound",
        "proved_optimal",
        "recomputations",
        "solver",
        "seconds",
        "note",
    )
    return ViewTable.of(columns, (_schedule_cells(row) for row in rows))


def _schedule_cells(row: ScheduleRow) -> tuple[Any, ...]:
    found = row.found
    return (
        row.group.value,
        row.name.replace("\u00a0", " "),
        found.peak_bytes,
        found.cost,
        found.overhead,
        found.lower_bound,
        int(found.optimal),
        found.schedule.recomputations,
        found.solver,
        found.seconds,
        "" if row.own is None else row.own.note,
    )


def frontier_table(known: Sequence[ListedSchedule], frontier: Frontier | None) -> ViewTable:
    """Return schedules and bounds.

    ``cost`` is what a schedule costs, or the bound below which no schedule within ``bytes`` costs (inf: none
    fits).
    """
    points = [(found.peak_bytes, "schedule", found.cost, found.solver) for found in known]
    bounds = [] if frontier is None else [(budget, "bound", low, "") for budget, low in frontier.bounds]
    return ViewTable.of(
        ("bytes", "kind", "cost", "solver"), sorted([*points, *bounds], key=lambda row: (row[0], row[1]))
    )


def solve_table(solve: Solve) -> ViewTable:
    """Return how a solve went: the best and the bound over time."""
    unit = "bytes" if solve.aim is not None else "cost"
    news = [(t, value, None) for t, value in solve.best] + [(t, None, value) for t, value in solve.bounds]
    return ViewTable.of(("seconds", f"best_{unit}", f"bound_{unit}"), sorted(news, key=lambda row: row[0]))


def moment_table(now: Moment) -> ViewTable:
    """Return what is live at a step, as a table. It has every buffer, its layer, and why it is there."""
    graph = now.graph
    columns = ("value", "bytes", "layer", "made_by", "made_at_step", "next_read_at_step", "reason")
    rows = [
        (
            graph.values[b.value].name,
            b.bytes,
            graph.ops[b.op].group,
            graph.ops[b.op].name,
            b.born + 1,
            None if b.next_read is None else b.next_read + 1,
            b.reason.value,
        )
        for b in now.live
    ]
    rest = [
        (share.name, share.bytes, "", "", None, None, share.name)
        for share in now.by_value()
        if not share.values
    ]
    return ViewTable.of(columns, [*rows, *rest])
