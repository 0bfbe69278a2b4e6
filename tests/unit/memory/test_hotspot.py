from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkmate.ir import Graph, GraphBuilder, Phase, Schedule
from checkmate.memory.hotspot import FIXED, Reason, moment
from checkmate.memory.simulate import simulate
from tests.graphs_strategies import random_graph, random_steps


def moments(graph: Graph, steps: list[int]):
    schedule = Schedule.of(graph, steps)
    timeline = simulate(graph, schedule)
    return [moment(graph, schedule, timeline, at) for at in range(len(steps))], timeline


def test_shares_add_up_to_the_live_bytes_at_every_step_of_random_schedules() -> None:
    seen = set()
    for seed in range(150):
        graph = random_graph(Random(seed))
        steps = random_steps(Random(seed), graph)
        found, timeline = moments(graph, steps)
        for at, now in enumerate(found):
            for shares in (now.by_value(), now.by_layer(), now.by_reason()):
                assert sum(share.bytes for share in shares) == timeline.live_bytes[at] == now.live_bytes
                assert [share.bytes for share in shares] == sorted((s.bytes for s in shares), reverse=True)
            for buffer in now.live:
                assert buffer.born <= buffer.used <= at <= buffer.last
                assert buffer.next_read is None or at < buffer.next_read <= buffer.last
                seen.add(buffer.reason)
    assert {
        Reason.READ_NOW,
        Reason.WRITTEN_NOW,
        Reason.FOR_FORWARD,
        Reason.RESULT,
        Reason.FOR_RECOMPUTATION,
    } <= seen


def step_of_training() -> Graph:
    """Build f0 → f1 → f2, and back. b2 reads a1; b1 reads a0 and g2; the last gradient is kept."""
    builder = GraphBuilder("step")
    a = [builder.value(f"a{i}", 10 + i) for i in range(3)]
    g2, g1 = builder.value("g2", 5), builder.value("g1", 6, keep=True)
    w = builder.value("w", 3, keep=True)
    builder.op("f0", [], [a[0]], group="first")
    builder.op("f1", [a[0]], [a[1]], group="second")
    builder.op("f2", [a[1]], [a[2]], group="third")
    builder.op("b2", [a[2], a[1]], [g2, w], phase=Phase.BACKWARD, group="third", workspace_bytes=2)
    builder.op("b1", [g2, a[0]], [g1], phase=Phase.BACKWARD, group="second")
    return builder.build(fixed_bytes=7)


def test_reasons_follow_from_who_reads_next() -> None:
    graph = step_of_training()

    def reasons(steps: list[int], at: int) -> dict[str, Reason]:
        now = moments(graph, steps)[0][at]
        return {graph.values[buffer.value].name: buffer.reason for buffer in now.live}

    plain = list(range(5))
    assert reasons(plain, 2) == {"a0": Reason.FOR_BACKWARD, "a1": Reason.READ_NOW, "a2": Reason.WRITTEN_NOW}
    assert reasons(plain, 4)["w"] is Reason.RESULT
    again = [0, 1, 2, 0, 3, 4]  # a0 is dropped and made again, before b2
    assert "a0" not in reasons(again, 2)
    assert reasons(again, 4)["a0"] is Reason.FOR_BACKWARD
    twice = [0, 1, 1, 2, 3, 4]
    assert reasons(twice, 1)["a0"] is Reason.READ_NOW
    held = [0, 1, 2, 3, 1, 4]  # a1 is made again from a0, which is therefore kept for it
    assert reasons(held, 2)["a0"] is Reason.FOR_RECOMPUTATION
    late = [0, 1, 2, 3, 0, 4]
    assert reasons(late, 4)["g2"] is Reason.GRADIENT


def test_layers_and_what_no_value_owns() -> None:
    now = moments(step_of_training(), list(range(5)))[0][3]
    layers = {share.name: share.bytes for share in now.by_layer()}
    assert layers == {"third": 12 + 5 + 3, "second": 11, "first": 10, FIXED: 7, "workspace of this op": 2}
    assert [share.name for share in now.by_value()][:3] == ["a2", "a1", "a0"]


def test_there_is_no_step_after_the_last() -> None:
    graph = step_of_training()
    schedule = Schedule.of(graph, np.arange(5))
    with pytest.raises(IndexError, match="step 5 of 5"):
        moment(graph, schedule, simulate(graph, schedule), 5)
