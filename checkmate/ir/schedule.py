"""A schedule: the sequence of executed ops, and its matrices R and S.

Stage ``t`` ends with the ``t``-th first computation of an op. This is the paper's "unrolled execution" with
one new operation per stage (Jain et al., section 4.1), but the order of first computations is the schedule's
own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import FingerprintMismatchError, ScheduleError
from checkmate.ir.arrays import read_only
from checkmate.ir.graph import Graph
from checkmate.ir.shown import Shown


@dataclass(frozen=True, eq=False)
class StageMatrices:
    """The paper's view of a schedule: what runs and is kept in each stage.

    All arrays are read-only, and T = n stages. The cells are kept as lists; ``R`` and ``S`` are built when
    asked for.

    ``order``: int32[n], the op of each column (order of first computation).
    ``stage_of_step``, ``column_of_step``: int32[steps], the cells of R, step by step.
    ``held_column``, ``held_from``, ``held_to``: int32[k], the cells of S: column, first stage, stage after
    the last.
    """

    order: NDArray[np.int32]
    stage_of_step: NDArray[np.int32]
    column_of_step: NDArray[np.int32]
    held_column: NDArray[np.int32]
    held_from: NDArray[np.int32]
    held_to: NDArray[np.int32]

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, read_only(getattr(self, entry.name), np.int32))

    @property
    def n(self) -> int:
        return len(self.order)

    @cached_property
    def R(self) -> NDArray[np.bool_]:  # noqa: N802 - the paper's name
        """Return R as bool[n, n]: whether column i's op is computed in stage t."""
        R = np.zeros((self.n, self.n), np.bool_)
        R[self.stage_of_step, self.column_of_step] = True
        return read_only(R, np.bool_)

    @cached_property
    def S(self) -> NDArray[np.bool_]:  # noqa: N802 - the paper's name
        """Return S as bool[n, n]: whether column i is held as stage t starts.

        An op is held when an output of it exists and is read, or kept to the end, before it is made again.
        """
        S = np.zeros((self.n, self.n), np.bool_)
        spans = zip(self.held_column.tolist(), self.held_from.tolist(), self.held_to.tolist(), strict=True)
        for column, begin, end in spans:
            S[begin:end, column] = True
        return read_only(S, np.bool_)


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(Shown):
    """Op indices in the order of execution; a repeat is a recomputation.

    ``graph_fingerprint`` names the graph that the schedule is for.

    Raises:
        ScheduleError: there are no steps, or an entry cannot be an op index.
    """

    steps: NDArray[np.int32]
    graph_fingerprint: str

    def __post_init__(self) -> None:
        steps = np.asarray(self.steps)
        if steps.ndim != 1 or not len(steps):
            raise ScheduleError("a schedule needs at least one step")
        if steps.dtype.kind not in "iu":
            raise ScheduleError("steps must be whole numbers (op indices)")
        if int(steps.min()) < 0 or int(steps.max()) >= 2**31:
            raise ScheduleError(
                f"steps names op {int(steps.min() if steps.min() < 0 else steps.max())}; there is no such op"
            )
        object.__setattr__(self, "steps", read_only(steps, np.int32))

    def __repr__(self) -> str:
        return f"Schedule({len(self.steps)} steps, {self.recomputations} of them recomputed)"

    @classmethod
    def of(cls, graph: Graph, steps: list[int] | NDArray[np.integer]) -> Schedule:
        return cls(np.asarray(steps), graph.fingerprint)

    @classmethod
    def plain(cls, graph: Graph) -> Schedule:
        return cls(np.arange(graph.n, dtype=np.int32), graph.fingerprint)

    @cached_property
    def first_occurrence(self) -> NDArray[np.bool_]:
        """Return bool[steps]: whether the step is its op's first computation."""
        first = np.zeros(len(self.steps), np.bool_)
        first[np.unique(self.steps, return_index=True)[1]] = True
        return read_only(first, np.bool_)

    @property
    def recomputations(self) -> int:
        return len(self.steps) - int(self.first_occurrence.sum())

    def same_steps(self, other: Schedule | None) -> bool:
        return other is not None and np.array_equal(self.steps, other.steps)

    def require_graph(self, graph: Graph) -> None:
        if not graph.accepts_fingerprint(self.graph_fingerprint):
            raise FingerprintMismatchError(
                found=self.graph_fingerprint, expected=graph.fingerprint, graph_name=graph.name
            )
        if int(self.steps.max()) >= graph.n:
            raise ScheduleError(f"steps names op {int(self.steps.max())}; the graph has {graph.n}")

    def matrices(self, graph: Graph) -> StageMatrices:
        """Return the matrices R and S (see ``StageMatrices``); raise a ``ScheduleError`` where an op never
        runs.
        """
        self.require_graph(graph)
        first = self.first_occurrence
        if int(first.sum()) != graph.n:
            missing = int(np.setdiff1d(np.arange(graph.n), self.steps)[0])
            raise ScheduleError(f"op {missing} {graph.ops[missing].name!r} never runs")
        order = self.steps[first]
        column = np.empty(graph.n, np.int32)
        column[order] = np.arange(graph.n)
        # Steps after the last first computation belong to the last stage.
        stage = np.minimum(np.cumsum(first) - first, graph.n - 1).astype(np.int32)
        # The number of stages begun by each step, itself included, and by the end: it grows after each first
        # computation but the last.
        begun = np.minimum(np.concatenate([[1], 1 + np.cumsum(first)]), graph.n)
        value, born, last = _instances(graph, self.steps)
        # Held at the start of a stage: produced before its first step and still read at or after it.
        begin, end = begun[born], begun[last]
        kept = begin < end
        columns = column[graph.producer[value[kept]]]
        spans = columns, begin[kept].astype(np.int32), end[kept].astype(np.int32)
        return StageMatrices(order, stage, column[self.steps], *spans)


def _instances(
    graph: Graph, steps: NDArray[np.int32]
) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """Return three arrays with one entry per computation of a value that is read: the value, the step that
    made it, and the last step that reads it (the number of steps if it is kept to the end)."""
    count = len(steps)
    born, made = graph.op_outputs.gather(steps)
    order = np.argsort(made.astype(np.int64) * (count + 1) + born, kind="stable")
    born, made = born[order], made[order].astype(np.int64)
    key = made * (count + 1) + born
    read, value = graph.op_inputs.gather(steps)
    kept = np.flatnonzero(graph.keep & (graph.producer >= 0))
    read, value = np.append(read, np.full(len(kept), count)), np.append(value, kept).astype(np.int64)
    # A read is served by the latest production before it. A read without one belongs to no production.
    source = np.searchsorted(key, value * (count + 1) + read, side="left") - 1
    served = (source >= 0) & (made[source] == value)
    last = np.full(len(made), -1, np.int64)
    np.maximum.at(last, source[served], read[served])
    found = last >= 0
    return made[found], born[found], last[found]
