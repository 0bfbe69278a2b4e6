"""The tight program against exhaustive search, its limits and its news."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from checkmate import planning
from checkmate.errors import SolveFailedError
from checkmate.ir import Graph, GraphBuilder, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.progress import never
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.highs import silent_highs
from checkmate.solvers.milp.paper_model import assumptions_of
from checkmate.solvers.milp.pulp_engine import _highs_outcome
from checkmate.solvers.milp.tight_model import model_size, tight_model
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.retention import retained_into_stages, steps_from_stages, without_useless
from tests.generated_graphs import random_dag, training_chain, training_dag
from tests.graphs_strategies import random_graph, random_steps
from tests.oracles import Order, optimum
from tests.recorder import Recorder

PLAIN = ("given order", "the paper's stages")


def budgets(graph: Graph) -> list[int]:
    low, high = working_set_bound(graph).bytes, planning.keep_everything_peak(graph)
    return sorted({low, low + 1, (low + high) // 2, max(low, high - 1)})


def tiny_graphs(seeds: range) -> Iterator[Graph]:
    for seed in seeds:
        kinds = (
            lambda s: random_dag(s, 4 + s % 2, extras=True),
            lambda s: random_dag(s, 6),
            lambda s: training_dag(s, 2 + s % 8 // 4),
            lambda s: random_graph(Random(s), most_ops=5),
        )
        graph = kinds[seed % 4](seed)
        if graph.m <= 8 or seed % 4 in (1, 2):
            yield graph


def solve(graph: Graph, budget: int, **options: object) -> SolveResult:
    return planning.solve(
        graph, budget, solver="tight-milp", options=SolveOptions(**{"time_limit_s": 10.0, **options})
    )  # type: ignore[arg-type]


def hold_against_the_optimum(graph: Graph, budget: int) -> bool:
    """Compare with the optimum; return if there was something to prove."""
    result, best = solve(graph, budget), optimum(graph, budget, Order.STAGES)
    exact = assumptions_of(graph, recompute_gradients=True) == PLAIN
    if best is None:
        assert result.schedule is None and result.status in (SolveStatus.LIMIT, SolveStatus.INFEASIBLE)
        return False
    if exact:
        assert result.status is SolveStatus.OPTIMAL and result.cost == pytest.approx(best.cost), result
        assert result.assumptions in ((), PLAIN)
    elif result.cost is not None:
        assert result.cost >= best.cost - 1e-9
    return exact and best.cost > graph.base_cost


def test_the_optimum_of_tiny_graphs() -> None:
    graphs = list(tiny_graphs(range(60)))
    proved = sum(hold_against_the_optimum(graph, budget) for graph in graphs for budget in budgets(graph)[:2])
    assert proved >= 12


@pytest.mark.no_cover  # its lines are those of the test with few graphs
@pytest.mark.parametrize(
    "seeds",
    [pytest.param(120, marks=pytest.mark.heavy), pytest.param(500, marks=pytest.mark.long)],
)
def test_the_optimum_of_many_tiny_graphs(seeds: int) -> None:
    graphs = list(tiny_graphs(range(3000, 3000 + seeds)))
    proved = sum(hold_against_the_optimum(graph, budget) for graph in graphs for budget in budgets(graph))
    assert proved >= 0.3 * seeds


def test_the_paper_program_agrees_on_training_graphs() -> None:
    for seed in range(3):
        graph = training_dag(seed, 4)
        budget = budgets(graph)[2]
        for gradients in (True, False):
            options = SolveOptions(time_limit_s=20, recompute_gradients=gradients)
            paper = planning.solve(graph, budget, solver="milp", options=options)
            tight = solve(graph, budget, recompute_gradients=gradients)
            assert (paper.status, tight.status) == (SolveStatus.OPTIMAL, SolveStatus.OPTIMAL)
            assert tight.cost == pytest.approx(paper.cost)


def test_an_op_may_take_over_fewer_inputs_than_die() -> None:
    builder = GraphBuilder("add")
    a, b, c = builder.value("a", 4), builder.value("b", 4), builder.value("c", 4, keep=True)
    builder.op("make a", (), (a,), cost=1.0)
    builder.op("make b", (), (b,), cost=1.0)
    builder.op("add", (a, b), (c,), cost=1.0, takes_over=((c, a), (c, b)))
    graph = builder.build()
    assert solve(graph, 8).status is SolveStatus.OPTIMAL
    assert solve(graph, 7).status is SolveStatus.INFEASIBLE


def test_schedules_in_the_given_order_are_solutions() -> None:
    """R and S satisfy the rows without fractional columns, and give the same steps back."""
    random, seen = Random(7), 0
    for _ in range(250):
        graph = random_graph(random, most_ops=6)
        steps = random_steps(random, graph)
        if (
            not check(graph, steps, budget_bytes=10**9).ok
            or assumptions_of(graph, recompute_gradients=True) != PLAIN
        ):
            continue
        retained = retained_into_stages(graph, np.array(steps))
        assert retained is not None
        steps = without_useless(graph, steps_from_stages(graph, retained[: graph.n]))
        peak = check(graph, steps, budget_bytes=10**9).peak_bytes
        model = tight_model(graph, peak, recompute_gradients=True)
        again = retained_into_stages(graph, np.array(steps))
        assert model is not None and again is not None
        chosen = model.choices(Schedule.of(graph, steps).matrices(graph).R, again)
        assert chosen is not None
        found = np.append(chosen, np.zeros(model.columns - model.whole))
        rows = model.rows
        for i, (begin, end) in enumerate(itertools.pairwise(rows.starts)):
            columns = rows.columns[begin:end]
            if (columns < model.whole).all():
                assert rows.values[begin:end] @ found[columns] <= rows.high[i] + 1e-9
        held = model.retention(found)
        assert without_useless(graph, steps_from_stages(graph, held)) == steps
        seen += 1
    assert seen > 40


def test_a_start_is_taken_and_reported_first() -> None:
    graph = training_chain(12)
    budget = (working_set_bound(graph).bytes + planning.keep_everything_peak(graph)) // 2
    start = planning.solve(graph, budget, solver="chen-sqrt-ap").require_schedule()
    listener = Recorder()
    options = SolveOptions(time_limit_s=20, start=start)
    result = planning.solve(graph, budget, solver="tight-milp", options=options, listener=listener)
    assert result.status is SolveStatus.OPTIMAL and result.cost == listener.costs[-1]
    assert listener.costs == sorted(listener.costs, reverse=True)
    assert listener.costs[0] <= check(graph, start.steps.tolist(), budget_bytes=budget).cost
    assert listener.bounds == sorted(listener.bounds) and listener.bounds[-1] == result.lower_bound
    assert listener.assumptions == {PLAIN}


def test_a_gap_is_respected() -> None:
    graph = training_chain(12)
    budget = (working_set_bound(graph).bytes + planning.keep_everything_peak(graph)) // 2
    result = solve(graph, budget, gap=0.5)
    assert result.gap is not None and result.gap <= 0.5


def test_a_program_too_large_for_the_time_is_refused_in_a_sentence() -> None:
    result = solve(training_chain(150), 100, time_limit_s=0.5)
    assert result.status is SolveStatus.LIMIT
    assert "about" in result.message and "entries, too many" in result.message and "or more" in result.message


def test_the_size_is_estimated_from_above_but_closely() -> None:
    for graph in (training_chain(20), training_dag(3, 20), random_dag(5, 40, extras=True)):
        for gradients in (True, False):
            model = tight_model(graph, planning.keep_everything_peak(graph), recompute_gradients=gradients)
            assert model is not None
            entries = len(model.rows.values)
            assert entries <= 2 * model_size(graph, recompute_gradients=gradients) <= 10 * entries


def test_a_cancelled_solve_ends_long_before_its_time() -> None:
    graph = training_dag(5, 60)
    budget = int(planning.keep_everything_peak(graph) * 0.5)
    start = planning.solve(graph, budget, solver="greedy").schedule
    listener = Recorder(after_s=0.5)
    begun = time.perf_counter()
    options = SolveOptions(time_limit_s=300, start=start)
    planning.solve(graph, budget, solver="tight-milp", options=options, listener=listener)
    assert time.perf_counter() - begun < 30.0  # a generous stall, of 300 s


def test_a_new_highs_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    highs = silent_highs()
    highs.addVar(0.0, 1.0)
    highs.solve()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("solver", ["milp", "tight-milp", "path-cut"])
def test_a_solver_that_uses_it_prints_nothing(solver: str, capfd: pytest.CaptureFixture[str]) -> None:
    options = SolveOptions(time_limit_s=20.0)
    result = planning.solve(training_chain(8), 60, solver=solver, options=options)
    assert result.lower_bound is not None, result  # it ran
    assert capfd.readouterr() == ("", "")


def test_a_solve_that_did_not_run_is_no_limit() -> None:
    with pytest.raises(SolveFailedError, match="Not Set"):
        _highs_outcome(silent_highs(), relaxed=False, cancelled=never)


def test_each_solve_has_its_own_count_of_workers() -> None:
    for workers in (1, 2, 1):
        options = SolveOptions(time_limit_s=20.0, workers=workers)
        result = planning.solve(training_chain(8), 60, solver="milp", options=options)
        assert result.status is SolveStatus.OPTIMAL, result
