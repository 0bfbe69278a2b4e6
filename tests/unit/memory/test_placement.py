from __future__ import annotations

from dataclasses import fields, replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkmate.errors import ContentError
from checkmate.ir import Device, Graph, GraphBuilder, Schedule
from checkmate.memory.placement import FIXED, WORKSPACE, Placement, place, written_over
from checkmate.memory.simulate import simulate
from tests.generated_graphs import training_dag
from tests.graphs_strategies import random_graph, random_steps

KIB = 1 << 10
CARD = Device("card", "gpu", 1 << 30)
PROCESSOR = Device("processor", "cpu", 1 << 30)


def cases():
    """Yield schedules that write no view over another input. No real op does that."""
    for seed in range(150):
        graph = random_graph(Random(seed))
        if any(graph.alias_of[output] >= 0 for op in graph.ops for output, _ in op.takes_over):
            continue
        for device in (None, CARD, PROCESSOR):
            steps = np.asarray(random_steps(Random(seed + 1000), graph))
            on_device = replace(graph, device=device)
            schedule = Schedule.of(on_device, steps)
            yield on_device, schedule, simulate(on_device, schedule)


def test_blocks_are_what_is_live_and_never_overlap() -> None:
    seen = 0
    for graph, schedule, timeline in cases():
        placed = place(graph, schedule, timeline)
        assert placed is not None
        assert (placed.chunk >= placed.asked).all() and (placed.born <= placed.last).all()
        assert (placed.address >= 0).all() and (placed.address + placed.chunk <= placed.top).all()
        for step in range(len(schedule.steps)):
            here = np.flatnonzero((placed.born <= step) & (step <= placed.last))
            here = here[np.argsort(placed.address[here])]
            starts, ends = placed.address[here], placed.address[here] + placed.chunk[here]
            assert (ends[:-1] <= starts[1:]).all()
            assert placed.asked[here].sum() == timeline.live_bytes[step] == placed.requested[step]
            assert placed.chunk[here].sum() == placed.allocated[step]
            free = placed.free_bytes(step)
            assert 0 <= placed.largest_free[step] <= free
            assert (placed.free_chunks[step] == 0) == (free == 0)
            if placed.free_chunks[step] == 1:
                assert placed.largest_free[step] == free
            seen += len(here)
    assert seen > 2000


def test_a_placement_travels_whole() -> None:
    for graph, schedule, timeline in cases():
        placed = place(graph, schedule, timeline)
        assert placed is not None
        other = Placement.from_bytes(placed.to_bytes())
        for field in fields(Placement):
            assert np.array_equal(getattr(other, field.name), getattr(placed, field.name)), field.name


SAMPLE = next(cases())


def sample() -> Placement:
    placed = place(*SAMPLE)
    assert placed is not None
    return placed


@given(st.binary(max_size=400))
def test_bytes_that_are_no_placement_are_refused(body: bytes) -> None:
    with pytest.raises(ContentError):
        Placement.from_bytes(body)


@given(st.data())
def test_a_placement_that_is_cut_or_changed_is_refused_or_possible(data: st.DataObject) -> None:
    whole = sample().to_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ContentError):
        Placement.from_bytes(whole[:cut])
    numbers = np.frombuffer(whole, np.int64).copy()
    numbers[data.draw(st.integers(0, len(numbers) - 1))] = data.draw(st.integers(-(2**63), 2**63 - 1))
    try:
        found = Placement.from_bytes(numbers.tobytes())
    except ContentError:
        return
    assert (found.address >= 0).all() and (found.address + found.chunk <= found.top).all()
    assert (found.last < len(found.allocated)).all() and (found.buffer >= FIXED).all()


