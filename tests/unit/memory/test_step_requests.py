from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from checkmate.ir import Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from tests.graph_requests import requests_of_graph
from tests.graphs_strategies import random_graph, random_steps


def cases():
    """Yield graphs and schedules without views that are written over."""
    for seed in range(200):
        graph = random_graph(Random(seed))
        if any(graph.alias_of[output] >= 0 for op in graph.ops for output, _ in op.takes_over):
            continue
        yield graph, np.asarray(random_steps(Random(seed + 1000), graph))


def test_they_are_the_live_bytes_of_the_schedule() -> None:
    for graph, steps in cases():
        schedule = Schedule.of(graph, steps)
        timeline = simulate(graph, schedule)
        found = requests_of_graph(graph, schedule, timeline)
        assert found.requested_peak() == timeline.peak_bytes - graph.fixed_bytes


def test_an_order_that_they_allow_is_valid_and_asks_for_the_same() -> None:
    moved = 0
    for number, (graph, steps) in enumerate(cases()):
        schedule, random = Schedule.of(graph, steps), Random(number)
        found = requests_of_graph(graph, schedule, simulate(graph, schedule))
        after, order = found.after.lists(), list(range(len(steps)))
        for _ in range(40):
            place = random.randrange(len(order))
            if place and order[place] not in after[order[place - 1]]:
                order[place - 1], order[place] = order[place], order[place - 1]
                moved += 1
        other = steps[order]
        assert check(graph, other.tolist()).violations == check(graph, steps.tolist()).violations
        timeline = simulate(graph, Schedule.of(graph, other))
        # An input that dies elsewhere may be written over now; then less is needed than they say.
        again = _reordered(found, order)
        assert timeline.peak_bytes - graph.fixed_bytes <= again.requested_peak()
    assert moved > 500


def _reordered(found, order):
    """Return the requests with their parts numbered in another order."""
    rank = {part: number for number, part in enumerate(order)}
    buffers = [
        replace(b, part=rank[b.part], readers=tuple(rank[reader] for reader in b.readers))
        for b in found.buffers
    ]
    return replace(found, buffers=tuple(buffers))
