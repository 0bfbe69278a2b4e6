"""Test the search for an order: valid, much better, or none."""

from __future__ import annotations

import numpy as np

from checkmate.graphs.layers import training_chain
from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.progress import never
from checkmate.solvers.sequence.restarts import order_first
from tests.generated_graphs import random_layered
from tests.unit.solvers.test_local_search import peak_of

MOVES = 100_000


def over(graph: Graph, steps: Steps, budget: int) -> float:
    live = np.asarray(simulate(graph, Schedule.of(graph, steps)).live_bytes, np.float64)
    return float(np.maximum(live - budget, 0).sum())


def test_each_op_runs_once_and_far_less_is_over_the_budget() -> None:
    graph = random_layered(3, 150)
    budget = int(0.7 * peak_of(graph))
    steps = order_first(graph, budget, moves=MOVES, seed=1, cancelled=never)
    assert steps is not None
    assert sorted(steps.tolist()) == list(range(graph.n))
    assert check(graph, steps.tolist(), budget_bytes=2 * peak_of(graph)).ok
    assert over(graph, steps, budget) <= 0.5 * over(graph, np.arange(graph.n, dtype=np.int32), budget)


def test_the_same_seed_gives_the_same_order() -> None:
    graph = random_layered(3, 150)
    budget = int(0.7 * peak_of(graph))
    one, two = (order_first(graph, budget, moves=MOVES, seed=4, cancelled=never) for _ in range(2))
    assert one is not None
    assert two is not None
    assert one.tolist() == two.tolist()


def test_an_order_that_fits_is_returned_at_once() -> None:
    graph = random_layered(4, 150)
    budget = int(0.95 * peak_of(graph))
    steps = order_first(graph, budget, moves=MOVES, seed=1, cancelled=never)
    assert steps is not None
    assert check(graph, steps.tolist(), budget_bytes=budget).ok


def test_none_where_the_order_is_given_or_the_caller_cancels() -> None:
    chain = training_chain(60)
    assert order_first(chain, peak_of(chain) // 2, moves=MOVES, seed=1, cancelled=never) is None
    layered = random_layered(3, 150)
    budget = int(0.7 * peak_of(layered))
    assert order_first(layered, budget, moves=MOVES, seed=1, cancelled=lambda: True) is None
