"""Path cuts never exceed the optimum over all orders, and often equal it."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from checkmate.ir import Graph, Schedule, SolveStatus
from checkmate.memory.simulate import simulate
from checkmate.solvers.pathcut.cuts import Reach, heaviest_path
from checkmate.solvers.pathcut.prover import PathCutSolver, ProofListener, Prover
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import SequenceSearch
from tests.generated_graphs import random_layered
from tests.graphs_strategies import random_graph, training_chain
from tests.oracles import optimum
from tests.unit.solvers.test_local_search import peak_of, plain_graph, random_budget, two_that_meet

SEEDS = range(15)


def bound_of(graph: Graph, budget: int, rounds: int) -> float:
    prover = Prover(graph, budget)
    prover.run(ProofListener(), until=time.perf_counter() + 20, rounds=rounds)
    return prover.bound


@pytest.mark.parametrize("seed", SEEDS)
def test_never_above_the_exact_optimum(seed: int) -> None:
    random = Random(seed)
    for i in range(8):
        graph = plain_graph(random) if i % 2 else random_graph(random, most_ops=5)
        budget = random_budget(random, graph, below=1)
        exact = optimum(graph, budget)
        best = None if exact is None else exact.cost
        for rounds in (1, 6):
            bound = bound_of(graph, budget, rounds)
            assert bound <= (math.inf if best is None else best * (1 + 1e-9))


@pytest.mark.parametrize("seed", SEEDS)
def test_never_above_a_schedule_of_a_graph_with_everything(seed: int) -> None:
    random = Random(100 + seed)
    for _ in range(8):
        graph = random_graph(random, most_ops=10)
        budget = random_budget(random, graph)
        found = SequenceSearch(graph, build_model(graph), budget, np.arange(graph.n, dtype=np.int32))
        found.run(Listener(), until=math.inf, moves=3000)
        assert bound_of(graph, budget, 5) <= found.cost * (1 + 1e-9)


def test_proves_a_chain_and_returns_its_schedule() -> None:
    graph = training_chain(12)
    budget = peak_of(graph) - 30
    result = PathCutSolver().solve(Problem(graph, budget), SolveOptions(time_limit_s=20), Listener())
    assert result.lower_bound > graph.base_cost
    assert result.status is SolveStatus.OPTIMAL
    assert simulate(graph, result.schedule).peak_bytes <= budget


def test_a_start_that_meets_the_bound_is_optimal() -> None:
    graph = training_chain(5)
    start = Schedule.plain(graph)
    result = PathCutSolver().solve(Problem(graph, peak_of(graph)), SolveOptions(start=start), Listener())
    assert result.status is SolveStatus.OPTIMAL


def test_infeasible_is_proved_where_two_values_must_meet() -> None:
    result = PathCutSolver().solve(Problem(two_that_meet(), 12), SolveOptions(), Listener())
    assert result.status is SolveStatus.INFEASIBLE


def test_another_single_cut_is_found_where_the_first_shows_nothing() -> None:
    graph = random_layered(1, 250)
    budget = int(0.7 * peak_of(graph))
    assert bound_of(graph, budget, 1) == graph.base_cost
    assert bound_of(graph, budget, 2) > 1.005 * graph.base_cost


def test_the_path_leads_through_the_op_that_is_given() -> None:
    graph = random_layered(2, 60)
    reach = Reach.of(graph)
    for op in range(graph.n):
        path = heaviest_path(graph, reach, through=op)
        assert op in path
        assert all(reach.ancestors[after] >> before & 1 for before, after in pairwise(path))


def test_one_cut_is_quick() -> None:
    graph = training_chain(300)
    bound_of(training_chain(3), 30, 1)
    started = time.perf_counter()
    assert bound_of(graph, peak_of(graph) // 4, 1) > graph.base_cost
    assert time.perf_counter() - started < 3.0


def test_turns_that_end_too_soon_lose_nothing_that_can_be_proved() -> None:
    graph = training_chain(8)
    prover, seconds = Prover(graph, 54, with_sat=False), 0.004
    best = optimum(graph, 54)
    assert best is not None
    while not prover.finished and seconds < 60.0:
        prover.run(ProofListener(), until=time.perf_counter() + seconds)
        seconds *= 1.5
    assert prover.bound == best.cost
