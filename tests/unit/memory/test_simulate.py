from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from checkmate.errors import FingerprintMismatchError, ScheduleError
from checkmate.formats import read_any_graph
from checkmate.ir import Graph, GraphBuilder, Schedule
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.planning import solve
from tests.graphs_strategies import published_graphs, random_graph, random_steps, training_chain


def valid_schedules(seed: int, count: int) -> Iterator[tuple[Graph, list[int]]]:
    random = Random(seed)
    while count:
        graph = random_graph(random)
        steps = random_steps(random, graph)
        if check(graph, steps).valid:
            count -= 1
            yield graph, steps


def scaled(graph: Graph, factor: int) -> Graph:
    return replace(
        graph,
        fixed_bytes=graph.fixed_bytes * factor,
        values=tuple(replace(value, bytes=value.bytes * factor) for value in graph.values),
        ops=tuple(replace(op, workspace_bytes=op.workspace_bytes * factor) for op in graph.ops),
    )


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_the_check_on_random_schedules(seed: int) -> None:
    for graph, steps in valid_schedules(seed, 400):
        timeline, report = simulate(graph, Schedule.of(graph, steps)), check(graph, steps)
        assert timeline.peak_bytes == report.peak_bytes
        assert report.peak_bytes == 0 or timeline.peak_step == report.peak_step
        assert timeline.cost == pytest.approx(report.cost)


@pytest.mark.parametrize("seed", range(4))
def test_the_buffers_add_up_to_the_live_bytes(seed: int) -> None:
    for graph, steps in valid_schedules(seed, 200):
        timeline = simulate(graph, Schedule.of(graph, steps))
        for position, op in enumerate(steps):
            held = sum(buffer.bytes for buffer in timeline.alive_at(position))
            wanted = (
                graph.fixed_bytes + graph.ops[op].workspace_bytes + held - int(timeline.taken_over[position])
            )
            assert timeline.live_bytes[position] == wanted
        kept = timeline.buffer_bytes[timeline.buffer_last == len(steps)].sum()
        assert timeline.after_bytes[-1] == graph.fixed_bytes + kept


def test_scaling_the_bytes_changes_nothing_but_the_scale() -> None:
    for graph, steps in valid_schedules(11, 200):
        small = simulate(graph, Schedule.of(graph, steps))
        large_graph = scaled(graph, 4096)
        large = simulate(large_graph, Schedule.of(large_graph, steps))
        assert np.array_equal(large.live_bytes, 4096 * small.live_bytes)
        assert large.peak_step == small.peak_step and large.cost == small.cost
        assert check(large_graph, steps).peak_bytes == 4096 * check(graph, steps).peak_bytes


def test_scaling_the_bytes_and_the_budget_does_not_change_the_schedule() -> None:
    graph = training_chain(12)
    large = scaled(graph, 1000)
    small_result, large_result = solve(graph, 70, solver="greedy"), solve(large, 70_000, solver="greedy")
    assert small_result.schedule is not None and large_result.schedule is not None
    assert small_result.schedule.steps.tolist() == large_result.schedule.steps.tolist()


@pytest.mark.parametrize("path", published_graphs(), ids=lambda path: path.stem[:24])
def test_agrees_with_the_check_on_published_graphs(path: Path) -> None:
    graph = read_any_graph(path)
    plain = list(range(graph.n))
    peak = check(graph, plain).peak_bytes
    schedules = [plain]
    result = solve(graph, int(0.9 * peak), solver="greedy")
    if result.schedule is not None:
        schedules.append(result.schedule.steps.tolist())
    for steps in schedules:
        timeline = simulate(graph, Schedule.of(graph, steps))
        assert timeline.peak_bytes == check(graph, steps).peak_bytes


def test_a_chain_counted_by_hand() -> None:
    graph = training_chain(3)
    timeline = simulate(graph, Schedule.of(graph, [0, 1, 2, 3, 4, 5]))
    assert timeline.live_bytes.tolist() == [10, 20, 30, 40, 40, 30]
    assert timeline.after_bytes.tolist() == [10, 20, 30, 30, 20, 10]
    assert timeline.peak_step == 3


def test_a_view_shares_its_buffer_and_a_take_over_needs_no_second_one() -> None:
    builder = GraphBuilder()
    a = builder.value("a", 8)
    view = builder.value("view", 8, alias_of=a)
    b = builder.value("b", 8, keep=True)
    builder.op("make", (), [a])
    builder.op("reshape", [a], [view])
    builder.op("relu", [view], [b], takes_over=((b, view),))
    graph = builder.build()
    timeline = simulate(graph, Schedule.of(graph, [0, 1, 2]))
    assert timeline.live_bytes.tolist() == [8, 8, 8]
    assert timeline.taken_over.tolist() == [0, 0, 8]


def test_a_value_recomputed_while_an_old_view_lives_has_two_buffers() -> None:
    builder = GraphBuilder()
    a = builder.value("a", 8)
    view = builder.value("view", 8, alias_of=a)
    out = builder.value("out", 1, keep=True)
    builder.op("make", (), [a])
    builder.op("reshape", [a], [view])
    builder.op("both", [a, view], [out])
    graph = builder.build()
    assert simulate(graph, Schedule.of(graph, [0, 1, 2])).peak_bytes == 9
    assert simulate(graph, Schedule.of(graph, [0, 1, 0, 2])).peak_bytes == 17


def test_a_kept_value_that_is_made_again_is_not_live_meanwhile() -> None:
    builder = GraphBuilder()
    kept, read = builder.value("kept", 8, keep=True), builder.value("read", 1)
    end = builder.value("end", 4, keep=True)
    builder.op("make", (), [kept])
    builder.op("read", [kept], [read])
    builder.op("end", [read], [end])
    graph = builder.build()
    for steps, live in ([0, 1, 2], [8, 9, 13]), ([0, 1, 2, 0], [8, 9, 5, 12]):
        assert simulate(graph, Schedule.of(graph, steps)).live_bytes.tolist() == live
        assert check(graph, steps).peak_bytes == max(live)


def test_reading_before_producing_is_refused_by_name() -> None:
    graph = training_chain(2)
    with pytest.raises(ScheduleError, match=r"step 0: op 'f1' reads value 0 'a0' before it is produced"):
        simulate(graph, Schedule.of(graph, [1, 0, 2, 3]))


def test_a_schedule_for_another_graph_is_refused() -> None:
    with pytest.raises(FingerprintMismatchError, match="was made for graph sha256:"):
        simulate(training_chain(3), Schedule.of(training_chain(2), [0, 1, 2, 3]))
