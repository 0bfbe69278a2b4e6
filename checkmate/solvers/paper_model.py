"""The mixed-integer program of Checkmate (Jain et al., MLSys 2020, arXiv 1910.02653, section 4), as published, in PuLP.

Stages t = 0 … n−1, one per op in the given order. Binary ``R[t, i]``: op i is computed in stage t; ``S[t, i]``: its result is
retained into stage t; ``FREE[t, i, k]``: i is freed in stage t right after k is computed; continuous ``U[t, k]``: live bytes while k
is computed in stage t. Minimise Σ cost·R subject to

- a computed op's inputs are computed in the stage or retained into it; only what was there can be retained;
- the frontier advances: R[t, t] = 1, nothing above the diagonal;
- U follows the recurrence over k: plus the output of k where it is computed, less what is freed after the op before;
- FREE[t, i, k] = R[t, k] · (1 − S[t+1, i]) · Π over later users j of i in the stage of (1 − R[t, j]), linearized by counting
  the hazards; U ≤ budget.

What the formulation cannot say is said pessimistically: an op's outputs are one, a view is an op of no bytes whose owner is
held with it, take-overs do not happen. Kept values are retained past the last stage; ops that may not be recomputed run once.
Differs from the authors' code, which has no FREE for the op itself and so holds a dead output to the end of its stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.solvers.problem import Problem


@dataclass(frozen=True, eq=False)
class PaperModel:
    """``problem``: the PuLP problem; ``R``, ``S``: its variables by (stage, op); ``scale``: bytes per unit of its memory rows."""

    problem: Any
    R: dict[tuple[int, int], Any]
    S: dict[tuple[int, int], Any]
    graph: Graph

    def retained(self, threshold: float = 0.5) -> NDArray[np.bool_]:
        """S of the solution, bool[n, n]: 1 where the variable is above ``threshold``."""
        found = np.zeros((self.graph.n, self.graph.n), np.bool_)
        for (stage, op), variable in self.S.items():
            if stage < self.graph.n:
                found[stage, op] = (variable.varValue or 0.0) > threshold
        return found

    def retained_shares(self) -> NDArray[np.float64]:
        """S of the relaxation's solution, float64[n, n]."""
        found = np.zeros((self.graph.n, self.graph.n))
        for (stage, op), variable in self.S.items():
            if stage < self.graph.n:
                found[stage, op] = variable.varValue or 0.0
        return found


def model_size(graph: Graph) -> int:
    """About how many FREE variables the model has, which is what makes it slow to state."""
    links = sum(len(row) for row in _dependencies(graph)) + graph.n
    return links * graph.n // 2


def assumptions_of(graph: Graph, *, recompute_gradients: bool) -> tuple[str, ...]:
    """What a claim made from this model takes for granted on this graph."""
    found = ["given order"]
    if any(len(op.outputs) > 1 for op in graph.ops):
        found.append("an op's outputs retained together")
    if any(op.takes_over for op in graph.ops):
        found.append("no take-overs")
    if any(value.alias_of is not None for value in graph.values):
        found.append("a view holds its owner")
    if not recompute_gradients:
        found.append("no gradient recompute")
    return tuple(found)


def paper_model(problem: Problem, *, recompute_gradients: bool, relaxed: bool, budget_share: float = 1.0) -> PaperModel:
    """State the model for ``problem``; ``relaxed``: as a linear program, with ``budget_share`` of the free budget."""
    import pulp

    graph, n = problem.graph, problem.graph.n
    deps, sizes = _dependencies(graph), _op_bytes(graph)
    users: list[list[int]] = [[] for _ in range(n)]
    for op, sources in enumerate(deps):
        for source in sources:
            users[source].append(op)
    kept = _kept_ops(graph)
    unit = max(1, int(np.gcd.reduce(np.array([*sizes, *graph.workspace_bytes.tolist(), 1], dtype=np.int64)[:-1]) or 1))
    budget = (problem.budget_bytes - graph.fixed_bytes) * budget_share / unit
    kind = pulp.LpContinuous if relaxed else pulp.LpBinary

    def variable(name: str) -> Any:
        return pulp.LpVariable(name, 0, 1, kind)

    R = {(t, i): variable(f"R_{t}_{i}") for t in range(n) for i in range(t + 1)}
    S = {(t, i): variable(f"S_{t}_{i}") for t in range(1, n + 1) for i in range(min(t, n))}
    model = pulp.LpProblem("checkmate", pulp.LpMinimize)
    model += pulp.lpSum(graph.ops[i].cost * r for (t, i), r in R.items())
    for t in range(n):
        model += R[t, t] == 1
        for i in range(t + 1):
            for source in deps[i]:
                model += R[t, i] <= R[t, source] + S.get((t, source), 0)
            model += S[t + 1, i] <= R[t, i] + S.get((t, i), 0)
    for i in range(n):
        if i in kept:
            model += S[n, i] == 1
        once = not graph.ops[i].recomputable or (not recompute_gradients and graph.ops[i].phase == "backward")
        if once:
            for t in range(i + 1, n):
                model += R[t, i] == 0
    for t in range(n):
        _memory_rows(model, pulp, graph, R, S, t, deps, users, [s / unit for s in sizes], unit, budget, kind)
    return PaperModel(model, R, S, graph)


def _memory_rows(
    model: Any, pulp: Any, graph: Graph, R: Any, S: Any, t: int, deps: Any, users: Any, sizes: Any, unit: int, budget: float,
    kind: Any,
) -> None:  # fmt: skip
    """Live bytes along stage ``t``, and what may be freed where."""
    live = pulp.lpSum(sizes[i] * S[t, i] for i in range(t) if (t, i) in S)
    for k in range(t + 1):
        total = pulp.LpVariable(f"U_{t}_{k}", 0, budget)
        model += total == live + sizes[k] * R[t, k]
        if graph.ops[k].workspace_bytes:
            model += total + graph.ops[k].workspace_bytes / unit * R[t, k] <= budget
        freed = []
        for i in (*deps[k], k):
            if sizes[i] == 0:
                continue
            later = [R[t, j] for j in users[i] if k < j <= t]
            free = pulp.LpVariable(f"F_{t}_{i}_{k}", 0, 1, kind)
            hazards = (1 - R[t, k]) + S[t + 1, i] + pulp.lpSum(later)
            model += 1 - free <= hazards
            model += (len(later) + 2) * (1 - free) >= hazards
            freed.append(sizes[i] * free)
        live = total - pulp.lpSum(freed)


def _dependencies(graph: Graph) -> list[list[int]]:
    """Per op the ops whose results must be there: producers of its inputs, and of the owners of inputs that are views."""
    producer, owner = graph.producer.tolist(), graph.owner.tolist()
    found = []
    for op in graph.ops:
        wanted = {producer[v] for v in op.inputs} | {producer[owner[v]] for v in op.inputs}
        found.append(sorted(p for p in wanted if p >= 0))
    return [[source for source in row if source != op] for op, row in enumerate(found)]


def _op_bytes(graph: Graph) -> list[int]:
    return [sum(graph.values[v].bytes for v in op.outputs if graph.values[v].alias_of is None) for op in graph.ops]


def _kept_ops(graph: Graph) -> set[int]:
    producer, owner = graph.producer.tolist(), graph.owner.tolist()
    kept = [v for v in range(graph.m) if graph.values[v].keep and producer[v] >= 0]
    return {p for v in kept for p in (producer[v], producer[owner[v]]) if p >= 0}
