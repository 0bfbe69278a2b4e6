"""The chain program against exact search on tiny chains, and against revolve on uniform ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkmate import planning
from checkmate.formats import read_any_graph
from checkmate.ir import Graph, GraphBuilder, Phase, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.progress import never
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.chain.chain_solver import actions, price_lists, steps_of
from checkmate.solvers.chain.cost_table import CostTable, standing
from checkmate.solvers.chain.forward_segments import find_chain
from checkmate.solvers.problem import SolveOptions
from tests.generated_graphs import random_dag, random_layered, training_chain, training_dag
from tests.graphs_strategies import SHARED, random_graph
from tests.oracles import optimum


def uneven_chain(seed: int, layers: int, *, sizes: int = 6, scale: int = 1) -> Graph:
    """Gradients have their activation's size; some backward ops read a layer's output, some do not."""
    random = Random(seed)
    builder = GraphBuilder(f"uneven{seed}")
    activations, costs = [], []
    for i in range(layers):
        activations.append(builder.value(f"a{i}", scale * random.randint(1, sizes)))
        costs.append(float(random.randint(0, 5)))
        workspace = scale * random.choice((0, 0, 1))
        builder.op(f"f{i}", activations[-2:-1], activations[-1:], cost=costs[i], workspace_bytes=workspace)
    loss = builder.value("loss", scale, keep=True)
    builder.op("loss", activations[-1:], [loss], phase=Phase.LOSS, cost=1.0)
    gradient = [loss]
    for i in reversed(range(layers)):
        reads = [
            *activations[max(0, i - 1) : i],
            *(activations[i : i + 1] if random.random() < 0.7 else []),
            *gradient,
        ]
        gradient = [builder.value(f"g{i}", builder.values[activations[max(0, i - 1)]].bytes, keep=i == 0)]
        builder.op(f"b{i}", reads, gradient, cost=2 * costs[i], phase=Phase.BACKWARD)
    return builder.build()


def solve(graph: Graph, budget: int, solver: str = "chain") -> SolveResult:
    result = planning.solve(graph, budget, solver=solver, options=SolveOptions(time_limit_s=20))
    if result.schedule is not None:
        found = check(graph, result.schedule.steps.tolist(), budget_bytes=budget)
        assert found.ok and found.cost == pytest.approx(result.cost)
    return result


def budgets(graph: Graph, count: int) -> list[int]:
    low, high = working_set_bound(graph).bytes, planning.keep_everything_peak(graph) - 1
    return sorted({int(b) for b in np.linspace(low, max(low, high), count)})


def test_tiny_uneven_chains_are_solved_nearly_always_to_the_optimum() -> None:
    reached = possible = 0
    for seed in range(12):
        graph = uneven_chain(seed, 3)
        for budget in budgets(graph, 3):
            best, result = optimum(graph, budget), solve(graph, budget)
            if best is None:
                assert result.schedule is None
                continue
            possible += 1
            if result.cost is not None:
                assert result.cost >= best.cost - 1e-9
                reached += result.cost <= best.cost + 1e-9
    assert possible >= 20
    assert reached >= 0.9 * possible


@pytest.mark.parametrize("layers", [5, 9, 16, 33])
def test_never_dearer_than_revolve_on_uniform_chains(layers: int) -> None:
    graph = training_chain(layers)
    compared = 0
    for budget in budgets(graph, 6):
        revolve, ours = solve(graph, budget, "griewank"), solve(graph, budget)
        if revolve.cost is not None:
            compared += 1
            assert ours.cost is not None and ours.cost <= revolve.cost + 1e-9
    assert compared >= 4


def test_never_dearer_than_checkpointing_at_even_distances_on_uneven_chains() -> None:
    for seed in range(6):
        graph = uneven_chain(seed, 20)
        for budget in budgets(graph, 4):
            theirs = [solve(graph, budget, name).cost for name in ("chen-greedy", "griewank")]
            ours = solve(graph, budget).cost
            assert all(cost is None or (ours is not None and ours <= cost + 1e-9) for cost in theirs)


def test_a_plan_of_the_table_costs_and_needs_no_more_than_the_table_says() -> None:
    """Test chains whose sizes the table counts exactly. One slot is one byte."""
    for seed in range(8):
        graph = uneven_chain(seed, 7)
        chain = find_chain(graph)
        assert chain is not None
        prices = price_lists(graph, chain, several_until=0.0, over=never)
        peak = planning.keep_everything_peak(graph)
        table = CostTable(graph, prices, standing(graph, chain), unit=1, slots=peak + 1)
        assert table.fill(never)
        backward = sum(graph.ops[op].cost for segment in chain.segments for op in segment.backward)
        forward = graph.base_cost - backward
        seen = 0
        for slots in range(peak + 1):
            if not np.isfinite(table.least[slots]):
                continue
            seen += 1
            timeline = simulate(graph, Schedule.of(graph, steps_of(graph, prices, actions(table, slots))))
            assert timeline.peak_bytes <= slots + graph.fixed_bytes
            assert timeline.cost <= float(table.least[slots]) * forward + backward + 1e-4
        assert seen > 3


def test_sizes_of_a_quadrillion_bytes() -> None:
    small, large = uneven_chain(3, 8), uneven_chain(3, 8, scale=10**15)
    for budget in budgets(small, 3):
        ours, theirs = solve(small, budget).cost, solve(large, budget * 10**15).cost
        assert ours == pytest.approx(theirs)


def test_costs_of_zero() -> None:
    graph = uneven_chain(1, 8)
    free = replace(graph, ops=tuple(replace(op, cost=0.0) for op in graph.ops))
    for budget in budgets(free, 3)[1:]:
        assert solve(free, budget).cost == 0.0


def test_graphs_that_are_no_chains_are_refused_in_a_sentence() -> None:
    builder = GraphBuilder("alone")
    builder.op("only", (), [builder.value("v", 3, keep=True)], cost=1.0)
    for graph in (builder.build(), random_layered(0, 40)):
        result = planning.solve(graph, planning.keep_everything_peak(graph), solver="chain")
        assert result.status is SolveStatus.LIMIT
        assert repr(graph.name) in result.message and "backward pass" in result.message


def test_a_budget_that_no_plan_fits_is_a_limit_not_a_proof() -> None:
    graph = training_chain(12)
    result = planning.solve(graph, working_set_bound(graph).bytes, solver="chain")
    assert result.schedule is not None or result.status is SolveStatus.LIMIT


def test_everything_that_memory_depends_on() -> None:
    found = 0
    for seed in range(40):
        graph = [random_dag(seed, 6, extras=True), training_dag(seed, 6), random_graph(Random(seed))][
            seed % 3
        ]
        for budget in budgets(graph, 3):
            result = solve(graph, budget)
            found += result.schedule is not None
            if result.cost is not None and graph.n <= 6:
                best = optimum(graph, budget)
                assert best is not None and result.cost >= best.cost - 1e-9
    assert found >= 30


def test_ops_that_run_once_run_once() -> None:
    graph = uneven_chain(2, 12)
    once = {2, 5, 9}
    fixed = replace(
        graph, ops=tuple(replace(op, recomputable=i not in once) for i, op in enumerate(graph.ops))
    )
    recomputed = 0
    for budget in budgets(fixed, 5):
        result = solve(fixed, budget)
        if result.schedule is not None:
            steps = result.schedule.steps.tolist()
            recomputed += len(steps) - fixed.n
            assert all(steps.count(op) == 1 for op in once)
    assert recomputed > 0


def test_cancelling_ends_it_between_two_columns_of_the_table() -> None:
    graph = training_chain(60, seed=1)
    chain = find_chain(graph)
    assert chain is not None
    prices = price_lists(graph, chain, several_until=0.0, over=never)
    asked = iter([False] * 10)
    table = CostTable(graph, prices, standing(graph, chain), unit=4, slots=50)
    assert not table.fill(lambda: next(asked, True))


@pytest.mark.parametrize(
    ("share", "best"), [(0.25, 0.01092), (0.1, 0.01957), (0.05, 0.05837), (0.0, 0.09636)]
)
def test_mobilenet_is_as_good_as_the_best_known(share: float, best: float) -> None:
    path = SHARED / "graphs" / "paper" / "mobilenet.graph.json"
    if not path.is_file():
        pytest.skip("the public graphs are not here")
    graph = read_any_graph(path)
    low, high = working_set_bound(graph).bytes, planning.keep_everything_peak(graph)
    result = solve(graph, low + int(share * (high - low)))
    assert result.overhead is not None and result.overhead <= best


@pytest.mark.parametrize("workers", [1, 2])
def test_auto_is_never_dearer_than_the_chain_program(workers: int) -> None:
    """Test that ``auto`` tries it when its own search finds nothing more."""
    graph = uneven_chain(0, 40, sizes=50)
    budget = budgets(graph, 12)[1]
    ours = solve(graph, budget)
    options = SolveOptions(time_limit_s=6, workers=workers)
    result = planning.solve(graph, budget, solver="auto", options=options)
    assert ours.cost is not None and result.cost is not None
    assert result.cost <= ours.cost + 1e-9
