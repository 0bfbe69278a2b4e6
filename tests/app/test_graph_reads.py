"""What the boxes of the training graph say, and where they stand."""

from __future__ import annotations

import pytest

from app.layout.folded import Folding
from app.presenters.memory_curve import live_bytes
from tests.app.windows import exploration_of
from tests.generated_graphs import random_dag, training_dag


@pytest.mark.parametrize("seed", range(12))
def test_the_numbers_of_the_boxes_and_the_fixed_bytes_are_the_live_bytes(seed: int) -> None:
    graph = random_dag(seed, 30, extras=True) if seed % 3 else training_dag(seed, 20)
    exploration = exploration_of(graph)
    folding, shown = Folding(graph), exploration.shown
    for opened in (folding.opened_by_default(4), folding.opened_by_default(30)):
        layout = folding.layout(opened)
        for step in range(len(shown.schedule.steps)):
            numbers = live_bytes(layout, shown, step)
            assert numbers.min() >= 0
            assert numbers.sum() + graph.fixed_bytes == shown.timeline.live_bytes[step], step
