from __future__ import annotations

import dataclasses

import pytest

from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_graph
from checkmate.graphs.layers import training_graph
from checkmate.graphs.paper import find_network
from checkmate.ir import Schedule
from checkmate.largest.reach import InputLevels, MemoryAtSizes
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.greedy_solver import GreedySolver
from tests.generated_graphs import training_chain, training_dag

BATCH = 4


def memory_of(scaling: BatchScaling, steps) -> MemoryAtSizes:
    batches = (scaling.batch, 2 * scaling.batch)
    return MemoryAtSizes.of({batch: scaling.at(batch) for batch in batches}, steps)


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
        memory = memory_of(scaling, schedule.steps.tolist())
        for batch in (1, graph.batch_size, 13, 64):
            scaled = scaling.at(batch)
            peak = simulate(scaled, Schedule.of(scaled, schedule.steps.tolist())).peak_bytes
            assert abs(memory.peak(batch) - peak) <= batch * graph.m  # each size is rounded up


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_the_largest_batch_fits_and_the_next_does_not(graph) -> None:
    memory = memory_of(BatchScaling(graph), range(graph.n))
    for batch in (3, 10, 77):
        budget = memory.peak(batch)
        assert abs(memory.largest(budget, 10**6) - batch) <= 1
        at = memory.largest(budget, 10**6)
        assert memory.peak(at) <= budget + 1 and memory.peak(at + 1) > budget - 1
    assert memory.largest(0, 10**6) == 0


def step_at(levels: InputLevels, level: int, name: str = "paper.unet"):
    return training_graph(find_network(name).network(levels.at(level)), 2)


def test_levels_of_images_and_sequences() -> None:
    image = InputLevels.of((192, 128, 3))
    assert image is not None and (image.unit, image.level) == ((96, 64), 2)
    assert image.at(3) == (288, 192, 3) and image.words(3) == "288 × 192"
    square = InputLevels.of((224, 224, 3))
    assert square is not None and (square.unit, square.level, square.to_trace) == ((32, 32), 7, (8, 10))
    text = InputLevels.of((120, 64))
    assert text is not None and (text.unit, text.level, text.at(20)) == ((8,), 15, (160, 64))
    assert text.words(20) == "length 160"
    assert InputLevels.of((299, 299, 3)) is InputLevels.of((4, 4, 4, 3)) is InputLevels.of(()) is None


def test_only_a_free_input_has_other_sizes() -> None:
    graph = step_at(InputLevels((64, 64, 3), (32, 32)), 2)

    def told(**request) -> InputLevels | None:
        return InputLevels.of_graph(dataclasses.replace(graph, metadata={"request": request}))

    assert told(model="unet") == InputLevels((128, 128, 3), (32, 32))  # the sample's own
    assert told(model="x.keras", input_shape=[64, 64, 3]) == InputLevels((64, 64, 3), (32, 32))
    assert told(model="x.keras") is told(model="unet", allow_code=True) is InputLevels.of_graph(graph) is None


@pytest.mark.parametrize("recomputes", [False, True])
def test_memory_on_the_parabola_is_that_of_the_step_built_there(recomputes: bool) -> None:
    levels = InputLevels((64, 128, 3), (32, 64))
    traced = {level: step_at(levels, level) for level in (levels.level, *levels.to_trace)}
    plain = list(range(traced[2].n))
    first = next(op for op in plain if traced[2].recomputable[op])
    steps = [*plain[:-1], first, plain[-1]] if recomputes else plain
    memory = MemoryAtSizes.of(traced, steps)
    for level in (6, 8, 10):
        graph = step_at(levels, level)
        assert memory.peak(level) == simulate(graph, Schedule.of(graph, steps)).peak_bytes
    assert memory.largest(memory.peak(8), 20) == 8 and memory.largest(memory.peak(8) - 1, 20) == 7
    assert memory.largest(0, 20) == 0
