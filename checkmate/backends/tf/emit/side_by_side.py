"""Which steps of a schedule may run side by side on a CPU without more memory than the schedule's peak.

TensorFlow runs ops that do not read each other on several threads at once. A plain step gains from that; ops
that each wait for the one before do not. So a step waits only until what may still run beside it fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from checkmate.backends.tf.devices import Kernels
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.loops import is_loop, iteration_bytes
from checkmate.ir import Schedule, Timeline
from checkmate.memory.simulate import simulate

_SHARE_OF_PEAK = 0.98  # small and light ops, which are not in the graph's bytes, need the rest


@dataclass(frozen=True)
class SideBySide:
    """``waits_for[i]``: how many of the schedule's first steps end before step ``i`` starts; it never falls.

    ``iterations[i]``: how many iterations of its loops may run at once.
    """

    waits_for: tuple[int, ...]
    iterations: tuple[int, ...]


def one_by_one(schedule: Schedule) -> SideBySide:
    count = len(schedule.steps)
    return SideBySide(tuple(range(count)), (1,) * count)


def side_by_side(folded: FoldedStep, schedule: Schedule) -> SideBySide:
    """Return what may run at once within nearly all of the schedule's peak."""
    graph, steps = folded.graph, schedule.steps.tolist()
    if folded.in_turn or graph.device_kind != "cpu":  # a GPU runs one kernel after another
        return one_by_one(schedule)
    timeline = simulate(graph, schedule)
    most = int(_SHARE_OF_PEAK * timeline.peak_bytes)
    loops = [_Loops.of(folded, node) for node in steps]
    further = np.array([each.iteration_bytes for each in loops], np.int64)
    room = np.maximum(most - timeline.live_bytes, 0) // np.maximum(further, 1)
    iterations: NDArray[np.int64] = np.minimum(1 + room, [each.iterations for each in loops])
    made: NDArray[np.int64] = made_bytes(timeline) + (iterations - 1) * further
    return SideBySide(waits_within(most, timeline, made), tuple(iterations.tolist()))


def runs_side_by_side(folded: FoldedStep, schedule: Schedule) -> bool:
    return side_by_side(folded, schedule) != one_by_one(schedule)


def in_turn(folded: FoldedStep) -> FoldedStep:
    return replace(folded, in_turn=True)


def made_bytes(timeline: Timeline) -> NDArray[np.int64]:
    """Return int64[steps], the bytes that each step allocates if it takes over no input."""
    before = np.append(timeline.fixed_bytes, timeline.after_bytes[:-1])
    made: NDArray[np.int64] = timeline.live_bytes + timeline.taken_over - before
    return made


def waits_within(most: int, timeline: Timeline, made: NDArray[np.int64]) -> tuple[int, ...]:
    """Return ``SideBySide.waits_for`` such that steps that may run at once need at most ``most`` bytes.

    Once the first ``k`` steps have ended, and while steps ``k`` to ``i`` may run in any order, the live bytes
    are at most those left by step ``k - 1`` plus all that steps ``k`` to ``i`` allocate. ``made``:
    int64[steps], what each step allocates.
    """
    left = [timeline.fixed_bytes, *timeline.after_bytes.tolist()]
    before = [0, *np.cumsum(made).tolist()]
    found: list[int] = []
    ended = 0
    for step in range(len(made)):
        while ended < step and left[ended] + before[step + 1] - before[ended] > most:
            ended += 1
        found.append(ended)
    return tuple(found)


@dataclass(frozen=True)
class _Loops:
    """The loops of a node. ``iterations``: the most that may run at once, as traced
    (``parallel_iterations``). ``iteration_bytes``: what each further concurrent iteration may hold."""

    iterations: int = 1
    iteration_bytes: int = 0

    @classmethod
    def of(cls, folded: FoldedStep, node: int) -> _Loops:
        loops = [op for op in (folded.structure.ops[member] for member in folded.nodes[node]) if is_loop(op)]
        if not loops:
            return cls()
        kernels = Kernels(folded.graph.metadata["kernels"])
        return cls(
            min(op.get_attr("parallel_iterations") for op in loops),
            sum(iteration_bytes(op, kernels) for op in loops),
        )
