"""The runs of a local search and its kicks give schedules only, and the same ones for the same seed."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from checkmate.ir import Graph, GraphBuilder, Schedule
from checkmate.ir.arrays import Steps
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.progress import never
from checkmate.solvers.sequence.kernel_arrays import COST, HELD, LIVE, WEIGHT, build_model, steps_of
from checkmate.solvers.sequence.local_search import SequenceSearch
from checkmate.solvers.sequence.restarts import (
    CostedSteps,
    EndedRun,
    luby,
    order_first,
    plan_runs,
    replay,
    with_cost,
)
from tests.generated_graphs import random_layered, training_chain
from tests.graphs_strategies import random_graph
from tests.unit.solvers.test_local_search import peak_of

PLENTY = 2**50


def other_order(graph: Graph, random: Random) -> np.ndarray:
    """Return the graph's ops in a random valid order, some of them twice."""
    before = graph.predecessors.lists()
    steps: list[int] = []
    while len(set(steps)) < graph.n:
        ready = [
            op
            for op in range(graph.n)
            if set(before[op]) <= set(steps)
            and (op not in steps or (graph.recomputable[op] and random.random() < 0.2))
        ]
        steps.append(random.choice(ready))
    return np.array(steps, np.int32)


def plain_of(graph: Graph) -> np.ndarray:
    return np.arange(graph.n, dtype=np.int32)


@pytest.mark.parametrize(
    "steps", [[0, 1], [1, 0, 2], [0, 1, 2, 99], []], ids=["missing", "order", "unknown", "empty"]
)
def test_invalid_schedules_are_not_replayed(steps: list[int]) -> None:
    assert replay(training_chain(2), np.array(steps, np.int32)) is None
    assert with_cost(training_chain(2), np.array(steps, np.int32), PLENTY) is None


@pytest.mark.parametrize("small", [True, False], ids=["rounds", "cycles"])
def test_a_search_continues_from_the_given_schedule(small: bool) -> None:
    graph = training_chain(3)
    plain = plain_of(graph)
    runs = plan_runs(CostedSteps(math.inf, plain), small=small, seed=0)
    first = next(runs)
    assert np.array_equal(first.start, plain) and first.below == math.inf
    given = np.concatenate([plain[:1], plain])
    then = runs.send(EndedRun(None, plain, CostedSteps(7.0, given)))
    assert np.array_equal(then.start, given) and then.below == 7.0
    # A schedule that does not fit is a start, but nothing has to be cheaper than it. A large graph takes it
    # at once, a small one for its next climb.
    third = runs.send(EndedRun(CostedSteps(6.0, plain), given, CostedSteps(math.inf, given)))
    assert np.array_equal(third.start, plain if small else given)
    assert third.kicked == small and third.below == (math.inf if small else 6.0)


def test_the_better_half_of_the_chains_continues_until_one_is_left() -> None:
    graph = training_chain(12)
    plain = plain_of(graph)
    runs = plan_runs(CostedSteps(math.inf, plain), small=True, seed=1)
    run = next(runs)
    climbs: list[int] = []  # moves of the second runs
    kicked: list[float] = []  # the cost of the schedules that are kicked
    while not (len(climbs) == 20 and not run.kicked and run.moves == 2_000):
        if run.kicked:
            assert run.moves == 400
            kicked.append(float(len(run.start)))
            run = runs.send(EndedRun(None, plain))  # no kick finds anything
        elif run.moves % 6_000 == 0:
            climbs.append(run.moves)
            # Later climbs end in dearer schedules, told apart by their lengths.
            run = runs.send(EndedRun(CostedSteps(float(len(climbs)), plain_of(graph)[: len(climbs)]), plain))
        else:
            run = runs.send(EndedRun(None, plain))
    assert climbs == [6_000 * luby(nth) for nth in range(1, 21)]
    counts = {cost: kicked.count(cost) for cost in set(kicked)}
    assert (
        counts[1.0] == 25 + 110 * 5 + 200
    )  # halved to 10, 5, 3, 2 and 1 chains, then on until patience ends
    assert counts[2.0] == 25 + 110 * 4 and counts[3.0] == 25 + 110 * 3 and counts[20.0] == 25


def test_a_kicked_schedule_is_followed_unless_it_is_much_worse() -> None:
    plain = plain_of(training_chain(3))
    runs = plan_runs(CostedSteps(math.inf, plain), small=True, seed=1)
    next(runs)
    runs.send(EndedRun(None, plain))
    one, worse, better = plain, plain[:-1], plain[:-2]
    run = runs.send(EndedRun(CostedSteps(100.0, one), plain))
    assert run.kicked and np.array_equal(run.start, one)
    run = runs.send(EndedRun(CostedSteps(100.4, worse), plain))
    assert np.array_equal(run.start, one)
    run = runs.send(EndedRun(CostedSteps(99.0, better), plain))
    assert np.array_equal(run.start, better)


