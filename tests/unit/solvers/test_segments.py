"""Test the preference for schedules that recompute whole segments."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.planning import keep_everything_peak, known_minimum, solve
from checkmate.planning.deterministic_solve import solve_counted
from checkmate.planning.segments import in_segments
from checkmate.solvers.baselines import whole_segments
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.problem import Listener, SolveOptions
from tests.graphs_strategies import random_graph, training_chain

QUICK = SolveOptions(time_limit_s=1)
BUDGETS = (120, 160, 200)


@pytest.fixture(scope="module")
def long_chain() -> Graph:
    return training_chain(24)


def general(graph: Graph, budget: int) -> SolveResult:
    return solve_counted(graph, budget, options=QUICK, listener=Listener())


def runs(result: SolveResult) -> int:
    """Count how often recomputations begin after a step that is none."""
    steps = result.require_schedule().steps.tolist()
    again = [step in steps[:place] for place, step in enumerate(steps)]
    return sum(later and not earlier for earlier, later in pairwise(again))


@pytest.mark.parametrize("budget", BUDGETS)
def test_it_costs_hardly_more_and_keeps_the_budget_and_the_bound(long_chain: Graph, budget: int) -> None:
    before = general(long_chain, budget)
    found = in_segments(long_chain, before, options=QUICK)
    assert before.cost is not None and found.cost is not None
    assert found.cost <= 1.02 * before.cost
    assert (found.lower_bound, found.assumptions) == (before.lower_bound, before.assumptions)
    assert check(long_chain, found.require_schedule().steps.tolist()).peak_bytes <= budget


def test_a_bound_under_other_assumptions_is_not_taken_over(long_chain: Graph) -> None:
    before = general(long_chain, 160)
    assert before.cost is not None
    ordered = replace(before, assumptions=("given order",), lower_bound=before.cost)
    found = in_segments(long_chain, ordered, options=QUICK)
    assert found.solver == "chain" and found.assumptions == ()
    assert found.lower_bound == long_chain.base_cost


def test_a_chain_is_recomputed_in_fewer_runs(long_chain: Graph) -> None:
    before = [general(long_chain, budget) for budget in BUDGETS]
    found = [in_segments(long_chain, each, options=QUICK) for each in before]
    assert "chain" in {each.solver for each in found}
    assert sum(map(runs, found)) <= sum(map(runs, before))


def test_constraints_are_kept(long_chain: Graph) -> None:
    op = long_chain.ops[3].name
    kept = Constraints(never_recompute=(op,))
    before = solve(long_chain, 220, solver="local-search", options=QUICK, constraints=kept)
    found = in_segments(long_chain, before, options=QUICK, constraints=kept)
    assert found.require_schedule().recomputations
    assert found.require_schedule().steps.tolist().count(3) == 1


def test_what_recomputes_nothing_or_has_no_schedule_stays(long_chain: Graph) -> None:
    plain = general(long_chain, 10_000)
    assert in_segments(long_chain, plain, options=QUICK) is plain
    none = solve(long_chain, 1, options=QUICK)
    assert none.status is SolveStatus.INFEASIBLE and in_segments(long_chain, none, options=QUICK) is none


def test_whole_segments_are_recomputed_at_once_within_the_budget(long_chain: Graph) -> None:
    budget = 200
    found = whole_segments(long_chain, budget)
    assert found
    costs = [each.cost or 0.0 for each in found]
    assert costs == sorted(costs) and all(cost > long_chain.base_cost for cost in costs)
    for each in found:
        assert check(long_chain, each.require_schedule().steps.tolist()).peak_bytes <= budget
    assert whole_segments(long_chain, 1) == []


@pytest.mark.parametrize("seed", range(60))
def test_any_graph_is_left_valid(seed: int) -> None:
    graph = random_graph(Random(seed), most_ops=12)
    most = keep_everything_peak(graph)
    for budget in (most, (most + known_minimum(graph).bytes) // 2):
        for each in whole_segments(graph, budget):
            report = check(graph, each.require_schedule().steps.tolist(), budget_bytes=budget)
            assert report.ok and report.cost == pytest.approx(each.cost)
