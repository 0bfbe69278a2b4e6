"""A tight mixed-integer program for the given order, as arrays.

Stages t = 0 … n−1 are as in the paper (Jain et al., MLSys 2020, arXiv 1910.02653, problem 9): stage t ends
with the first computation of op t. Binary ``R[t, i]``: op i runs in stage t; ``S[t, v]``: value v is retained
into stage t. In place of the paper's FREE, the continuous ``P[t, u, q]`` says that owner u's buffer is needed
in stage t at or after the q-th op that touches it, or after the stage. Minimise the sum of costs · R subject
to

* R[t, j] <= R[t, producer(v)] + S[t, v] for what j reads; S[t+1, v] <= S[t, v] + R[t, producer(v)]; R + S <=
  1 where v has bytes;
* P[q] >= R[t, j_q], P[q] >= P[q + 1], and past the last of them S[t + 1, u];
* while op k may run in stage t, the sum over owners u of bytes · (S[t, u] before u's producer, R + S at it,
  and P of the first toucher at or after k behind it) + workspace − take-overs <= budget.

What is live at a point where k does not run is also live at a point beside it, so no term needs to be
switched off there. Stated as a recurrence along the stage, these rows would have far fewer entries. But the
solver finds its cuts (covers of the budget) in rows of binaries only: with the recurrence it takes 5 to 15
times as long. In most places P equals one of its parts, or a constant, and is then no variable. Further:

* a value without bytes (and a view of such, or of a fixed value) is retained for good;
* a view is retained only with its owner, and R + S <= 1 then keeps the owner from being recomputed under it;
* an op that must run once runs in its own stage, so its values are retained until their last certain reader;
* R and S are 0 where nothing that can still run could use them;
* an input that is taken over counts as dead while its taker runs: P of the next toucher instead of its own.
  If an op has more such inputs than outputs, a variable says how many bytes it takes over at most.

The program is exact for graphs and schedules under ``paper_model.assumptions_of``, which it shares with the
paper's program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.progress import never
from checkmate.solvers.graph_sets import TakeOverGroup, buffer_owners, take_over_groups, touching_ops
from checkmate.solvers.highs import PackedRows
from checkmate.solvers.retention import must_run_once

Codes = NDArray[np.int64]  # a column's index, or one of the two below
NO, YES = -1, -2  # fixed at 0, fixed at 1


@dataclass
class RowBlocks:
    """Rows ``low <= sum of factor * column <= high`` while they are built, in any order."""

    count: int = 0
    _bounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = field(default_factory=list)
    _entries: list[tuple[NDArray[np.int64], Codes, NDArray[np.float64]]] = field(default_factory=list)
    _fixed: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = field(default_factory=list)

    def new(self, count: int, low: float, high: float) -> NDArray[np.int64]:
        self._bounds.append((np.full(count, low), np.full(count, high)))
        self.count += count
        return np.arange(self.count - count, self.count)

    def put(self, rows: NDArray[np.int64], codes: Codes, factor: float) -> None:
        """Add ``factor`` times the column of each code to each row; a YES adds the factor itself."""
        column = codes >= 0
        if column.any():
            self._entries.append((rows[column], codes[column], np.full(int(column.sum()), factor)))
        certain = codes == YES
        if certain.any():
            self._fixed.append((rows[certain], np.full(int(certain.sum()), factor)))

    def at_most(self, high: float, *terms: tuple[Codes, float]) -> None:
        """Add a row per place of the terms' codes: their sum is at most ``high``."""
        rows = self.new(len(terms[0][0]), -np.inf, high)
        for codes, factor in terms:
            self.put(rows, codes, factor)

    def pack(self) -> PackedRows:
        """All rows, with the entries of one place added up."""
        low, high = (
            np.concatenate([part[side] for part in self._bounds] or [np.zeros(0)]) for side in (0, 1)
        )
        for rows, factors in self._fixed:
            shift = np.bincount(rows, factors, minlength=self.count)
            low, high = low - shift, high - shift
        row, column, value = (
            np.concatenate([part[side] for part in self._entries] or [np.zeros(0, np.int64)])
            for side in (0, 1, 2)
        )
        width = int(column.max(initial=0)) + 1
        key = row.astype(np.int64) * width + column.astype(np.int64)
        order = np.argsort(key)
        key, value = key[order], value[order]
        places = np.flatnonzero(np.diff(key, prepend=-1))
        value = np.add.reduceat(value, places) if len(places) else np.zeros(0)
        row, column = np.divmod(key[places], width)
        there = np.abs(value) > 1e-12
        row, column, value = row[there], column[there], value[there]
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.count))]).astype(np.int32)
        return PackedRows(starts, column.astype(np.int32), value.astype(np.float64), low, high)


