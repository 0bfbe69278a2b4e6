from __future__ import annotations

import dataclasses

import pytest

from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_graph
from checkmate.ir import Schedule
from checkmate.largest.reach import MemoryAtBatches
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.greedy_solver import GreedySolver
from tests.generated_graphs import training_chain, training_dag

BATCH = 4


GRAPHS = [
    dataclasses.replace(training_chain(12), batch_size=BATCH),
    dataclasses.replace(training_dag(1, 30), batch_size=BATCH),
    read_graph(find_graph("unet-b8.graph")),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_the_peak_at_any_batch_is_that_of_the_scaled_graph(graph) -> None:
    scaling = BatchScaling(graph)
    plain = Schedule.plain(graph)
    less = Problem(graph, int(0.7 * simulate(graph, plain).peak_bytes))
    found = GreedySolver().solve(less, SolveOptions(time_limit_s=2.0), Listener()).require_schedule()
    assert found.recomputations > 0
    for schedule in (plain, found):
        memory = MemoryAtBatches.of(scaling, schedule.steps.tolist())
        for batch in (1, graph.batch_size, 13, 64):
            scaled = scaling.at(batch)
            peak = simulate(scaled, Schedule.of(scaled, schedule.steps.tolist())).peak_bytes
            assert abs(memory.peak(batch) - peak) <= batch * graph.m  # each size is rounded up


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_the_largest_batch_fits_and_the_next_does_not(graph) -> None:
    memory = MemoryAtBatches.of(BatchScaling(graph), range(graph.n))
    for batch in (3, 10, 77):
        budget = memory.peak(batch)
        assert abs(memory.largest(budget, 10**6) - batch) <= 1
        at = memory.largest(budget, 10**6)
        assert memory.peak(at) <= budget + 1 and memory.peak(at + 1) > budget - 1
    assert memory.largest(0, 10**6) == 0
