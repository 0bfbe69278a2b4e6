"""What each view shows, as a table for a file, with full names, plain numbers, and units in the headings."""

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
from checkmate.ir import Graph
from checkmate.memory.hotspot import Moment
from checkmate.solvers.known_frontier import Frontier


@dataclass(frozen=True)
class ViewTable:
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, heads: str, rows: Iterable[Sequence[Any]]) -> ViewTable:
        """``heads`` are separated by semicolons."""
        return cls(tuple(heads.split("; ")), tuple(tuple(row) for row in rows))

    def csv(self) -> str:
        """Comma-separated text with a line of headings. None is an empty field."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()


def layers_table(graph: Graph) -> ViewTable:
    """A row per layer: the ops and the bytes written of both passes, and the cost of each op once."""
    sums: dict[str, list[float]] = {}
    for op in graph.ops:
        entry = sums.setdefault(op.group or op.name, [0, 0, 0, 0, 0.0])
        late = op.phase.value in ("backward", "update")
        entry[late] += 1
        entry[2 + late] += sum(graph.values[value].bytes for value in op.outputs)
        entry[4] += op.cost
    heads = "layer; forward_ops; backward_ops; forward_bytes; backward_bytes; cost_"
    return ViewTable.of(heads + graph.cost_unit.value, ([name, *entry] for name, entry in sums.items()))


def ops_table(shown: ListedSchedule) -> ViewTable:
    graph, steps = shown.graph, shown.schedule.steps
    runs = np.bincount(steps, minlength=graph.n)
    first = np.full(graph.n, -1)
    first[steps[::-1]] = np.arange(len(steps))[::-1]
    rows = []
    for i, op in enumerate(graph.ops):
        written = sum(graph.values[value].bytes for value in op.outputs)
        what = i, op.name, op.type, op.phase.value, op.group, op.cost
        rows.append((*what, written, int(runs[i]), int(first[i]) + 1))
    cost = f"cost_{graph.cost_unit.value}"
    return ViewTable.of(f"op; name; type; phase; layer; {cost}; bytes; runs; first_step", rows)


def steps_table(shown: ListedSchedule) -> ViewTable:
    graph, schedule, live = shown.graph, shown.schedule, shown.timeline.live_bytes.tolist()
    parts = memory_stack(graph, schedule, shown.timeline).layers.T
    stages, first = shown.matrices.stage_of_step.tolist(), schedule.first_occurrence
    rows = []
    for at, op in enumerate(schedule.steps.tolist()):
        what = at + 1, stages[at] + 1, op, graph.ops[op].name, int(not first[at])
        rows.append((*what, live[at], *map(int, parts[at])))
    kinds = "; ".join(f"{kind}_bytes" for kind in KINDS)
    return ViewTable.of(f"step; stage; op; name; recomputed; live_bytes; {kinds}", rows)


def computed_table(shown: ListedSchedule) -> ViewTable:
    """The set cells of R, in the order of execution."""
    ops = shown.graph.ops
    steps = zip(shown.matrices.stage_of_step.tolist(), shown.schedule.steps.tolist(), strict=True)
    return ViewTable.of(
        "stage; op; name", dict.fromkeys((stage + 1, op, ops[op].name) for stage, op in steps)
    )


def held_table(shown: ListedSchedule) -> ViewTable:
    """The set cells of S as spans of stages, the last one included."""
    matrices, ops = shown.matrices, shown.graph.ops
    held = matrices.order[matrices.held_column], matrices.held_from, matrices.held_to
    spans = zip(*(part.tolist() for part in held), strict=True)
    rows = sorted((op, ops[op].name, begin + 1, end) for op, begin, end in spans)
    return ViewTable.of("op; name; from_stage; to_stage", rows)


def schedules_table(rows: Iterable[ScheduleRow]) -> ViewTable:
    heads = "group; name; peak_bytes; cost; overhead; lower_bound; proved_optimal; recomputations; solver"
    return ViewTable.of(f"{heads}; seconds; note", (_schedule_cells(row) for row in rows))


def _schedule_cells(row: ScheduleRow) -> tuple[Any, ...]:
    found, name = row.found, row.name.replace("\u00a0", " ")
    figures = found.peak_bytes, found.cost, found.overhead, found.lower_bound, int(found.optimal)
    how = found.schedule.recomputations, found.solver, found.seconds
    return row.group.value, name, *figures, *how, "" if row.own is None else row.own.note


def frontier_table(known: Sequence[ListedSchedule], frontier: Frontier | None) -> ViewTable:
    """``cost`` is what a schedule costs, or the bound below which no schedule within ``bytes`` costs (inf:
    none fits)."""
    rows: list[tuple[Any, ...]] = [
        (found.peak_bytes, "schedule", found.cost, found.solver) for found in known
    ]
    rows += [] if frontier is None else [(budget, "bound", low, "") for budget, low in frontier.bounds]
    return ViewTable.of("bytes; kind; cost; solver", sorted(rows, key=lambda row: (row[0], row[1])))


def solve_table(solve: Solve) -> ViewTable:
    unit = "bytes" if solve.aim is not None else "cost"
    news = [(t, value, None) for t, value in solve.best] + [(t, None, value) for t, value in solve.bounds]
    return ViewTable.of(f"seconds; best_{unit}; bound_{unit}", sorted(news, key=lambda row: row[0]))


def moment_table(now: Moment) -> ViewTable:
    """Every buffer that is live at a step, its layer, and why it is there."""
    rows: list[tuple[Any, ...]] = []
    for live in now.live:
        op, read = now.graph.ops[live.op], None if live.next_read is None else live.next_read + 1
        where = op.group, op.name, live.born + 1, read
        rows.append((now.graph.values[live.value].name, live.bytes, *where, live.reason.value))
    rest = [share for share in now.by_value() if not share.values]
    rows += [(share.name, share.bytes, "", "", None, None, share.name) for share in rest]
    return ViewTable.of("value; bytes; layer; made_by; made_at_step; next_read_at_step; reason", rows)
