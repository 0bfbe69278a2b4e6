"""Test that compiled code replays a step as the allocator's replica does."""

from __future__ import annotations

from random import Random

import pytest

from checkmate.backends.tf.allocator.predict import before_steps, predicted_allocated
from checkmate.backends.tf.allocator.replay import requests_of_step
from checkmate.backends.tf.plain import AllocatorReplica
from checkmate.errors import CancelledError
from checkmate.ir import Schedule
from checkmate.memory.check import check
from checkmate.planning import keep_everything_peak, solve
from checkmate.planning.arranging import arranged
from checkmate.progress import never
from checkmate.solvers.addresses.arrange import Allocator, arrange
from tests.tf.allocator.test_replay import folded_zoo, marked
from tests.tf.requested import predicted_requested

NAMES = ["two_io", *marked(pytest.mark.heavy, "gru"), *marked(pytest.mark.long, "unet_small", "encoder")]


def some_history(sizes: list[int]) -> list[tuple[int, int]]:
    random, history = Random(1), [(number, size) for number, size in enumerate(sizes)]
    holes = [(1000 + number, random.randrange(1 << 10, 6 << 20)) for number in range(30)]
    return [*history, *holes, *((handle, 0) for handle, _ in holes[::2])]


def allowed_order(after: list[list[int]], random: Random) -> list[int]:
    order = list(range(len(after)))
    for _ in range(20 * len(order)):
        place = random.randrange(1, len(order))
        if order[place] not in after[order[place - 1]]:
            order[place - 1], order[place] = order[place], order[place - 1]
    return order


def recomputing(folded, random: Random) -> list[int]:
    graph, steps = folded.graph, []
    for op in range(graph.n):
        for before in graph.predecessors[op].tolist():
            if graph.recomputable[before] and random.random() < 0.3 and before in steps[:-3]:
                reads = graph.predecessors[before].tolist()
                if all(read in steps for read in reads):
                    steps.append(before)
        steps.append(op)
    return steps


@pytest.mark.heavy
@pytest.mark.parametrize("name", NAMES)
def test_it_shows_what_the_replica_shows(name: str) -> None:
    folded = folded_zoo(name)
    graph, random = folded.graph, Random(3)
    updated = [
        b.bytes for b in requests_of_step(folded, graph, list(range(graph.n))).buffers if b.variable >= 0
    ]
    history, orders = some_history(updated), 0
    for steps in (list(range(graph.n)), recomputing(folded, random)):
        schedule = Schedule.of(graph, steps)
        found = requests_of_step(folded, graph, steps)
        assert found.requested_peak() == predicted_requested(folded, graph, steps)
        before = before_steps(folded, graph, schedule, history)
        same = Allocator(found, before).shown()
        assert same.bytes == predicted_allocated(folded, graph, steps, history)
        for _ in range(3):
            order = [steps[place] for place in allowed_order(found.after.lists(), random)]
            assert check(graph, order).valid
            again = Allocator(requests_of_step(folded, graph, order), before)
            assert again.shown().bytes == predicted_allocated(folded, graph, order, history)
            orders += order != steps
    assert orders >= 4


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["two_io"])
def test_another_order_shows_less_and_is_the_same_each_time(name: str) -> None:
    folded = folded_zoo(name)
    graph, steps = folded.graph, recomputing(folded, Random(5))
    history = some_history([])
    before = before_steps(folded, graph, Schedule.of(graph, steps), history)
    found = arrange(requests_of_step(folded, graph, steps), before, moves=400)
    assert found == arrange(requests_of_step(folded, graph, steps), before, moves=400)
    assert sorted(found) == sorted(steps) and check(graph, found).valid
    shown, shows = (predicted_allocated(folded, graph, each, history) for each in (steps, found))
    assert shows < shown


def test_an_order_that_the_check_refuses_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_zoo("two_io")
    graph = folded.graph
    result = solve(graph, keep_everything_peak(graph), solver="keep-all")
    steps = result.require_schedule().steps.tolist()
    monkeypatch.setattr("checkmate.solvers.addresses.arrange.arrange", lambda requests, *_, **__: steps[::-1])
    found = arranged(AllocatorReplica(folded, some_history([])), result, 0, never)
    assert found.require_schedule().steps.tolist() == steps
    assert found.peak_bytes == result.peak_bytes


def test_no_search_begins_once_the_user_cancelled() -> None:
    folded = folded_zoo("two_io")
    graph, asked = folded.graph, list[bool]()
    result = solve(graph, keep_everything_peak(graph), solver="keep-all")

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > 2

    with pytest.raises(CancelledError):
        arranged(AllocatorReplica(folded, some_history([])), result, 0, cancelled)
    assert len(asked) == 3
