"""The mixed-integer program of Checkmate as published, in PuLP.

(Jain et al., MLSys 2020, arXiv 1910.02653, problem 9.) Stages t = 0 … n−1, one per op in the given order.
Binary ``R[t, i]``: op i is computed in stage t; ``S[t, v]``: value v is retained into stage t; ``FREE[t, v,
k]``: v's buffer is freed in stage t right after op k; continuous ``U[t, k]``: live bytes while k is computed
in stage t. Objective (1a); constraints (1b), (1c), the recurrence (2)-(4), FREE by (7a)-(7c),
frontier-advancing stages (8a)-(8c), U within the budget.

On graphs of one plain output per op this is the paper's program (with FREE[t, k, k] of (4), which section 4.8
leaves out). For what else the graphs here have, these rules are added:

* S, FREE are per value, so the outputs of an op are retained and freed one by one;
* a view has no bytes; it is retained only with its owner, which is not recomputed while an earlier view of it
  is retained;
* workspace counts while its op runs; a take-over lowers U while its op runs, if FREE says that the input dies
  there;
* kept values are retained past the last stage; an op that must run once runs in its own stage only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.progress import never
from checkmate.solvers.certify import stage_assumptions
from checkmate.solvers.graph_sets import buffer_owners, take_over_groups, touching_ops
from checkmate.solvers.retention import must_run_once

_LARGEST_COEFFICIENT = 1e6  # of the memory rows; the engines' tolerances allow no more digits


def model_size(graph: Graph) -> int:
    """About how many variables the model has."""
    links = sum(len(touching_ops(graph, value)) for value in buffer_owners(graph))
    return graph.n * (2 * graph.n + int((graph.producer >= 0).sum()) + links) // 2


def assumptions_of(graph: Graph, *, recompute_gradients: bool) -> tuple[str, ...]:
    """The assumptions of a claim that is made from this model."""
    producer, owner = graph.producer, graph.owner
    for value in np.flatnonzero(owner != np.arange(graph.m)):
        source = producer[owner[value]]
        if source not in (-1, producer[value]) and len(graph.ops[source].outputs) > 1:
            beyond = ("no owner recomputed under a view",)
            return stage_assumptions(graph, *beyond, recompute_gradients=recompute_gradients)
    return stage_assumptions(graph, recompute_gradients=recompute_gradients)


def paper_model(
    graph: Graph,
    budget_bytes: float,
    *,
    recompute_gradients: bool,
    relaxed: bool,
    stop: Callable[[], bool] = never,
) -> PaperModel | None:
    """Build the model, as a linear program if ``relaxed``; None if ``stop`` says so on the way."""
    model = PaperModel(graph, budget_bytes, relaxed)
    model.run_once(must_run_once(graph, recompute_gradients=recompute_gradients))
    for stage in range(graph.n):
        if stop():
            return None
        model.dependencies(stage)
        model.views(stage)
        model.memory(stage)
    return model


class PaperModel:
    """The program and its variables. Its objective is the schedule's cost over ``cost_unit``."""

    def __init__(self, graph: Graph, budget_bytes: float, relaxed: bool) -> None:
        import pulp

        self.pulp, self.graph = pulp, graph
        self.kind = pulp.LpContinuous if relaxed else pulp.LpInteger  # because LpBinary would override bounds
        self.problem = pulp.LpProblem("checkmate", pulp.LpMinimize)
        self.producer, self.owner = graph.producer.tolist(), graph.owner.tolist()
        self.reads, self.writes = graph.op_inputs.lists(), graph.op_outputs.lists()
        self.owners = buffer_owners(graph)
        self.touchers = {value: touching_ops(graph, value) for value in self.owners}
        self.freed_by: list[list[int]] = [[] for _ in range(graph.n)]
        for value, ops in self.touchers.items():
            for op in ops:
                self.freed_by[op].append(value)
        # Whole units keep the rows exact. The mean op costs 1, so that the engines' absolute tolerances make
        # sense.
        self.bytes_unit = _bytes_unit(graph)
        self.limit = self._limit(budget_bytes)
        self.size = {value: graph.values[value].bytes / self.bytes_unit for value in self.owners}
        self.cost_unit = graph.base_cost / graph.n or 1.0
        self.R: dict[tuple[int, int], Any] = {}
        self.S: dict[tuple[int, int], Any] = {}
        self.peaks: list[Any] = []  # U variables whose upper bound is the budget
        self.peak_rows: list[Any] = []  # rows whose right-hand side is the budget
        self._variables()
        costs = (graph.cost / self.cost_unit).tolist()
        self.problem.setObjective(pulp.LpAffineExpression([(r, costs[i]) for (_, i), r in self.R.items()]))

    def shares(self, solution: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """S as float64[n, m], of the engine's final solution, or of a vector of all its columns."""
        found = np.zeros((self.graph.n, self.graph.m))
        for (stage, value), variable in self.S.items():
            if stage < self.graph.n:
                share = variable.varValue if solution is None else solution[variable.index]
                found[stage, value] = share or 0.0
        return found

    def set_budget(self, budget_bytes: float) -> None:
        """``budget_bytes`` includes the graph's fixed bytes."""
        limit = self._limit(budget_bytes)
        for variable in self.peaks:
            variable.upBound = limit
        for row in self.peak_rows:
            row.changeRHS(limit)

    def _limit(self, budget_bytes: float) -> float:
        return float(budget_bytes - self.graph.fixed_bytes) / self.bytes_unit

    def add(self, terms: Sequence[tuple[Any, float]], sense: int, right: float) -> Any:
        row = self.pulp.LpConstraint(self.pulp.LpAffineExpression(list(terms)), sense, rhs=right)
        self.problem.addConstraint(row)
        return row

    def _variables(self) -> None:
        """Add R and S, lower triangular (8b), (8c), with R[t, t] = 1 (8a)."""
        new, n = self.problem.add_variable, self.graph.n
        kept = set(np.flatnonzero(self.graph.keep).tolist())
        kept |= {self.owner[value] for value in kept}  # the buffer of a view is its owner's
        for t in range(n):
            for i in range(t):
                self.R[t, i] = new(f"R_{t}_{i}", 0, 1, self.kind)
            self.R[t, t] = new(f"R_{t}_{t}", 1, 1, self.kind)
        for value, source in enumerate(self.producer):
            if source >= 0:
                for t in range(source + 1, n + 1):
                    # Past the last stage only the kept values matter.
                    low, high = (0, 1) if t < n else (int(value in kept),) * 2
                    self.S[t, value] = new(f"S_{t}_{value}", low, high, self.kind)

    def run_once(self, once: NDArray[np.bool_]) -> None:
        for op in np.flatnonzero(once).tolist():
            for t in range(op + 1, self.graph.n):
                self.R[t, op].upBound = 0

    def dependencies(self, t: int) -> None:
        """(1b): what is read is computed here or retained. (1c): only what existed is retained."""
        less = self.pulp.LpConstraintLE
        for i in range(t + 1):
            for value in self.reads[i]:
                terms = [(self.R[t, i], 1), (self.R[t, self.producer[value]], -1)]
                if (t, value) in self.S:
                    terms.append((self.S[t, value], -1))
                self.add(terms, less, 0)
            for value in self.writes[i]:
                terms = [(self.S[t + 1, value], 1), (self.R[t, i], -1)]
                if (t, value) in self.S:
                    terms.append((self.S[t, value], -1))
                self.add(terms, less, 0)

    def views(self, t: int) -> None:
        """A view is retained only with its owner, which is not recomputed while the view is retained."""
        less = self.pulp.LpConstraintLE
        for value, owner in enumerate(self.owner):
            source = self.producer[owner]
            if owner == value or source < 0 or (t, value) not in self.S:
                continue
            self.add([(self.S[t, value], 1), (self.S[t, owner], -1)], less, 0)
            if source != self.producer[value]:
                self.add([(self.S[t, value], 1), (self.R[t, source], 1)], less, 1)

    def memory(self, t: int) -> None:
        """Add the live bytes along the stage, (2), (3), (4), with workspace and take-overs."""
        equal, less = self.pulp.LpConstraintEQ, self.pulp.LpConstraintLE
        before = [(self.S[t, value], -self.size[value]) for value in self.owners if self.producer[value] < t]
        for k in range(t + 1):
            own = sum(self.size[value] for value in self.writes[k] if value in self.size)
            used = self.problem.add_variable(f"U_{t}_{k}", 0, None)
            self.add([(used, 1), (self.R[t, k], -own), *before], equal, 0)
            free = {value: self._free(t, value, k) for value in self.freed_by[k]}
            self._within_budget(t, k, used, free, less)
            before = [(used, -1), *((variable, self.size[value]) for value, variable in free.items())]

    def _free(self, t: int, value: int, k: int) -> Any:
        less = self.pulp.LpConstraintLE
        free = self.problem.add_variable(f"FREE_{t}_{value}_{k}", 0, 1, self.kind)
        later = [self.R[t, j] for j in self.touchers[value] if k < j <= t]
        # num_hazards = (1 - R[t, k]) + S[t + 1, value] + the later readers computed in the stage
        hazards = [(self.S[t + 1, value], 1), *((r, 1) for r in later), (self.R[t, k], -1)]
        self.add([(free, -1), *((variable, -c) for variable, c in hazards)], less, 0)
        most = len(later) + 2
        self.add([(free, most), *hazards], less, most - 1)
        return free

    def _within_budget(self, t: int, k: int, used: Any, free: dict[int, Any], less: int) -> None:
        terms: list[tuple[Any, float]] = [(used, 1)]
        workspace = self.graph.ops[k].workspace_bytes
        if workspace:
            terms.append((self.R[t, k], workspace / self.bytes_unit))
        for number, group in enumerate(take_over_groups(self.graph, k)):
            taken = self.problem.add_variable(f"TAKEN_{t}_{k}_{number}", 0, group.most)
            self.add([(taken, 1), *((free[value], -1) for value in group.inputs)], less, 0)
            terms.append((taken, -group.bytes / self.bytes_unit))
        if len(terms) == 1:
            used.upBound = self.limit
            self.peaks.append(used)
        else:
            self.peak_rows.append(self.add(terms, less, self.limit))


def _bytes_unit(graph: Graph) -> float:
    """The bytes that one unit of the memory rows stands for."""
    sizes = np.array(
        [*(graph.values[v].bytes for v in buffer_owners(graph)), *graph.workspace_bytes.tolist()], np.int64
    )
    common = int(np.gcd.reduce(sizes)) if sizes.any() else 1
    largest = int(sizes.max(initial=1)) / common
    return common * max(1.0, largest / _LARGEST_COEFFICIENT)