def test_lubys_numbers() -> None:
    assert [luby(nth) for nth in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]


@pytest.mark.parametrize("seed", range(12))
def test_a_kicked_sequence_is_a_schedule_whose_live_bytes_are_exact(seed: int) -> None:
    random = Random(seed)
    changed = 0
    for _ in range(10):
        graph = random_graph(random, most_ops=10)
        steps = other_order(graph, random)
        peak = simulate(graph, Schedule.of(graph, steps)).peak_bytes
        budget = int(peak * random.uniform(0.5, 1.1))
        search = SequenceSearch(graph, build_model(graph), budget, steps, seed=seed)
        search._load(steps)
        search._kick()
        kicked = steps_of(search._state)
        changed += len(kicked) != len(steps)
        report = check(graph, kicked.tolist(), budget_bytes=PLENTY)
        assert report.ok and report.cost == pytest.approx(float(search._state.real[COST]))
        live = simulate(graph, Schedule.of(graph, kicked)).live_bytes
        own = search._state.mem[LIVE, : len(kicked)] * search.scaled.unit + search.scaled.fixed_bytes
        assert np.array_equal(live, own)
    assert changed


def test_a_kick_removes_a_recomputation_and_the_ops_that_only_it_needed() -> None:
    graph = training_chain(4)
    plain = plain_of(graph)
    last = graph.n - 1
    again = np.concatenate([plain[:last], plain[:3], plain[last:]])  # the first three ops again, unread
    search = SequenceSearch(graph, build_model(graph), PLENTY, again, seed=1)
    search._load(again)
    for _ in range(3):
        search._kick()
    assert np.array_equal(steps_of(search._state), plain)


@pytest.mark.parametrize("seed", range(6))
def test_a_kick_does_not_recompute_the_same_value_again(seed: int) -> None:
    """Greedy alone would: it drops x or y while z is live, and x is the cheaper one to make again."""
    builder = GraphBuilder("choice")
    x, y, z = builder.value("x", 4), builder.value("y", 4), builder.value("z", 4)
    builder.op("x", [], [x], cost=1.0)
    builder.op("y", [], [y], cost=5.0)
    builder.op("early", [x, y], [builder.value("e", 1)], cost=1.0)
    builder.op("z", [], [z], cost=1.0)
    builder.op("after z", [z], [builder.value("a", 1)], cost=1.0)
    builder.op("end", [x, y], [builder.value("b", 1, keep=True)], cost=1.0)
    graph = builder.build()
    with_x_again = np.array([0, 1, 2, 3, 4, 0, 5], np.int32)
    search = SequenceSearch(graph, build_model(graph), 9, with_x_again, seed=seed)
    search._load(with_x_again)
    search._kick()
    steps = steps_of(search._state).tolist()
    assert steps.count(0) == 1 and steps.count(1) == 2
    assert search._state.num[HELD] == -1


def test_random_moves_pick_large_values_and_costly_ops_more_often() -> None:
    builder = GraphBuilder("weights")
    for size, cost in ((100, 1.0), (1, 100.0), (1, 1.0), (20, 1.0)):
        builder.op(f"{size} {cost}", [], [builder.value(f"{size} {cost}", size)], cost=cost)
    large, dear, least, middle = build_model(builder.build()).model.price[WEIGHT, :4].tolist()
    assert [large, dear, middle, least] == pytest.approx([1.0, 0.51, 0.23, 0.1], abs=0.01)
    for cost in (0.0, 5e-324, 1e300):
        alike = GraphBuilder("alike")
        for name in "ab":
            alike.op(name, [], [alike.value(name, 0)], cost=cost)
        assert build_model(alike.build()).model.price[WEIGHT].tolist() == [1.0, 1.0, 1.0]


MOVES = 100_000


def over(graph: Graph, steps: Steps, budget: int) -> float:
    live = np.asarray(simulate(graph, Schedule.of(graph, steps)).live_bytes, np.float64)
    return float(np.maximum(live - budget, 0).sum())


def test_each_op_runs_once_and_far_less_is_over_the_budget_for_each_seed() -> None:
    graph = random_layered(3, 150)
    budget = int(0.7 * peak_of(graph))
    for seed in (1, 4):
        steps, same = (order_first(graph, budget, moves=MOVES, seed=seed, cancelled=never) for _ in range(2))
        assert steps is not None and same is not None and steps.tolist() == same.tolist()
        assert sorted(steps.tolist()) == list(range(graph.n))
        assert check(graph, steps.tolist(), budget_bytes=2 * peak_of(graph)).ok
        assert over(graph, steps, budget) <= 0.5 * over(graph, plain_of(graph), budget)


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