_LARGEST_ROOM = 1e4  # the most units in the budget; the solver's absolute tolerance is 1e-6 of one


@dataclass(frozen=True, eq=False)
class TightModel:
    """Minimise ``cost`` · x + ``offset`` within ``rows`` and ``upper``.

    The columns are 0 … ``columns`` − 1, all at least 0; those below ``whole`` are binary. ``runs``: int64[n,
    n], the column of R[t, i]; ``retained``: int64[n + 1, m], that of S[t, v]; NO or YES where fixed. The
    objective is the schedule's cost divided by ``cost_unit``.
    """

    graph: Graph
    columns: int
    whole: int
    cost: NDArray[np.float64]
    offset: float
    cost_unit: float
    upper: NDArray[np.float64]
    rows: PackedRows
    runs: Codes
    retained: Codes

    def retention(self, solution: NDArray[np.float64]) -> NDArray[np.bool_]:
        """S of a solution's columns, rounded: bool[n, m]."""
        held: NDArray[np.bool_] = np.append(solution, [1.0, 0.0])[self.retained[: self.graph.n]] > 0.5
        return held

    def choices(self, runs: NDArray[np.bool_], retained: NDArray[np.bool_]) -> NDArray[np.float64] | None:
        """The binary columns for R and S (bool[n + 1, m]); None if they contradict what is fixed."""
        chosen = np.zeros(self.whole)
        for codes, chosen_now in ((self.runs, runs), (self.retained, retained)):
            if (chosen_now & (codes == NO)).any() or (~chosen_now & (codes == YES)).any():
                return None
            free = codes >= 0
            chosen[codes[free]] = chosen_now[free]
        return chosen


def model_size(graph: Graph, *, recompute_gradients: bool) -> int:
    """About the most entries of the model's rows; takes milliseconds."""
    horizon = _Horizon.of(graph, must_run_once(graph, recompute_gradients=recompute_gradients))
    stage, op = np.arange(graph.n, dtype=np.int64), np.arange(graph.n, dtype=np.int64)
    owners = np.array(buffer_owners(graph), np.int64)
    points = _covering(op, horizon.last_run, stage)
    held = _covering(graph.producer[owners].astype(np.int64), horizon.last_need[owners], stage)
    return int((points * held).sum() + 3 * points.sum() + 8 * held.sum())


def _covering(
    first: NDArray[np.int64], last: NDArray[np.int64], stage: NDArray[np.int64]
) -> NDArray[np.int64]:
    begun = np.searchsorted(np.sort(first), stage, side="right")
    ended = np.searchsorted(np.sort(np.maximum(first, last)), stage, side="left")
    return begun - ended


def tight_model(
    graph: Graph, budget_bytes: int, *, recompute_gradients: bool, stop: Callable[[], bool] = never
) -> TightModel | None:
    """Build the model; None if ``stop``, asked a few times, says so on the way."""
    statement = _TightStatement(
        graph, budget_bytes, must_run_once(graph, recompute_gradients=recompute_gradients)
    )
    for part in (statement.dependencies, statement.views, statement.needs, statement.memory):
        if stop():
            return None
        part()
    return None if stop() else statement.model()


@dataclass(frozen=True, eq=False)
class _Horizon:
    """Per op or value, the last stage in which it may matter; ``free`` ones are retained for good."""

    once: NDArray[np.bool_]
    free: NDArray[np.bool_]
    last_run: NDArray[np.int64]
    last_need: NDArray[np.int64]
    sure_need: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph, once: NDArray[np.bool_]) -> _Horizon:
        """From the last op to the first; what is ``free`` is no reason to run an op again."""
        owner, producer, keep = graph.owner.tolist(), graph.producer.tolist(), graph.keep.tolist()
        readers, writes = graph.value_readers.lists(), graph.op_outputs.lists()
        free = np.array([producer[o] < 0 or not graph.values[o].bytes for o in owner], np.bool_)
        last_run = np.arange(graph.n)
        last_need, sure_need = np.full(graph.m, -1), np.full(graph.m, -1)
        for op in range(graph.n - 1, -1, -1):
            for value in reversed(writes[op]):
                end = [graph.n] if keep[value] else []
                last_need[value] = max([last_need[value], *(last_run[j] for j in readers[value]), *end])
                sure_need[value] = max([sure_need[value], *readers[value], *end])
                for found in (last_need, sure_need):
                    found[owner[value]] = max(found[owner[value]], found[value])
                if not once[op] and not free[value]:
                    last_run[op] = max(last_run[op], min(last_need[value], graph.n - 1))
        return cls(once, free, last_run, last_need, sure_need)


