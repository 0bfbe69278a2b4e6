"""What the replica of TensorFlow's allocator says of a traced step's schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.backends.tf.allocator.predict import before_steps, predicted_allocated
from checkmate.backends.tf.allocator.replay import requests_of_step
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.step_requests import InitialAllocations, StepRequests


@dataclass(frozen=True, eq=False)
class AllocatorReplica:
    """Predicts what the allocator's meter shows for schedules of one step. ``history``: what the allocator is
    asked for before the first step: (handle, bytes). ``surplus``: the share by which the meter is taken to
    show more than is predicted.
    """

    folded: FoldedStep
    history: Sequence[tuple[int, int]]
    surplus: float = 0.0

    @property
    def graph(self) -> Graph:
        return self.folded.graph

    def predicted(self, steps: Sequence[int]) -> int:
        shown = predicted_allocated(self.folded, self.graph, list(steps), self.history)
        return int((1 + self.surplus) * shown)

    def requests(self, steps: Sequence[int]) -> StepRequests:
        return requests_of_step(self.folded, self.graph, steps)

    def before(self, steps: Sequence[int]) -> InitialAllocations:
        return before_steps(self.folded, self.graph, Schedule.of(self.graph, list(steps)), self.history)
