"""Every solver on standard problems: what it returns holds, fits, and is no better than the best there is."""

from __future__ import annotations

import random

import pytest

from checkmate import pipeline
from checkmate.check import check
from checkmate.ir.graph import Graph, GraphBuilder, Phase
from checkmate.ir.result import SolveStatus
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.griewank import beta, held_snapshots
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.registry import SOLVERS
from tests.oracles import optimum

NAMES = [entry.name for entry in SOLVERS if not entry.missing]
BASELINES = [name for name in NAMES if name not in ("auto", "local-search", "path-cut", "milp", "lp-rounding")]


def random_dag(seed: int, ops: int = 6) -> Graph:
    """A random graph of one-output ops, the later half backward."""
    pick = random.Random(seed)
    builder = GraphBuilder(f"dag{seed}")
    values: list[int] = []
    for i in range(ops):
        inputs = pick.sample(values, min(len(values), pick.choice([1, 1, 2, 2, 3])))
        value = builder.value(f"v{i}", pick.choice([1, 2, 3, 4]), keep=i == ops - 1 or pick.random() < 0.1)
        phase = Phase.FORWARD if i < ops // 2 else Phase.BACKWARD
        recomputable = pick.random() < 0.9
        builder.op(f"o{i}", inputs, [value], cost=float(pick.randint(0, 4)), phase=phase, recomputable=recomputable)
        values.append(value)
    return builder.build(fixed_bytes=pick.choice([0, 2]))


def budgets(graph: Graph) -> list[int]:
    """From what some op needs by itself to what keeping everything needs."""
    low, high = working_set_bound(graph).bytes, pipeline.keep_everything_peak(graph)
    return sorted({low, (low + high) // 2, max(low, high - 1), high})


def chain(layers: int) -> Graph:
    """A training chain of equal layers: ``layers`` forward ops, as many backward."""
    builder = GraphBuilder("chain")
    forward = []
    for i in range(layers):
        forward.append(builder.value(f"a{i}", 4))
        builder.op(f"f{i}", forward[-2:-1] if i else [], [forward[-1]], cost=1.0, group=f"l{i}")
    gradient = None
    for i in reversed(range(layers)):
        new = builder.value(f"g{i}", 4, keep=i == 0)
        inputs = [forward[i]] + ([gradient] if gradient is not None else [])
        builder.op(f"b{i}", inputs, [new], cost=2.0, phase=Phase.BACKWARD, group=f"l{i}")
        gradient = new
    return builder.build()


def assert_holds(graph: Graph, budget: int, name: str, seconds: float = 2.0) -> float | None:
    """Solve, and hold the result against check; the cost, or None."""
    result = pipeline.solve(graph, budget, solver=name, options=SolveOptions(time_limit_s=seconds))
    if result.schedule is None:
        assert result.status in (SolveStatus.LIMIT, SolveStatus.INFEASIBLE), result
        assert result.message
        return None
    found = check(graph, result.schedule.steps.tolist(), budget_bytes=budget)
    assert found.ok and found.peak_bytes == result.peak_bytes and found.cost == pytest.approx(result.cost)
    if result.lower_bound is not None:
        assert result.lower_bound <= result.cost * (1 + 1e-9)
    return result.cost


@pytest.mark.parametrize("name", BASELINES)
def test_schedules_hold_on_200_random_graphs(name: str) -> None:
    found = 0
    for seed in range(200):
        graph = random_dag(seed, ops=4 + seed % 9)
        for budget in budgets(graph)[1:]:
            found += assert_holds(graph, budget, name) is not None
    assert found >= 100


@pytest.mark.parametrize("name", BASELINES)
def test_no_solver_beats_the_optimum(name: str) -> None:
    for seed in range(25):
        graph = random_dag(seed, ops=5)
        for budget in budgets(graph):
            best = optimum(graph, budget)
            cost = assert_holds(graph, budget, name)
            if cost is not None:
                assert best is not None and cost >= best - 1e-9


def test_paper_model_is_the_brute_force_optimum_of_the_given_order() -> None:
    compared = 0
    for seed in range(14):
        graph = random_dag(seed, ops=5)
        for budget in budgets(graph)[:3]:
            best = optimum(graph, budget, given_order=True)
            result = pipeline.solve(graph, budget, solver="milp", options=SolveOptions(time_limit_s=20))
            if best is None:
                assert result.schedule is None
                continue
            assert result.status is SolveStatus.OPTIMAL, (seed, budget, result)
            assert result.cost == pytest.approx(best), (seed, budget)
            assert "given order" in result.assumptions
            compared += 1
    assert compared > 15


@pytest.mark.parametrize("name", ["auto", "path-cut"])
def test_bounds_and_proofs_hold_for_any_order(name: str) -> None:
    for seed in range(6):
        graph = random_dag(seed, ops=6)
        for budget in budgets(graph)[:2]:
            best = optimum(graph, budget)
            result = pipeline.solve(graph, budget, solver=name, options=SolveOptions(time_limit_s=1.0))
            if result.status is SolveStatus.INFEASIBLE:
                assert best is None
            if best is not None and result.lower_bound is not None and not result.assumptions:
                assert result.lower_bound <= best + 1e-6
            if result.status is SolveStatus.OPTIMAL:
                assert result.cost == pytest.approx(best)


def test_working_set_bound_is_below_every_feasible_budget() -> None:
    for seed in range(60):
        graph = random_dag(seed, ops=5)
        assert optimum(graph, working_set_bound(graph).bytes - 1) is None


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("milp", "lp-rounding", "keep-all", "path-cut")])
def test_chain_of_24_layers_at_half_its_peak(name: str) -> None:
    graph = chain(24)
    budget = int(pipeline.keep_everything_peak(graph) * 0.6)
    assert_holds(graph, budget, name, seconds=3.0)


@pytest.mark.heavy
def test_paper_model_on_the_chain_is_no_worse_than_any_heuristic() -> None:
    graph = chain(12)
    budget = int(pipeline.keep_everything_peak(graph) * 0.6)
    best = pipeline.solve(graph, budget, solver="milp", options=SolveOptions(time_limit_s=240))
    assert best.status is SolveStatus.OPTIMAL
    for name in BASELINES:
        cost = assert_holds(graph, budget, name)
        assert cost is None or cost >= best.cost - 1e-9
    assert assert_holds(graph, budget, "auto", seconds=5.0) == pytest.approx(best.cost)


def test_rounding_ends_within_the_budget_or_says_so() -> None:
    found = 0
    for seed in range(12):
        graph = random_dag(seed, ops=8)
        found += assert_holds(graph, budgets(graph)[len(budgets(graph)) // 2], "lp-rounding", seconds=10.0) is not None
    assert found >= 6


def test_budget_below_one_op_is_infeasible_and_names_it() -> None:
    graph = chain(6)
    result = pipeline.solve(graph, 3)
    assert result.status is SolveStatus.INFEASIBLE
    assert "needs by itself" in result.message


def test_binomial_snapshots_reverse_a_chain_with_the_fewest_repeats() -> None:
    for length in (1, 2, 5, 10, 23):
        for snapshots in (1, 2, 3, 5):
            held = held_snapshots(length, snapshots)
            assert len(held) == length
            assert all(len(kept) <= snapshots for kept in held)
    assert beta(3, 2) == 10
