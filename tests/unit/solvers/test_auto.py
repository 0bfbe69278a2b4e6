"""Test ``auto``: it settles easy cases at once, and its claims hold."""

from __future__ import annotations

import threading
import time
from random import Random

import pytest

from checkmate import planning
from checkmate.ir import GraphBuilder, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.pathcut.in_thread import background_prover
from checkmate.solvers.portfolio.auto import AutoSolver, solve_with
from checkmate.solvers.portfolio.turns import SecondCore
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, training_chain
from tests.oracles import optimum
from tests.recorder import Recorder
from tests.unit.solvers.test_local_search import peak_of, plain_graph, random_budget


def test_a_budget_below_one_ops_need_is_infeasible_at_once() -> None:
    graph = training_chain(50)
    started = time.perf_counter()
    result = AutoSolver().solve(
        Problem(graph, working_set_bound(graph).bytes - 1), SolveOptions(), Listener()
    )
    assert result.status is SolveStatus.INFEASIBLE
    assert "needs by itself" in result.message
    assert time.perf_counter() - started < 0.5


def test_keeping_everything_is_optimal_if_it_fits() -> None:
    graph = training_chain(50)
    recorder = Recorder(graph, peak_of(graph))
    result = AutoSolver().solve(Problem(graph, recorder.budget), SolveOptions(), recorder)
    assert result.status is SolveStatus.OPTIMAL
    assert result.cost == recorder.costs[-1] == graph.base_cost


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_claims_hold_against_exact_search(seed: int, workers: int) -> None:
    random = Random(900 + seed)
    for _ in range(3):
        graph = plain_graph(random)
        budget = random_budget(random, graph)
        exact = optimum(graph, budget)
        best = None if exact is None else exact.cost
        options = SolveOptions(time_limit_s=0.6, workers=workers)
        result = AutoSolver().solve(Problem(graph, budget), options, Listener())
        if best is None:
            assert result.status in (SolveStatus.INFEASIBLE, SolveStatus.LIMIT)
            continue
        assert result.status in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE)
        assert result.cost == pytest.approx(best)
        assert result.lower_bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_graphs_with_everything(seed: int) -> None:
    random = Random(seed)
    for _ in range(3):
        graph = random_graph(random, most_ops=12)
        budget = random_budget(random, graph)
        recorder = Recorder(graph, budget)
        result = AutoSolver().solve(Problem(graph, budget), SolveOptions(time_limit_s=0.5), recorder)
        if result.schedule is not None:
            assert check(graph, result.schedule.steps.tolist(), budget_bytes=budget).ok
            assert result.lower_bound <= result.cost
            assert result.cost == pytest.approx(min(recorder.costs))
        else:
            assert result.status in (SolveStatus.LIMIT, SolveStatus.INFEASIBLE)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(3))
def test_a_warm_prover_brings_no_bound_of_the_budget_before(seed: int) -> None:
    graph = training_dag(seed, 70)
    plain = planning.keep_everything_peak(graph)
    with background_prover(graph) as prover:
        for share in (0.5, 0.8, 0.6, 0.9):
            problem = Problem(graph, int(share * plain))
            options = SolveOptions(time_limit_s=1.5)
            warm = solve_with(problem, options, Listener(), prover)
            alone = planning.solve(graph, problem.budget_bytes, options=options)
            assert warm.cost is not None and warm.lower_bound is not None and alone.cost is not None
            assert warm.lower_bound <= min(warm.cost, alone.cost) * (1 + 1e-6)


def test_cancelled_with_a_schedule_keeps_it_and_is_quick() -> None:
    graph = training_chain(200)
    recorder = Recorder(graph, peak_of(graph) // 4)
    recorder_cancel = recorder.cancelled
    seen: list[float] = []

    def cancelled() -> bool:
        if recorder.costs and not seen:
            seen.append(time.perf_counter())
            recorder.stop.set()
        return recorder_cancel()

    recorder.cancelled = cancelled  # type: ignore[method-assign]
    result = AutoSolver().solve(
        Problem(graph, recorder.budget), SolveOptions(time_limit_s=60, workers=2), recorder
    )
    assert result.status is SolveStatus.FEASIBLE
    assert time.perf_counter() - seen[0] < 2.0


def test_two_workers_share_the_second_core_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = training_dag(3, 70)  # takes far more than seconds to prove at this budget
    turns: list[str] = []

    def quick(core: SecondCore, bound: float | None, cost: float, *, now: float) -> bool:
        if now - core.begun < 0.2:
            return False
        core.begun, core.searches = now, not core.searches
        turns.append("search" if core.searches else "prover")
        if len(turns) == 6:
            recorder.stop.set()
        return True

    monkeypatch.setattr(SecondCore, "changes", quick)
    recorder = Recorder(graph, int(0.35 * peak_of(graph)))
    result = AutoSolver().solve(
        Problem(graph, recorder.budget), SolveOptions(time_limit_s=60, workers=2), recorder
    )
    assert turns[:6] == ["search", "prover"] * 3
    assert result.status is SolveStatus.FEASIBLE and result.schedule is not None
    assert check(graph, result.schedule.steps.tolist(), budget_bytes=recorder.budget).ok
    assert recorder.costs == sorted(recorder.costs, reverse=True) and recorder.costs[-1] == result.cost
    assert not [thread for thread in threading.enumerate() if thread.name == "second search"]


def test_zero_costs_and_a_single_op() -> None:
    builder = GraphBuilder()
    builder.op("only", [], [builder.value("v", 3, keep=True)])
    result = AutoSolver().solve(Problem(builder.build(), 3), SolveOptions(), Listener())
    assert result.status is SolveStatus.OPTIMAL
    free = training_chain(8, cost=0.0)
    result = AutoSolver().solve(Problem(free, peak_of(free) // 2), SolveOptions(time_limit_s=5), Listener())
    assert result.status is SolveStatus.OPTIMAL


def test_petabyte_values() -> None:
    graph = training_chain(10, bytes_=10**15 + 7)
    budget = peak_of(graph) * 2 // 3
    result = AutoSolver().solve(Problem(graph, budget), SolveOptions(time_limit_s=1), Listener())
    assert result.schedule is not None and result.peak_bytes <= budget
