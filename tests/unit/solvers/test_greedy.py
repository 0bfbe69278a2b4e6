"""Test greedy: within the budget, no needless costs, no false claims."""

from __future__ import annotations

import time
from random import Random

import pytest

from checkmate.ir import Graph, Schedule, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import Listener, Problem, SolveOptions, Solver
from checkmate.solvers.sequence.greedy_solver import GreedySolver
from tests.graphs_strategies import random_graph, training_chain


def peak_of(graph: Graph) -> int:
    return simulate(graph, Schedule.plain(graph)).peak_bytes


def solve(solver: Solver, graph: Graph, budget: int, **options: object) -> object:
    return solver.solve(Problem(graph, budget), SolveOptions(**options), Listener())  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(25))
def test_every_answer_passes_the_independent_check(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        graph = random_graph(random, most_ops=14)
        low, high = working_set_bound(graph).bytes, peak_of(graph)
        budget = random.randint(low - 1, max(low, high))
        result = solve(GreedySolver(), graph, budget)
        if result.schedule is None:
            assert result.status is SolveStatus.LIMIT
            continue
        report = check(graph, result.schedule.steps.tolist(), budget_bytes=budget)
        assert report.ok
        assert (report.peak_bytes, report.cost) == (result.peak_bytes, pytest.approx(result.cost))
        assert (result.status is SolveStatus.OPTIMAL) == (result.cost == pytest.approx(graph.base_cost))


def test_the_plain_step_if_it_fits() -> None:
    graph = training_chain(6)
    result = solve(GreedySolver(), graph, peak_of(graph))
    assert result.status is SolveStatus.OPTIMAL
    assert result.schedule.recomputations == 0


@pytest.mark.parametrize("share", [0.8, 0.6, 0.5, 0.4])
def test_a_long_chain_fits_half_its_peak_at_little_cost_and_at_once(share: float) -> None:
    graph = training_chain(200)
    load_kernels()
    started = time.perf_counter()
    result = solve(GreedySolver(), graph, int(share * peak_of(graph)))
    assert result.status is SolveStatus.FEASIBLE
    assert result.overhead < 0.5
    assert time.perf_counter() - started < 2.0


def test_a_budget_below_the_fixed_bytes_is_a_limit_not_a_claim() -> None:
    graph = training_chain(3)
    assert solve(GreedySolver(), graph, 0).status is SolveStatus.LIMIT


def test_cancelled_before_it_starts() -> None:
    class Cancelled(Listener):
        def cancelled(self) -> bool:
            return True

    graph = training_chain(30)
    result = GreedySolver().solve(Problem(graph, peak_of(graph) // 2), SolveOptions(), Cancelled())
    assert result.status is SolveStatus.CANCELLED
