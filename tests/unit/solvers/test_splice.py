"""Splicing schedules and the course of a search: only schedules come out, the same ones for the same seed."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from checkmate.check import check
from checkmate.graphs.generate import training_chain
from checkmate.ir import Graph, Schedule
from checkmate.progress import never
from checkmate.simulate import simulate
from checkmate.solvers.local_search import Search
from checkmate.solvers.sequence_course import Ended, course, pool_of
from checkmate.solvers.sequence_model import build_model
from checkmate.solvers.sequence_splice import Found, Pool, replayed
from tests.graphs_strategies import random_graph

PLENTY = 2**50


def other_order(graph: Graph, random: Random) -> np.ndarray:
    """The graph's ops in a random valid order, some of them twice."""
    before = graph.predecessors.lists()
    steps: list[int] = []
    while len(set(steps)) < graph.n:
        ready = [
            op
            for op in range(graph.n)
            if set(before[op]) <= set(steps) and (op not in steps or (graph.recomputable[op] and random.random() < 0.2))
        ]
        steps.append(random.choice(ready))
    return np.array(steps, np.int32)


def cost_of(graph: Graph, steps: np.ndarray) -> float:
    return simulate(graph, Schedule.of(graph, steps)).cost


@pytest.mark.parametrize("seed", range(15))
def test_a_splice_is_a_schedule_of_both_parents_steps(seed: int) -> None:
    random = Random(seed)
    found = 0
    for _ in range(8):
        graph = random_graph(random, most_ops=10)
        parents = [other_order(graph, random) for _ in range(3)]
        pool = Pool(graph, PLENTY, seed)
        for place, steps in enumerate(parents):
            # Costs only tell the members apart here.
            assert pool.add(Found(float(place + 1), steps))
        child = pool.splice()
        if child is None:
            continue
        found += 1
        assert check(graph, child.steps.tolist(), budget_bytes=PLENTY).ok
        assert not any(np.array_equal(child.steps, steps) for steps in parents)
        assert child.worse in pool.members[1:]
        heads = [steps for steps in parents if steps[0] == child.steps[0]]
        tails = [steps for steps in parents if steps[-1] == child.steps[-1]]
        assert heads and tails
    assert found


def test_a_splice_far_over_the_budget_is_none_to_repair() -> None:
    graph = training_chain(6)
    plain = np.arange(graph.n, dtype=np.int32)
    again = np.concatenate([plain[:2], plain])
    pool = Pool(graph, 1, 0)
    pool.add(Found(1.0, plain))
    pool.add(Found(2.0, again))
    assert pool.splice() is None


def test_a_pool_has_no_two_of_one_cost_and_only_takes_cheaper_ones_in_place() -> None:
    graph = training_chain(2)
    steps = np.arange(graph.n, dtype=np.int32)
    pool = Pool(graph, PLENTY, 0)
    assert pool.best == math.inf and pool.splice() is None
    assert pool.add(Found(5.0, steps)) and pool.add(Found(4.0, steps))
    dearer = pool.members[0]
    assert not pool.add(Found(5.0, steps)) and not pool.add(Found(6.0, steps), dearer)
    assert pool.add(Found(3.0, steps), dearer)
    assert [member.cost for member in pool.members] == [3.0, 4.0]
    assert pool.add(Found(2.5, steps), dearer)  # which is gone by now: it is one more
    assert pool.add(Found(3.5, steps)) and len(pool.members) == 4
    pool.keep_best()
    assert [member.cost for member in pool.members] == [2.5] and pool.best == 2.5


@pytest.mark.parametrize("steps", [[0, 1], [1, 0, 2], [0, 1, 2, 99], []], ids=["missing", "order", "unknown", "empty"])
def test_what_is_no_schedule_is_not_replayed(steps: list[int]) -> None:
    assert replayed(training_chain(2), np.array(steps, np.int32)) is None


