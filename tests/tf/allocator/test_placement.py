"""Test that the window's picture of the allocator is near the replay.

The replay has each op of the emitted step.
"""

from __future__ import annotations

import numpy as np
import pytest

from checkmate.backends.tf.allocator.learn import learned_workspace, with_workspace
from checkmate.backends.tf.allocator.predict import predicted_allocated
from checkmate.ir.schedule import Schedule
from checkmate.memory.placement import place
from checkmate.memory.simulate import simulate
from tests.tf.allocator.test_replay import folded_zoo, marked, traced

OTHERS = marked(pytest.mark.long, "unet_small", "encoder", "gpt", "lstm", "gru", "mobilenetv2")
_NEAR = 0.12  # 0.1 was found; parameters that move when they are updated are not followed


@pytest.mark.parametrize("name", ["two_io", *OTHERS])
def test_chunks_are_nearly_those_of_the_emitted_step(name: str) -> None:
    folded = folded_zoo(name)
    steps = list(range(folded.graph.n))
    graph = with_workspace(folded.graph, learned_workspace(folded, traced(folded, steps, runs=2)))
    schedule = Schedule.of(graph, np.array(steps))
    placed = place(graph, schedule, simulate(graph, schedule))
    assert placed is not None
    before = [(number, size) for number, size in enumerate(graph.fixed.values(), 1) if size]
    assert placed.allocated.max() == pytest.approx(
        predicted_allocated(folded, graph, steps, before), rel=_NEAR
    )