class _TightStatement:
    """The model while it is being built; arrays over stages are int64[n]."""

    def __init__(self, graph: Graph, budget_bytes: int, once: NDArray[np.bool_]) -> None:
        self.graph, self.rows = graph, RowBlocks()
        self.producer, self.owner = graph.producer.tolist(), graph.owner.tolist()
        self.reads, self.writes = graph.op_inputs.lists(), graph.op_outputs.lists()
        self.owners = buffer_owners(graph)
        self.horizon = _Horizon.of(graph, once)
        self.columns = 0
        self.R = self._run_codes()
        self.S = self._retention_codes()
        self.whole = self.columns
        room = budget_bytes - graph.fixed_bytes
        common = np.gcd.reduce(np.append(graph.value_bytes[self.owners], graph.workspace_bytes)) or 1
        self.unit = max(float(common), room / _LARGEST_ROOM)
        self.room = room / self.unit
        self.capped: dict[int, float] = {}  # the columns whose upper bound is not 1
        # P per owner and toucher: needed at or after it, and needed after it. Then P at or after the owner's
        # first toucher.
        self.needed: dict[tuple[int, int], tuple[Codes, Codes]] = {}
        self.first: dict[int, Codes] = {}

    def _new(self, wanted: NDArray[np.bool_]) -> Codes:
        codes = np.full(wanted.shape, NO, np.int64)
        count = int(wanted.sum())
        codes[wanted] = np.arange(self.columns, self.columns + count)
        self.columns += count
        return codes

    def _run_codes(self) -> Codes:
        stage, op = np.indices((self.graph.n, self.graph.n), sparse=True)
        codes = self._new((stage > op) & (stage <= self.horizon.last_run))
        np.fill_diagonal(codes, YES)
        return codes

    def _retention_codes(self) -> Codes:
        graph, horizon = self.graph, self.horizon
        stage = np.arange(graph.n + 1)[:, None]
        exists = (graph.producer >= 0) & (graph.producer < stage)
        once = horizon.once[graph.producer]
        sure = exists & (horizon.free | (once & (stage <= horizon.sure_need)))
        sure |= exists & (stage == graph.n) & (horizon.sure_need == graph.n)
        codes = self._new(exists & ~sure & (stage <= horizon.last_need) & (stage < graph.n))
        codes[sure] = YES
        return codes

    def dependencies(self) -> None:
        """Reads are made in the stage or retained; only what existed, or is made anew, is retained."""
        n, rows = self.graph.n, self.rows
        for op in range(n):
            for value in self.reads[op]:
                runs, makes, held = self.R[:, op], self.R[:, self.producer[value]], self.S[:n, value]
                at = (runs != NO) & (makes != YES) & (held != YES)
                rows.at_most(0.0, (runs[at], 1.0), (makes[at], -1.0), (held[at], -1.0))
            for value in self.writes[op]:
                makes, held, later = self.R[:, op], self.S[:n, value], self.S[1:, value]
                at = (later != NO) & (makes != YES) & (held != YES)
                rows.at_most(0.0, (later[at], 1.0), (makes[at], -1.0), (held[at], -1.0))
                if not self.horizon.free[value]:
                    at = (makes >= 0) & (held != NO)
                    rows.at_most(1.0, (makes[at], 1.0), (held[at], 1.0))

    def views(self) -> None:
        """A view is retained only with its owner; the owner's R + S <= 1 does the rest."""
        for value, owner in enumerate(self.owner):
            if owner != value and not self.horizon.free[value] and self.producer[value] >= 0:
                mine, its = self.S[:, value], self.S[:, owner]
                at = (mine != NO) & (its != YES)
                self.rows.at_most(0.0, (mine[at], 1.0), (its[at], -1.0))

    def needs(self) -> None:
        """Add P, per owner from its last toucher back to its first."""
        for owner in self.owners:
            after = self.S[1:, owner]
            for op in reversed(touching_ops(self.graph, owner)):
                if op == self.producer[owner]:
                    break
                runs = self.R[:, op]
                either = (runs >= 0) & (after >= 0)
                here = np.where(runs == NO, after, np.where((runs == YES) | (after == YES), YES, runs))
                here[either] = self._new(either)[either]
                for part in (runs[either], after[either]):
                    self.rows.at_most(0.0, (part, 1.0), (here[either], -1.0))
                self.needed[owner, op] = here, after
                after = here
            self.first[owner] = after

    def memory(self) -> None:
        """Keep every point at which an op may run within the budget.

        The row sums what every owner contributes there, less what is taken over.
        """
        points = self.R != NO
        rows = np.full(points.shape, NO, np.int64)
        rows[points] = self.rows.new(int(points.sum()), -np.inf, self.room)
        given_up = self._take_overs(rows)
        for owner in self.owners:
            size, maker = self.graph.values[owner].bytes / self.unit, self.producer[owner]
            held = self.S[: self.graph.n, owner]
            self._contribute(rows, 0, maker + 1, held, size)
            self._contribute(rows, maker, maker + 1, self.R[:, maker], size)
            begin = maker + 1
            for toucher in [op for op in touching_ops(self.graph, owner) if op != maker]:
                here, after = self.needed[owner, toucher]
                self._contribute(rows, begin, toucher, here, size)
                self._contribute(
                    rows, toucher, toucher + 1, after if (owner, toucher) in given_up else here, size
                )
                begin = toucher + 1
            self._contribute(rows, begin, self.graph.n, self.S[1:, owner], size)

    def _contribute(self, rows: NDArray[np.int64], begin: int, end: int, codes: Codes, size: float) -> None:
        part = rows[:, begin:end]
        at = (part != NO) & (codes != NO)[:, None]
        self.rows.put(part[at], np.broadcast_to(codes[:, None], part.shape)[at], size)

    def _take_overs(self, rows: NDArray[np.int64]) -> set[tuple[int, int]]:
        """Add workspaces and take-overs; return the inputs (owner, op) that are always taken over.

        The others need a variable, since there are more inputs than may be taken over.
        """
        always: set[tuple[int, int]] = set()
        for k in range(self.graph.n):
            at = np.flatnonzero(rows[:, k] != NO)
            self.rows.put(rows[at, k], self.R[at, k], self.graph.ops[k].workspace_bytes / self.unit)
            for group in take_over_groups(self.graph, k):
                if group.most >= len(group.inputs):
                    always |= {(owner, k) for owner in group.inputs}
                else:
                    self._take_some(k, group, rows, at)
        return always

    def _take_some(self, k: int, group: TakeOverGroup, rows: NDArray[np.int64], at: NDArray[np.intp]) -> None:
        """Add a variable for the bytes that op ``k`` takes over from ``group``."""
        taken = self._new(np.ones(len(at), np.bool_))
        self.capped.update(dict.fromkeys(taken.tolist(), float(group.most)))
        self.rows.put(rows[at, k], taken, -group.bytes / self.unit)
        self.rows.at_most(0.0, (taken, 1.0), (self.R[at, k], -float(group.most)))
        dying = [tuple(codes[at] for codes in self.needed[owner, k]) for owner in group.inputs]
        terms = [(here, -1.0) for here, _ in dying] + [(after, 1.0) for _, after in dying]
        self.rows.at_most(0.0, (taken, 1.0), *terms)

    def model(self) -> TightModel:
        """Everything added, packed. The mean op costs 1, for the sake of the solver's absolute tolerances."""
        graph = self.graph
        unit = graph.base_cost / graph.n or 1.0
        cost = np.zeros(self.columns)
        stage, op = np.nonzero(self.R >= 0)
        cost[self.R[stage, op]] = graph.cost[op] / unit
        upper = np.ones(self.columns)
        upper[list(self.capped)] = list(self.capped.values())
        return TightModel(
            graph,
            self.columns,
            self.whole,
            cost,
            graph.base_cost / unit,
            unit,
            upper,
            self.rows.pack(),
            self.R,
            self.S,
        )