@pytest.mark.parametrize("layers", [3, 250], ids=["bred", "cycled"])
def test_a_search_goes_on_from_what_it_is_given(layers: int) -> None:
    graph = training_chain(layers)
    plain = np.arange(graph.n, dtype=np.int32)
    legs = course(Found(math.inf, plain), pool_of(graph, PLENTY, 0))
    first = next(legs)
    assert np.array_equal(first.start, plain) and first.below == math.inf
    given = np.concatenate([plain[:1], plain])
    then = legs.send(Ended(None, plain, Found(7.0, given)))
    assert np.array_equal(then.start, given) and then.below == 7.0
    # What does not fit is a start, but nothing to be cheaper than: at once on a large graph, next time on a small one.
    third = legs.send(Ended(Found(6.0, plain), given, Found(math.inf, given)))
    assert np.array_equal(third.start, given)
    assert third.below == (math.inf if layers == 3 else 6.0)


def test_climbs_are_followed_by_splices_and_then_by_longer_climbs() -> None:
    graph = training_chain(6)
    random = Random(0)
    plain = np.arange(graph.n, dtype=np.int32)
    legs = course(Found(math.inf, plain), pool_of(graph, PLENTY, 1))
    leg = next(legs)
    lengths: list[int] = []
    while leg.moves <= 60_000:
        lengths.append(leg.moves)
        # Every climb ends in another schedule; no splice ends in any.
        found = Found(100.0 - len(lengths), other_order(graph, random)) if leg.moves > 2_000 else None
        leg = legs.send(Ended(found, plain))
        if leg.moves == 20_000:
            break
    assert lengths == [10_000, 60_000] * 12 + [2_000] * 200
    assert leg.moves == 20_000


def test_two_searches_share_the_climbs_of_a_round_and_splice_what_both_found() -> None:
    graph = training_chain(6)
    random = Random(1)
    plain = np.arange(graph.n, dtype=np.int32)
    pool = pool_of(graph, PLENTY, 1)
    assert pool is not None
    both = [course(Found(math.inf, plain), pool) for _ in range(2)]
    legs = [next(one) for one in both]
    lengths: list[list[int]] = [[], []]
    for turn in range(40):
        one = turn % 2
        lengths[one].append(legs[one].moves)
        found = Found(100.0 - turn, other_order(graph, random)) if legs[one].moves > 2_000 else None
        legs[one] = both[one].send(Ended(found, plain))
    assert [sum(moves == 60_000 for moves in of) for of in lengths] == [6, 6]  # twelve climbs in all
    assert [of[-1] for of in lengths] == [2_000, 2_000]
    assert len(pool.members) == 12


def test_who_has_nothing_to_splice_while_another_climbs_climbs_too() -> None:
    graph = training_chain(6)
    pool = pool_of(graph, PLENTY, 1)
    assert pool is not None
    for _ in range(12):
        assert pool.begin_climb(12)
    assert not pool.begin_climb(12) and pool.waits
    legs = course(Found(math.inf, np.arange(graph.n, dtype=np.int32)), pool)
    assert next(legs).moves == 10_000 and pool.round == 0


def test_the_same_seed_splices_the_same() -> None:
    graph = training_chain(8)
    base = graph.base_cost
    peak = simulate(graph, Schedule.of(graph, list(range(graph.n)))).peak_bytes
    ends = []
    for _ in range(2):
        found = Search(graph, build_model(graph), int(0.6 * peak), np.arange(graph.n, dtype=np.int32), seed=3)
        found.run(
            until=math.inf,
            cancelled=never,
            incumbent=lambda steps, cost: None,
            enough=lambda cost: cost <= base,
            moves=900_000,
        )
        assert found.best is not None
        ends.append((found.moves, found.cost, found.best.tolist()))
    assert ends[0] == ends[1]
    assert cost_of(graph, np.array(ends[0][2], np.int32)) == ends[0][1]
