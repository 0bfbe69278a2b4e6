"""Test that steps are arranged validly, for the better, and reproducibly."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from checkmate.ir import Graph, Schedule
from checkmate.memory.bfc import Bfc, Request
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.memory.step_requests import InitialAllocations, StepRequests
from checkmate.solvers.addresses.arrange import Allocator, arrange
from tests.generated_graphs import random_layered, training_dag
from tests.graph_requests import requests_of_graph
from tests.graphs_strategies import random_graph, random_steps

CARD = 200_000  # bytes: too few for most of the networks here


def scaled(graph: Graph) -> Graph:
    """Return ``graph`` with values of some KiB, no two sizes alike."""
    values = (replace(value, bytes=6500 * value.bytes + 37 * i) for i, value in enumerate(graph.values))
    return replace(graph, values=tuple(values))


def requests(graph: Graph, steps: list[int]) -> StepRequests:
    schedule = Schedule.of(graph, np.asarray(steps))
    return requests_of_graph(graph, schedule, simulate(graph, schedule))


def by_replica(found: StepRequests, before: InitialAllocations, runs: int) -> tuple[int, int]:
    """Return the peak and the missing bytes of Python's own allocator."""
    allocator = Bfc(before.capacity)
    allocator.play(before.requests)
    asked: list[list[int]] = [[] for _ in range(found.parts)]
    ending: list[list[int]] = [[] for _ in range(found.parts + 1)]
    for number, buffer in enumerate(found.buffers):
        asked[buffer.part].append(number)
        ending[found.parts if buffer.kept else max(buffer.readers)].append(number)
    peak = 0
    for _ in range(runs):
        served: list[Request] = []
        for part in range(found.parts):
            served += [Request(number, found.buffers[number].bytes) for number in asked[part]]
            served += [Request(number, 0) for number in ending[part]]
        served += [Request(number, 0) for number in ending[-1]]
        peak = max(peak, allocator.play(served))
    return peak, allocator.missing


def history(random: Random) -> tuple[Request, ...]:
    held = [Request(1000 + i, random.randrange(1, 40_000)) for i in range(20)]
    return (*held, *(Request(each.handle, 0) for each in held[::2]))


@pytest.mark.parametrize("capacity", [None, CARD, 1 << 40])
def test_compiled_code_shows_what_the_replica_shows(capacity: int | None) -> None:
    wasted = missing = 0
    for seed in range(80):
        graph = scaled(training_dag(seed, 12))
        steps = random_steps(Random(seed), graph)
        found, before = requests(graph, steps), InitialAllocations(history(Random(seed)), capacity)
        shown = Allocator(found, before).shown(runs=3)
        assert (shown.bytes, shown.missing) == by_replica(found, before, 3)
        wasted += shown.bytes > found.requested_peak() + sum(
            each.bytes for each in before.requests if each.handle % 2
        )
        missing += shown.missing > 0
    assert wasted > 20 and (missing > 20) == (capacity == CARD)


def test_it_is_valid_never_worse_and_the_same_each_time() -> None:
    better = 0
    for seed in range(60):
        graph = random_graph(Random(seed))
        if any(graph.alias_of[output] >= 0 for op in graph.ops for output, _ in op.takes_over):
            continue
        steps = random_steps(Random(seed), graph)
        found, before = requests(graph, steps), InitialAllocations(history(Random(seed)))
        arranged = arrange(found, before, moves=200, seed=seed)
        assert arranged == arrange(found, before, moves=200, seed=seed)
        assert sorted(arranged) == sorted(steps)
        assert check(graph, arranged).violations == check(graph, steps).violations
        assert check(graph, arranged).peak_bytes <= check(graph, steps).peak_bytes
    for seed in range(8):
        graph = scaled(random_layered(seed, 60))
        steps = list(range(graph.n))
        arranged = arrange(requests(graph, steps), InitialAllocations(), moves=600, seed=seed)
        assert check(graph, arranged).valid
        old, new = (
            Allocator(requests(graph, each), InitialAllocations()).shown().bytes for each in (steps, arranged)
        )
        assert new <= old
        better += new < old
    assert better >= 4
