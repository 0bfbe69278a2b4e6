"""Local search: exact, repeatable, stoppable, good on tiny graphs."""

from __future__ import annotations

import math
import threading
import time
from random import Random

import numpy as np
import pytest

from checkmate.ir import Graph, GraphBuilder, Schedule, SolveStatus
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.solvers.bounds import working_set_bound
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.greedy_solver import GreedySolver
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import LocalSearchSolver, SequenceSearch
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, training_chain
from tests.oracles import optimum
from tests.recorder import Recorder, cancelled_recorder


def peak_of(graph: Graph) -> int:
    return simulate(graph, Schedule.plain(graph)).peak_bytes


def two_that_meet() -> Graph:
    """``a`` is made once and read last, so it is held while ``c`` runs, which itself needs little."""
    builder = GraphBuilder()
    first, second, third = (builder.value(name, 5) for name in ("first", "second", "third"))
    builder.op("a", [], [first], recomputable=False)
    builder.op("b", [first], [second])
    builder.op("c", [second], [third])
    builder.op("d", [first, third], [])
    return builder.build()


def random_budget(random: Random, graph: Graph, below: int = 0) -> int:
    """From ``below`` what some op needs to what keeping everything needs."""
    low, high = working_set_bound(graph).bytes, peak_of(graph)
    return random.randint(max(0, low - below), max(low, high))


def search(graph: Graph, budget: int, moves: int, seed: int = 0) -> SequenceSearch:
    plain = np.arange(graph.n, dtype=np.int32)
    found = SequenceSearch(graph, build_model(graph), budget, plain, seed=seed)
    found.run(Listener(), until=math.inf, goal=graph.base_cost, moves=moves)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_every_incumbent_passes_the_independent_check(seed: int) -> None:
    random = Random(seed)
    for _ in range(8):
        graph = random_graph(random, most_ops=14)
        budget = random_budget(random, graph)
        recorder = Recorder(graph, budget)
        found = SequenceSearch(
            graph, build_model(graph), budget, np.arange(graph.n, dtype=np.int32), seed=seed
        )
        found.run(recorder, until=math.inf, moves=3000)
        assert recorder.costs == sorted(recorder.costs, reverse=True)
        if found.best is not None:
            assert check(graph, found.best.tolist(), budget_bytes=budget).ok


def plain_graph(random: Random) -> Graph:
    builder = GraphBuilder("plain")
    made: list[int] = []
    for i in range(random.randint(3, 6)):
        inputs = random.sample(made, min(len(made), random.randint(0, 2)))
        made.append(builder.value(f"v{i}", random.randint(0, 4), keep=random.random() < 0.2))
        builder.op(
            f"op{i}", inputs, made[-1:], cost=float(random.randint(1, 4)), recomputable=random.random() < 0.9
        )
    return builder.build()


@pytest.mark.parametrize("seed", range(12))
def test_finds_the_optimum_of_tiny_graphs(seed: int) -> None:
    random = Random(500 + seed)
    for i in range(5):
        graph = plain_graph(random) if i % 2 else random_graph(random, most_ops=5)
        budget = random_budget(random, graph)
        exact = optimum(graph, budget)
        best = None if exact is None else exact.cost
        found = search(graph, budget, 20_000)
        if best is None:
            assert found.best is None
        else:
            assert found.cost == pytest.approx(best)


def test_same_seed_and_moves_give_the_same_schedule_with_any_slices() -> None:
    graph = training_chain(40)
    budget = peak_of(graph) // 3
    first, second = search(graph, budget, 5000, seed=7), search(graph, budget, 5000, seed=7)
    assert first.best is not None and second.best is not None
    assert first.best.tolist() == second.best.tolist()
    sliced = SequenceSearch(graph, build_model(graph), budget, np.arange(graph.n, dtype=np.int32), seed=7)
    for _ in range(50):
        sliced.run(Listener(), until=math.inf, moves=100)
    assert sliced.best is not None and sliced.best.tolist() == first.best.tolist()


def test_stops_within_a_few_slices_and_keeps_what_it_has() -> None:
    graph = training_chain(300)
    load_kernels()
    recorder = Recorder(graph, peak_of(graph) // 4)
    outcome = []
    problem = Problem(graph, recorder.budget)
    options = SolveOptions(time_limit_s=60)
    thread = threading.Thread(
        target=lambda: outcome.append(LocalSearchSolver().solve(problem, options, recorder))
    )
    thread.start()
    while not recorder.costs:
        time.sleep(0.01)
    recorder.stop.set()
    thread.join(5)
    assert not thread.is_alive()
    assert outcome[0].status is SolveStatus.FEASIBLE


def test_starts_from_the_callers_schedule_if_that_is_better() -> None:
    graph = training_chain(30)
    budget = peak_of(graph) // 2
    good = search(graph, budget, 60_000)
    assert good.best is not None
    options = SolveOptions(time_limit_s=0.0, start=Schedule.of(graph, good.best))
    result = LocalSearchSolver().solve(Problem(graph, budget), options, Listener())
    assert result.cost == pytest.approx(good.cost)


def test_a_start_over_the_budget_is_ignored() -> None:
    graph = training_chain(10)
    options = SolveOptions(time_limit_s=0.2, start=Schedule.plain(graph))
    result = LocalSearchSolver().solve(Problem(graph, peak_of(graph) // 2), options, Listener())
    assert result.status is SolveStatus.FEASIBLE


@pytest.mark.parametrize("share", [0.45, 0.6, 0.8])
def test_the_number_of_moves_decides_the_schedule_at_any_time_limit(share: float) -> None:
    graph = training_dag(5, 14)
    budget = int(share * peak_of(graph))
    ends = [
        LocalSearchSolver().solve(
            Problem(graph, budget), SolveOptions(time_limit_s=limit, moves=4000, seed=3), Listener()
        )
        for limit in (40.0, 400.0)
    ]
    first, second = ([] if end.schedule is None else end.schedule.steps.tolist() for end in ends)
    assert first == second and ends[0].status is ends[1].status
    assert {end.statistics["moves"] for end in ends} == {4000}


@pytest.mark.parametrize("share", [0.8, 0.6, 0.5, 0.4])
def test_a_long_chain_fits_half_its_peak_at_little_cost_and_at_once(share: float) -> None:
    graph = training_chain(200)
    load_kernels()
    started = time.perf_counter()
    result = GreedySolver().solve(Problem(graph, int(share * peak_of(graph))), SolveOptions(), Listener())
    assert result.status is SolveStatus.FEASIBLE
    assert result.overhead < 0.5
    assert time.perf_counter() - started < 2.0


def test_a_budget_below_the_fixed_bytes_is_a_limit_not_a_claim() -> None:
    graph = training_chain(3)
    assert GreedySolver().solve(Problem(graph, 0), SolveOptions(), Listener()).status is SolveStatus.LIMIT


def test_cancelled_before_it_starts() -> None:
    graph = training_chain(30)
    result = GreedySolver().solve(Problem(graph, peak_of(graph) // 2), SolveOptions(), cancelled_recorder())
    assert result.status is SolveStatus.CANCELLED