def test_outputs_are_written_over_inputs_where_the_timeline_says_so() -> None:
    linked = 0
    for graph, schedule, timeline in cases():
        source = written_over(graph, schedule, timeline)
        saved = np.zeros(len(schedule.steps), np.int64)
        for new, old in source.items():
            step = int(timeline.buffer_born[new])
            assert timeline.buffer_last[old] == step
            saved[step] += timeline.buffer_bytes[new]
        assert (saved == timeline.taken_over).all()
        linked += len(source)
    assert linked > 20


def split_memory(device: Device | None) -> Graph:
    """Return ops that hold every second of ten values, then need two at once."""
    builder = GraphBuilder("split")
    values = [builder.value(f"v{i}", 256 * KIB) for i in range(10)]
    for i, value in enumerate(values):
        builder.op(f"make{i}", [], [value])
    used = builder.value("used", 256)
    builder.op("odd", values[1::2], [used])
    large = builder.value("large", 512 * KIB)
    builder.op("needs", [used], [large], workspace_bytes=KIB)
    builder.op("even", [*values[0::2], large], [builder.value("end", 256, keep=True)])
    return replace(builder.build(fixed_bytes=3 * KIB), device=device)


def test_free_memory_that_is_split_does_not_serve_a_large_request() -> None:
    graph = split_memory(CARD)
    schedule = Schedule.of(graph, np.arange(graph.n))
    placed = place(graph, schedule, simulate(graph, schedule))
    assert placed is not None
    step = schedule.steps.tolist().index(11)  # the large value; five holes of 256 KiB are below it
    large = int(np.flatnonzero((placed.born == step) & (placed.asked == 512 * KIB))[0])
    assert placed.top >= 10 * 256 * KIB + 512 * KIB
    assert placed.address[large] + placed.chunk[large] <= placed.top
    assert placed.free_chunks[step] >= 5 and placed.largest_free[step] < 512 * KIB
    assert placed.free_bytes(step) >= 5 * 256 * KIB - 64 * KIB
    assert (placed.buffer == FIXED).sum() == 1 and (placed.buffer == WORKSPACE).sum() == 1
    assert placed.regions == (0,)


def test_on_a_processor_memory_grows_in_regions() -> None:
    graph = split_memory(None)
    schedule = Schedule.of(graph, np.arange(graph.n))
    placed = place(graph, schedule, simulate(graph, schedule))
    assert placed is not None and placed.regions == (0, 2 << 20) and placed.top == (2 << 20) + (4 << 20)


def test_on_a_known_processor_one_region_has_room_for_the_step() -> None:
    regions = {}
    for device in (None, PROCESSOR):
        graph = split_memory(device)
        values = tuple(replace(value, bytes=16 * value.bytes) for value in graph.values)
        graph = replace(graph, values=values)
        schedule = Schedule.of(graph, np.arange(graph.n))
        placed = place(graph, schedule, simulate(graph, schedule))
        assert placed is not None
        regions[device] = placed.regions, placed.top
    # What is always live has the first one. The other is the first doubling that has room for the whole step.
    assert regions[PROCESSOR] == ((0, 2 << 20), (2 << 20) + (64 << 20))
    assert len(regions[None][0]) > 3


def test_the_work_can_be_cancelled_and_says_how_far_it_is() -> None:
    graph = training_dag(3, 200)
    schedule = Schedule.of(graph, np.arange(graph.n))
    timeline, told = simulate(graph, schedule), []
    assert place(graph, schedule, timeline, told.append) is not None
    assert told == sorted(told) and told[0] == 0 and 0.9 < told[-1] < 1
    assert place(graph, schedule, timeline, told.append, lambda: True) is None


@pytest.mark.parametrize("device", [None, CARD, PROCESSOR])
def test_a_graph_without_bytes_has_no_blocks(device: Device | None) -> None:
    builder = GraphBuilder("nothing")
    builder.op("op", [], [builder.value("v", 0)])
    graph = replace(builder.build(), device=device)
    schedule = Schedule.of(graph, np.arange(1))
    placed = place(graph, schedule, simulate(graph, schedule))
    assert placed is not None and len(placed.buffer) == 0 and placed.top == 0
