"""Every solver on standard problems: results hold, fit and are never too good."""

from __future__ import annotations

import pytest

from checkmate import planning
from checkmate.ir import Graph, Phase, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.problem import Listener, SolveOptions, SolverFeature
from checkmate.solvers.registry import BASELINES, SOLVERS, find_solver
from tests.generated_graphs import random_dag, random_layered, training_chain, training_dag
from tests.oracles import Order, optimum

NAMES = [entry.name for entry in SOLVERS if not entry.missing]
# Those that end by themselves in milliseconds; the others use the time that they are given.
FAST = [*BASELINES, "greedy"]
SLOW = [name for name in NAMES if name not in FAST]

STANDARD = {
    "chain": training_chain(6),
    "uneven chain": training_chain(6, seed=3),
    "network": training_dag(1, 5),
    "plain dag": random_dag(4, 8),
    "everything": random_dag(8, 8, extras=True),
    "layers": random_layered(0, 12, edges_per_op=2),
}


def some_graph(seed: int) -> Graph:
    if seed % 4:
        return random_dag(seed, 4 + seed % 9, extras=seed % 2 == 0)
    return training_dag(seed, 3 + seed % 7)


def budgets(graph: Graph) -> list[int]:
    low, high = working_set_bound(graph).bytes, planning.keep_everything_peak(graph)
    return sorted({low, (low + high) // 2, max(low, high - 1), high})


def solve(name: str, graph: Graph, budget: int, *, seconds: float = 2.0) -> SolveResult:
    result = planning.solve(graph, budget, solver=name, options=SolveOptions(time_limit_s=seconds))
    assert result.solver == name and result.budget_bytes == budget
    if result.schedule is None:
        assert result.status in (SolveStatus.LIMIT, SolveStatus.INFEASIBLE), result
        assert result.message
        return result
    found = check(graph, result.schedule.steps.tolist(), budget_bytes=budget)
    assert found.ok and found.peak_bytes == result.peak_bytes and found.cost == pytest.approx(result.cost)
    if result.lower_bound is not None:
        assert result.lower_bound <= found.cost
    if result.status is SolveStatus.OPTIMAL:
        assert result.gap == pytest.approx(0, abs=1e-6)
    return result


def test_the_lists_above_name_all_solvers() -> None:
    assert set(FAST) <= set(NAMES)
    assert {entry.name for entry in SOLVERS} == set(NAMES), (
        "every solver's library is installed with the project"
    )


@pytest.mark.parametrize("case", STANDARD)
@pytest.mark.parametrize("name", NAMES)
def test_standard_problems(name: str, case: str) -> None:
    graph = STANDARD[case]
    for budget in budgets(graph)[1:] if name in FAST else budgets(graph)[1:2]:
        result = solve(name, graph, budget, seconds=0.5)
        if SolverFeature.CHAIN_ONLY in find_solver(name).features and "chain" not in case:
            assert result.status is SolveStatus.LIMIT and "branches" in result.message


@pytest.mark.parametrize("seeds", [range(50), range(50, 200)], ids=["50", "150"])
@pytest.mark.parametrize("name", FAST)
def test_schedules_hold_on_random_graphs(name: str, seeds: range) -> None:
    found = 0
    for seed in seeds:
        graph = some_graph(seed)
        for budget in budgets(graph)[1:]:
            found += solve(name, graph, budget).schedule is not None
    assert found >= len(seeds) * (0.1 if SolverFeature.CHAIN_ONLY in find_solver(name).features else 0.75)


@pytest.mark.no_cover  # its lines are those of the standard problems
@pytest.mark.parametrize(
    "graphs",
    [pytest.param(40, marks=pytest.mark.heavy), pytest.param(200, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("name", SLOW)
def test_schedules_hold_on_random_graphs_in_a_tenth_of_a_second(name: str, graphs: int) -> None:
    if name == "intervals" and graphs < 200:
        graphs = 10  # each starts a process; test_cpsat compares more of them with exact search
    found = 0
    for seed in range(0, 200, 200 // graphs):
        graph = some_graph(seed)
        budget = budgets(graph)[len(budgets(graph)) // 2]
        found += solve(name, graph, budget, seconds=0.1).schedule is not None
    # How many can be checked in a tenth of a second depends on the machine; some must be.
    assert found >= graphs // 10


def _small_graphs(seeds: range) -> list[Graph]:
    return [random_dag(seed, 4 + seed % 2, extras=seed % 2 == 0) for seed in seeds]


@pytest.mark.parametrize("name", FAST)
def test_no_solver_beats_the_optimum(name: str) -> None:
    for graph in _small_graphs(range(16)):
        for budget in budgets(graph):
            result = solve(name, graph, budget)
            if result.schedule is not None:
                best = optimum(graph, budget)
                assert best is not None
                assert result.cost is not None and result.cost >= best.cost - 1e-9


@pytest.mark.parametrize("name", [n for n in SLOW if SolverFeature.LOWER_BOUND in find_solver(n).features])
def test_bounds_and_proofs_hold(name: str) -> None:
    proofs = 0
    for graph in _small_graphs(range(10)):
        for budget in budgets(graph)[:2]:
            result = solve(name, graph, budget, seconds=0.5)
            # Claims under assumptions are compared with the best schedule that keeps them.
            order = Order.STAGES if result.assumptions else Order.ANY
            best = optimum(graph, budget, order)
            if result.status is SolveStatus.INFEASIBLE:
                assert best is None
            if best is not None and result.lower_bound is not None:
                assert result.lower_bound <= best.cost + 1e-6
            if result.status is SolveStatus.OPTIMAL:
                assert best is not None
                assert result.cost == pytest.approx(best.cost)
                proofs += 1
    assert proofs >= (5 if SolverFeature.PROVES_OPTIMALITY in find_solver(name).features else 0)


@pytest.mark.parametrize("name", [*FAST, "auto", "chain", "local-search", "lp-rounding"])
def test_chain_of_24_layers(name: str) -> None:
    graph = training_chain(24)
    budget = int(planning.keep_everything_peak(graph) * 0.6)
    # The rounding ends by itself; its relaxation takes seconds, more on a busy machine.
    result = solve(name, graph, budget, seconds=60.0 if name == "lp-rounding" else 3.0)
    assert (result.schedule is None) == (name == "keep-all")


@pytest.mark.heavy
def test_chain_of_16_layers_is_solved_to_the_optimum() -> None:
    graph = training_chain(16)
    budget = int(planning.keep_everything_peak(graph) * 0.6)
    best = solve("milp", graph, budget, seconds=300)
    assert best.status is SolveStatus.OPTIMAL and best.cost is not None
    for name in [*FAST, "lp-rounding"]:
        result = solve(name, graph, budget, seconds=10)
        assert result.cost is None or result.cost >= best.cost * (1 - 1e-6)
    assert solve("auto", graph, budget, seconds=10).cost == pytest.approx(best.cost)


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_below_one_ops_need_is_infeasible_and_names_it(name: str) -> None:
    graph = training_chain(6)
    need = working_set_bound(graph)
    result = planning.solve(graph, need.bytes - 1, solver=name)
    assert result.status is SolveStatus.INFEASIBLE
    assert graph.ops[need.op].name in result.message and "needs by itself" in result.message
    assert graph.values[need.values[0]].name in result.message


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("keep-all", "greedy", "path-cut")])
def test_a_cancelled_solve_ends_at_once(name: str) -> None:
    graph = training_dag(5, 40)
    budget = int(planning.keep_everything_peak(graph) * 0.7)
    listener = CancelAfterQuestions(asks=3)
    result = planning.solve(
        graph, budget, solver=name, options=SolveOptions(time_limit_s=60), listener=listener
    )
    assert result.solve_seconds < 20
    assert result.status in (SolveStatus.CANCELLED, SolveStatus.FEASIBLE, SolveStatus.LIMIT)


class CancelAfterQuestions(Listener):
    def __init__(self, asks: int) -> None:
        self._asks = iter(range(asks))

    def cancelled(self) -> bool:
        return next(self._asks, None) is None


@pytest.mark.parametrize("name", ["milp", "tight-milp", "lp-rounding"])
def test_gradients_are_not_recomputed_where_that_is_forbidden(name: str) -> None:
    options = SolveOptions(time_limit_s=5, recompute_gradients=False)
    for seed in range(4):
        graph = training_dag(seed, 4)
        low, high = working_set_bound(graph).bytes, planning.keep_everything_peak(graph)
        result = planning.solve(graph, (low + 2 * high) // 3, solver=name, options=options)
        if result.schedule is None:
            continue
        assert "no gradient recompute" in result.assumptions
        steps = result.schedule.steps.tolist()
        assert all(steps.count(i) == 1 for i, op in enumerate(graph.ops) if op.phase is Phase.BACKWARD)
