"""Path cuts: a lower bound on the cost for every order of execution.

With many cuts it is often a proof of optimality. Take ops j_1 → … → j_K on one path of the graph. In every
schedule their first executions come in that order, so they cut it into intervals: interval k ends with the
first execution of j_k, and interval K+1 is the rest. Let y[o, k] say that op o runs in interval k. Let a[v,
k] say that value v exists while j_k runs and is used by it or read afterwards. Every schedule satisfies

* y[o, k] <= y[producer(u), k] + a[u, k-1] for each input u of o, and a[v, k] <= a[v, k-1] + y[producer(v),
  k];
* the buffers of the values with a[v, k] = 1, and j_k's workspace, fit the budget (less what j_k could take
  over at best);
* each op runs in some interval; descendants of j_k run only after it, its ancestors at least once before it.

So the least sum of costs over such y is a lower bound, for any order and any recomputation. One cut takes
milliseconds; the whole path takes seconds and is often tight. Workspace of other ops and second buffers of a
view are left out, which only weakens the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.graph_sets import LazyClosure, closures, forced_across, members
from checkmate.solvers.tolerances import LEAST_COST

_EXACT = 8000  # ops of a graph whose closures are all known at once
_NO, _YES = -1, -2  # instead of a variable's index: fixed at 0, fixed at 1


@dataclass(frozen=True, eq=False)
class Reach:
    """Which ops must come before which, as the bits of whole numbers.

    ``forced``: int64[n], the bytes that are held while an op runs; exact on graphs of up to ``_EXACT`` ops,
    those of the given order above. It only says which cuts to try.
    """

    ancestors: Sequence[int] | LazyClosure
    descendants: Sequence[int] | LazyClosure
    forced: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> Reach:
        """On large graphs the closures are found op by op: all of them would take n² bits."""
        if graph.n > _EXACT:
            live = simulate(graph, Schedule.plain(graph)).live_bytes
            return cls(LazyClosure(graph.predecessors), LazyClosure(graph.successors), live)
        up, down = closures(graph)
        return cls(tuple(up), tuple(down), _forced_bytes(graph, up, down))


def _forced_bytes(graph: Graph, up: list[int], down: list[int]) -> NDArray[np.int64]:
    total = graph.workspace_bytes.copy()
    for owner, across in forced_across(graph, up, down).items():
        total[members(across, graph.n)] += int(graph.value_bytes[owner])
    return total


def own_bytes(graph: Graph, op: int) -> int:
    """What op ``op`` reads, writes and works in. Views count again, so use this only to compare ops."""
    size = graph.value_bytes
    return int(size[graph.op_inputs[op]].sum() + size[graph.op_outputs[op]].sum() + graph.workspace_bytes[op])


def heaviest_path(graph: Graph, reach: Reach, *, through: int | None = None) -> list[int]:
    """The ops of the path (``through`` that op) that forces the most bytes in sum."""
    weight = reach.forced.astype(np.float64)
    weight /= max(float(weight.max()), 1.0)
    if through is not None:
        weight[through] += graph.n  # more than a whole path without it
    best = weight.copy()
    link = np.full(graph.n, -1)
    for op, before in enumerate(graph.predecessors.lists()):
        for p in before:
            if best[p] + weight[op] > best[op]:
                best[op], link[op] = best[p] + weight[op], p
    path, op = [], int(np.argmax(best))
    while op >= 0:
        path.append(op)
        op = int(link[op])
    path.reverse()
    return path


@dataclass
class LinearRows:
    """Rows of a linear program: sum of coefficient * column >= low."""

    starts: list[int] = field(default_factory=lambda: [0])
    columns: list[int] = field(default_factory=list)
    entries: list[float] = field(default_factory=list)
    low: list[float] = field(default_factory=list)

    def at_least(self, low: float, terms: list[tuple[int, float]]) -> None:
        """Add the row; terms with a fixed variable move to the other side."""
        kept = len(self.columns)
        for column, factor in terms:
            if column >= 0:
                self.columns.append(column)
                self.entries.append(factor)
            elif column == _YES:
                low -= factor
        if len(self.columns) == kept and low <= 0:
            return
        self.starts.append(len(self.columns))
        self.low.append(low)


@dataclass(frozen=True, eq=False)
class CutProgram:
    """The integer program of some cuts, ops in the order of a path.

    ``runs``: int64[n, K + 1], the column of y[o, k] or a fixed value; ``held``: int64[m, K], that of a[v, k].
    ``memory``: the row of each cut's budget, in bytes; -1 if there is none. ``room``: the budget in bytes.
    ``unit``: what costs are divided by. All numbers of the rows are whole. Only the a, columns ``first_held``
    to ``end_held`` - 1, need to be binary: the least y for them are binary too.
    """

    cuts: tuple[int, ...]
    memory: tuple[int, ...]
    runs: NDArray[np.int64]
    held: NDArray[np.int64]
    first_held: int
    end_held: int
    columns: int
    cost: NDArray[np.float64]
    offset: float
    rows: LinearRows
    unit: float
    room: int


def build_program(graph: Graph, reach: Reach, budget_bytes: int, cuts: list[int]) -> CutProgram:
    runs, earliest = _run_columns(graph, reach, cuts)
    first = int(runs.max(initial=-1)) + 1
    held, end = _held_columns(graph, cuts, earliest, first)
    rows = LinearRows()
    _rows_of_ops(graph, reach, cuts, runs, held, rows)
    columns, memory = _rows_of_memory(graph, budget_bytes, cuts, held, end, rows)
    unit = cost_unit(graph)
    cost = np.zeros(columns)
    which, _ = np.nonzero(runs >= 0)
    cost[runs[runs >= 0]] = graph.cost[which] / unit
    offset = float((graph.cost * (runs == _YES).sum(axis=1)).sum()) / unit
    room = budget_bytes - graph.fixed_bytes
    return CutProgram(
        tuple(cuts), tuple(memory), runs, held, first, end, columns, cost, offset, rows, unit, room
    )


def cost_unit(graph: Graph) -> float:
    """What costs are divided by: they become small whole numbers if possible, else sum up to a thousand.

    A program with a whole objective is solved as soon as its bound exceeds the best solution less one.
    """
    cost = graph.cost
    if graph.base_cost < 2**53 and bool((cost == np.floor(cost)).all()):
        common = math.gcd(*cost.astype(np.int64).tolist())
        if 0 < graph.base_cost / max(common, 1) <= 1e6:
            return float(common)
    return max(graph.base_cost / 1000, LEAST_COST)


def _run_columns(graph: Graph, reach: Reach, cuts: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    intervals = len(cuts) + 1
    earliest = np.zeros(graph.n, np.int64)
    latest = np.full(graph.n, intervals - 1)
    for k in range(len(cuts) - 1, -1, -1):
        latest[members(reach.ancestors[cuts[k]], graph.n)] = k
    for k, cut in enumerate(cuts):
        earliest[members(reach.descendants[cut], graph.n)] = k + 1
    for k, cut in enumerate(cuts):
        earliest[cut] = latest[cut] = k
    runs = np.full((graph.n, intervals), _NO)
    free = np.arange(intervals)[None, :] >= earliest[:, None]
    free &= graph.recomputable[:, None] | (np.arange(intervals)[None, :] <= latest[:, None])
    sure = earliest == latest  # its first execution can be in no other interval
    runs[np.flatnonzero(sure), earliest[sure]] = _YES
    open_ = free & (runs != _YES)
    runs[open_] = np.arange(int(open_.sum()))
    return runs, earliest


def _held_columns(
    graph: Graph, cuts: list[int], earliest: NDArray[np.int64], first: int
) -> tuple[NDArray[np.int64], int]:
    held = np.full((graph.m, len(cuts)), _NO)
    produced = graph.producer >= 0
    start = np.full(graph.m, len(cuts))
    start[produced] = earliest[graph.producer[produced]]
    free = np.arange(len(cuts))[None, :] >= start[:, None]
    for k, cut in enumerate(cuts):
        used = [*graph.op_inputs[cut].tolist(), *graph.op_outputs[cut].tolist()]
        held[used, k] = _YES
        free[used, k] = False
    held[free] = first + np.arange(int(free.sum()))
    return held, first + int(free.sum())


def _rows_of_ops(
    graph: Graph,
    reach: Reach,
    cuts: list[int],
    runs: NDArray[np.int64],
    held: NDArray[np.int64],
    rows: LinearRows,
) -> None:
    last = len(cuts)
    y, a = runs.tolist(), held.tolist()
    inputs, outputs = graph.op_inputs.lists(), graph.op_outputs.lists()
    producer, keep = graph.producer.tolist(), graph.keep.tolist()
    before = {k: reach.ancestors[cut] for k, cut in enumerate(cuts)}
    for op in range(graph.n):
        if _YES not in y[op]:
            # If a cut must come after this op, the op has run by the first such cut.
            by = next((k for k in range(last) if before[k] >> op & 1), last)
            rows.at_least(1.0, [(y[op][k], 1.0) for k in range(by + 1)])
        if not graph.recomputable[op] and sum(column >= 0 for column in y[op]) > 1:
            rows.at_least(-1.0, [(column, -1.0) for column in y[op]])
        for k in range(last + 1):
            if y[op][k] == _NO:
                continue
            for value in inputs[op]:
                earlier = [(a[value][k - 1], 1.0)] if k else []
                rows.at_least(0.0, [(y[producer[value]][k], 1.0), *earlier, (y[op][k], -1.0)])
        for value in outputs[op]:
            for k in range(last):
                if a[value][k] != _NO:
                    earlier = [(a[value][k - 1], 1.0)] if k else []
                    rows.at_least(0.0, [(y[op][k], 1.0), *earlier, (a[value][k], -1.0)])
            if keep[value]:
                rows.at_least(1.0, [(y[op][last], 1.0), (a[value][last - 1], 1.0)])


def _rows_of_memory(
    graph: Graph, budget_bytes: int, cuts: list[int], held: NDArray[np.int64], columns: int, rows: LinearRows
) -> tuple[int, list[int]]:
    members: dict[int, list[int]] = {}
    for value in np.flatnonzero(graph.producer >= 0).tolist():
        if graph.producer[graph.owner[value]] >= 0:
            members.setdefault(int(graph.owner[value]), []).append(value)
    budget = budget_bytes - graph.fixed_bytes
    memory: list[int] = []
    for k, cut in enumerate(cuts):
        room = budget - int(graph.workspace_bytes[cut]) + most_taken_over(graph, cut)
        terms: list[tuple[int, float]] = []
        for owner, values in members.items():
            size = int(graph.value_bytes[owner])
            states = [int(held[value, k]) for value in values if held[value, k] != _NO]
            if not states or not size:
                continue
            if _YES in states:
                room -= size
                continue
            column = states[0]
            if len(states) > 1:
                column, columns = columns, columns + 1
                for state in states:
                    rows.at_least(0.0, [(column, 1.0), (state, -1.0)])
            terms.append((column, -float(size)))
        before = len(rows.low)
        rows.at_least(-float(room), terms)
        memory.append(before if len(rows.low) > before else -1)
    return columns, memory


def most_taken_over(graph: Graph, op: int) -> int:
    """The most bytes that op ``op`` can take over, whatever else is live."""
    owners_in: dict[int, int] = {}
    by_output: dict[int, int] = {}
    for output, read in graph.ops[op].takes_over:
        old = int(graph.owner[read])
        size = int(graph.value_bytes[old])
        if graph.producer[old] >= 0 and size == int(graph.value_bytes[graph.owner[output]]):
            owners_in[read] = size
            by_output[output] = max(by_output.get(output, 0), size)
    return min(sum(owners_in.values()), sum(by_output.values()))
