from __future__ import annotations

from random import Random

import pytest

from checkmate.errors import ScheduleError
from checkmate.ir import Graph, GraphBuilder, Schedule
from checkmate.memory.recomputed import Recomputation, Runs, recomputations
from checkmate.memory.simulate import simulate
from tests.graphs_strategies import random_graph, random_steps


def by_hand() -> Graph:
    """Build the example of the page "How it works", in units of one byte."""
    builder = GraphBuilder("by hand")
    a1, a2, a3, d2, d1 = (builder.value(name, 4) for name in ("a1", "a2", "a3", "d2", "d1"))
    d0 = builder.value("d0", 4, keep=True)
    builder.op("f1", [], [a1], cost=1)
    builder.op("f2", [a1], [a2], cost=1)
    builder.op("f3", [a2], [a3], cost=1)
    builder.op("b3", [a2, a3], [d2], cost=2)
    builder.op("b2", [a1, d2], [d1], cost=2)
    builder.op("b1", [a1, d1], [d0], cost=2)
    return builder.build()


def found(graph: Graph, steps: list[int]) -> list[Recomputation]:
    return recomputations(graph, Schedule.of(graph, steps))


def test_the_example_by_hand() -> None:
    graph = by_hand()
    assert found(graph, [0, 1, 2, 3, 4, 5]) == []
    assert found(graph, [0, 1, 2, 3, 0, 4, 5]) == [
        Recomputation(
            op=0,
            step=4,
            before=0,
            freed_after=1,
            bytes=4,
            read_at=5,
            reader=4,
            fullest_step=3,
            fullest_bytes=12,
        )
    ]


def test_what_nobody_reads_and_what_was_never_gone() -> None:
    graph = by_hand()
    useless, again = found(graph, [0, 1, 2, 3, 0, 0, 4, 5])
    assert (useless.read_at, useless.reader) == (None, None)
    assert (again.before, again.freed_after, again.fullest_step) == (4, 4, None)
    assert (again.read_at, again.reader) == (6, 4)


def test_a_view_has_no_bytes_of_its_own() -> None:
    builder = GraphBuilder("view")
    whole = builder.value("whole", 8)
    flat = builder.value("flat", 8, alias_of=whole)
    out = builder.value("out", 2, keep=True)
    builder.op("make", [], [whole])
    builder.op("reshape", [whole], [flat])
    builder.op("read", [flat], [out])
    (again,) = found(builder.build(), [0, 1, 1, 2])
    assert (again.op, again.bytes, again.freed_after, again.read_at) == (1, 0, 1, 3)


def test_random_schedules_agree_with_the_timeline() -> None:
    listed = 0
    for seed in range(150):
        graph = random_graph(Random(seed))
        schedule = Schedule.of(graph, random_steps(Random(seed), graph))
        timeline, steps = simulate(graph, schedule), schedule.steps.tolist()
        entries = recomputations(graph, schedule)
        assert len(entries) == schedule.recomputations
        for entry in entries:
            assert steps[entry.before] == steps[entry.step] == entry.op
            assert entry.op not in steps[entry.before + 1 : entry.step]
            made = {(value, entry.before) for value in graph.ops[entry.op].outputs}
            for step in range(entry.freed_after + 1, entry.step):
                assert not made & {(buffer.value, buffer.born) for buffer in timeline.alive_at(step)}
                assert entry.fullest_bytes is not None and timeline.live_bytes[step] <= entry.fullest_bytes
            if entry.fullest_step is not None:
                assert entry.freed_after < entry.fullest_step < entry.step
                assert timeline.live_bytes[entry.fullest_step] == entry.fullest_bytes
            if entry.reader is not None:
                read = graph.ops[entry.reader].inputs
                assert set(read) & set(graph.ops[entry.op].outputs)
        listed += len(entries)
    assert listed > 100


def test_one_op_is_asked_for_by_itself() -> None:
    for seed in range(40):
        graph = random_graph(Random(seed))
        schedule = Schedule.of(graph, random_steps(Random(seed), graph))
        entries = recomputations(graph, schedule)
        assert [entry.step for entry in entries] == sorted(entry.step for entry in entries)
        runs = Runs.of(graph, schedule, simulate(graph, schedule))
        assert set(runs.repeated) == {entry.op for entry in entries}
        for op in range(graph.n):
            own = [entry for entry in entries if entry.op == op]
            assert runs.recomputations_of(op) == own and runs.recomputations_of(op, 1) == own[:1]
            assert [schedule.steps[step] for step in runs.steps_of(op)] == [op] * (len(own) + 1)


def test_a_schedule_that_reads_too_early() -> None:
    with pytest.raises(ScheduleError, match="before it is produced"):
        found(by_hand(), [1, 0, 2, 3, 4, 5])
