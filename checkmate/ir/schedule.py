"""A schedule is the sequence of executed ops; R and S are views of it.

Stage ``t`` ends with the ``t``-th first computation of an op, as in the paper (Jain et al., section 4.1: "unrolled
execution", one new operation per stage), but the order of first computations is the schedule's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import FingerprintMismatchError, ScheduleError
from checkmate.ir.arrays import read_only
from checkmate.ir.graph import Graph


@dataclass(frozen=True, eq=False)
class StageMatrices:
    """The paper's view of a schedule; all arrays read-only, T = n stages.

    ``order``: int32[n], the op of each column (order of first computation).
    ``R``: bool[n, n], ``R[t, i]``: the op of column ``i`` is computed in stage ``t``.
    ``S``: bool[n, n], ``S[t, i]``: an output of it exists at the start of stage ``t`` and is read, or kept, before it is
    produced again.
    ``stage_of_step``: int32[steps].
    """

    order: NDArray[np.int32]
    R: NDArray[np.bool_]
    S: NDArray[np.bool_]
    stage_of_step: NDArray[np.int32]

    def __post_init__(self) -> None:
        n = len(self.order)
        for name, dtype in (("order", np.int32), ("R", np.bool_), ("S", np.bool_), ("stage_of_step", np.int32)):
            object.__setattr__(self, name, read_only(getattr(self, name), dtype))
        if self.R.shape != (n, n) or self.S.shape != (n, n):
            raise ScheduleError(f"R {self.R.shape} and S {self.S.shape} must be {n} x {n}")


@dataclass(frozen=True, eq=False)
class Schedule:
    """Op indices in the order of execution (repeats are recomputations), for the graph with ``graph_fingerprint``.

    Raises:
        ScheduleError: no steps, or an entry that cannot be an op index.
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

    @classmethod
    def of(cls, graph: Graph, steps: list[int] | NDArray[np.integer]) -> Schedule:
        """The schedule of ``graph`` that executes ``steps``."""
        return cls(np.asarray(steps), graph.fingerprint)

    @cached_property
    def first_occurrence(self) -> NDArray[np.bool_]:
        """bool[steps]: the step is its op's first computation."""
        first = np.zeros(len(self.steps), np.bool_)
        first[np.unique(self.steps, return_index=True)[1]] = True
        return read_only(first, np.bool_)

    @property
    def recomputations(self) -> int:
        """Number of steps that repeat an op."""
        return len(self.steps) - int(self.first_occurrence.sum())

    def require_graph(self, graph: Graph) -> None:
        """Raise unless this schedule was made for ``graph``.

        Raises:
            FingerprintMismatchError: it was made for another graph.
            ScheduleError: it names an op the graph does not have.
        """
        if not graph.accepts_fingerprint(self.graph_fingerprint):
            raise FingerprintMismatchError(
                found=self.graph_fingerprint, expected=graph.fingerprint, graph_name=graph.name
            )
        if int(self.steps.max()) >= graph.n:
            raise ScheduleError(f"steps names op {int(self.steps.max())}; the graph has {graph.n}")

    def matrices(self, graph: Graph) -> StageMatrices:
        """R and S (see ``StageMatrices``).

        Raises:
            ScheduleError: an op never runs, so there are fewer stages than ops.
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
        R = np.zeros((graph.n, graph.n), np.bool_)
        R[stage, column[self.steps]] = True
        S = np.zeros_like(R)
        starts = np.flatnonzero(np.concatenate([[True], first[:-1]]))[: graph.n]  # first step of each stage
        for value, born, last in _instances(graph, self.steps):
            # Held at the start of a stage: produced before its first step, still read at or after it.
            begin, end = np.searchsorted(starts, [born, last], side="right")
            S[begin:end, column[graph.producer[value]]] = True
        return StageMatrices(order, R, S, stage)


def _instances(graph: Graph, steps: NDArray[np.int32]) -> list[tuple[int, int, int]]:
    """(value, step that produced it, last step that reads it) for every production; len(steps) as last where kept."""
    inputs, outputs = graph.op_inputs.lists(), graph.op_outputs.lists()
    found: list[tuple[int, int, int]] = []
    last_read = {value: len(steps) for value in np.flatnonzero(graph.keep & (graph.producer >= 0)).tolist()}
    for position in range(len(steps) - 1, -1, -1):
        op = int(steps[position])
        for value in outputs[op]:
            if (last := last_read.pop(value, None)) is not None:
                found.append((value, position, last))
        for value in inputs[op]:
            last_read.setdefault(value, position)
    return found
