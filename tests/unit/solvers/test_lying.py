"""Solvers and provers that lie: nothing false is ever shown, and it is said who was wrong."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from checkmate import planning
from checkmate.errors import SolverCrashedError, VerificationError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.known_frontier import Frontier
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.registry import SolverEntry
from tests.graphs_strategies import training_chain

BUDGET = 60


@dataclass(frozen=True)
class Liar:
    """A solver that returns what it was given, whatever the problem is."""

    result: SolveResult

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        return self.result


def told(graph: Graph, lies: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> SolveResult:
    """Return what the pipeline makes of a result with ``lies`` in it. The result was true before."""
    honest = planning.solve(graph, BUDGET, solver="greedy")
    monkeypatch.setattr(SolverEntry, "load", lambda entry: Liar(replace(honest, **lies)))
    return planning.solve(graph, BUDGET, solver="greedy")


ORDERS = {
    "plain": range(16), "backwards": range(15, -1, -1), "half": range(8), "no op": [99],
    "twice": [*range(16), *range(16)],
}  # fmt: skip
LIES: dict[str, list[Any]] = {  # every claim of an answer, with false values of it
    "schedule": [*ORDERS],
    "cost": [0.0, -1.0, 18.0, 20.0, math.nan, math.inf],
    "peak_bytes": [0, -1, 59, 61, 10**9],
    "lower_bound": [19.1, 10.0**6, math.inf, math.nan],
    "status": [SolveStatus.OPTIMAL],
    "budget_bytes": [0, 59, 61, 10**9],
    "base_cost": [0.0, 15.0, 17.0, math.inf, math.nan],
}


@pytest.mark.parametrize(("claim", "lie"), [(claim, lie) for claim, lies in LIES.items() for lie in lies])
def test_a_lying_solver_is_caught(claim: str, lie: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = training_chain(8)
    lie = Schedule.of(graph, list(ORDERS[lie])) if claim == "schedule" else lie
    with pytest.raises(SolverCrashedError, match="solver 'greedy'"):
        told(graph, {claim: lie}, monkeypatch)


def test_an_optimum_without_a_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    lies = {"status": SolveStatus.OPTIMAL, "lower_bound": None}
    with pytest.raises(SolverCrashedError, match="called optimal"):
        told(training_chain(8), lies, monkeypatch)


def test_an_honest_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(training_chain(8), {}, monkeypatch).schedule is not None


@pytest.mark.parametrize("bound", [1.01, 2.0, math.inf])
def test_a_prover_whose_bound_is_above_a_known_cost_is_caught(bound: float) -> None:
    graph = training_chain(8)
    problem, steps = Problem(graph, 10**6), list(range(graph.n))
    with pytest.raises(SolverCrashedError, match="the proof is false"):
        with_schedule(problem, "liar", steps, lower_bound=bound * graph.base_cost, seconds=0.0)
    rounded = with_schedule(problem, "honest", steps, lower_bound=graph.base_cost * (1 + 1e-9), seconds=0.0)
    assert rounded.status is SolveStatus.OPTIMAL and rounded.lower_bound == graph.base_cost


def test_a_bound_under_assumptions_may_be_above_a_schedule_that_breaks_them() -> None:
    graph = training_chain(8)
    found = with_schedule(
        Problem(graph, 10**6), "order", list(range(16)), lower_bound=99.0, seconds=0.0, assumptions=("order",)
    )
    assert found.status is SolveStatus.FEASIBLE


def test_a_false_certificate_does_not_hold() -> None:
    graph = training_chain(8)
    made = planning.certify(graph, BUDGET, seconds=20.0)
    assert made is not None and made.cost is not None
    for lie in ({"cost": made.cost + 1}, {"claim": "infeasible"}, {"budget_bytes": 10**9}, {"proof": []}):
        with pytest.raises(VerificationError):
            planning.check_certificate(graph, json.loads(json.dumps({**made.data, **lie})))


def test_answers_that_come_late_twice_or_in_any_order_change_nothing() -> None:
    graph = training_chain(8)
    honest = planning.solve(graph, BUDGET, solver="greedy").require_schedule().steps.tolist()
    once, often = Frontier(graph), Frontier(graph)
    for frontier, times in ((once, 1), (often, 3)):
        for _ in range(times):
            frontier.add(honest, solver="greedy")
            frontier.add_bound(BUDGET, graph.base_cost)
    assert once.bound(BUDGET) == often.bound(BUDGET)
    assert [point.cost for point in once.points] == [point.cost for point in often.points]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_claim_is_confirmed_by_a_certificate_and_a_false_one_is_not(share: float) -> None:
    graph = training_chain(8 if share < 0.5 else 20)
    budget = int(share * planning.keep_everything_peak(graph))
    found = planning.solve(graph, budget, options=SolveOptions(time_limit_s=60.0))
    claimed = SolveStatus.INFEASIBLE if share < 0.5 else SolveStatus.OPTIMAL
    assert found.status is claimed and planning.confirmed(graph, found)
    if found.cost is None:
        lie = replace(found, budget_bytes=10**6)
    else:
        first, *others = found.require_schedule().steps.tolist()
        dearer = Schedule.of(graph, [first, first, *others])
        lie = replace(found, schedule=dearer, cost=found.cost + 1.0, lower_bound=found.cost + 1.0)
    assert not planning.confirmed(graph, lie)


def test_nothing_is_confirmed_that_claims_nothing_or_is_assumed() -> None:
    graph = training_chain(8)
    assert not planning.confirmed(graph, planning.solve(graph, BUDGET, solver="greedy"))
    proved = planning.solve(graph, 39)
    assert not planning.confirmed(graph, replace(proved, assumptions=("given order",)))
