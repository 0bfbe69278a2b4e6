"""What fills memory at one step of a schedule: by value, layer and reason.

The shares add up exactly to the live bytes of ``checkmate.ir.timeline``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Schedule, Timeline


class Reason(StrEnum):
    READ_NOW = "read by this op"
    WRITTEN_NOW = "written by this op"
    FOR_BACKWARD = "for the backward pass"
    FOR_FORWARD = "for a later forward op"
    FOR_RECOMPUTATION = "for a recomputation"
    GRADIENT = "gradient on its way"
    RESULT = "result of the step"


REASONS = tuple(Reason)
FIXED, WORKSPACE, TAKEN_OVER = (
    "parameters, optimizer, inputs",
    "workspace of this op",
    "written over an input",
)


@dataclass(frozen=True)
class LiveBuffer:
    """A live buffer of ``value``, made by ``op`` at step ``born``, live to step ``last``.

    ``used``: the last step so far that made or read it; ``next_read``: the next that reads it, None if none
    does.
    """

    value: int
    bytes: int
    op: int
    born: int
    last: int
    used: int
    next_read: int | None
    reason: Reason


@dataclass(frozen=True)
class Share:
    """A part of the live bytes; ``values`` in it, largest first, none for bytes that no value owns."""

    name: str
    bytes: int
    values: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Moment:
    """The live memory in bytes while ``step`` executes ``op``.

    The arrays have one entry per live buffer, largest first, as in ``LiveBuffer``; ``next_read`` is -1 for
    none, ``reason`` an index into ``REASONS``.
    """

    graph: Graph
    step: int
    op: int
    live_bytes: int
    taken_over_bytes: int
    value: NDArray[np.int32]
    bytes: NDArray[np.int64]
    born: NDArray[np.int64]
    last: NDArray[np.int64]
    used: NDArray[np.int64]
    next_read: NDArray[np.int64]
    reason: NDArray[np.int64]

    @cached_property
    def live(self) -> tuple[LiveBuffer, ...]:
        makers = self.graph.producer[self.value]
        columns = (
            self.value,
            self.bytes,
            makers,
            self.born,
            self.last,
            self.used,
            self.next_read,
            self.reason,
        )
        return tuple(
            LiveBuffer(value, size, op, born, last, used, read if read >= 0 else None, REASONS[reason])
            for value, size, op, born, last, used, read, reason in zip(
                *(c.tolist() for c in columns), strict=True
            )
        )

    def by_value(self) -> list[Share]:
        """One share per buffer, and one for each part that no value owns."""
        names = self.graph.values
        shares = [
            Share(names[v].name, b, (v,))
            for v, b in zip(self.value.tolist(), self.bytes.tolist(), strict=True)
        ]
        return _sorted([*shares, *self._rest()])

    def by_layer(self) -> list[Share]:
        """The buffers by the layer, or else the op, that made them."""
        ops = self.graph.ops
        return self._grouped(
            [ops[op].group or ops[op].name for op in self.graph.producer[self.value].tolist()]
        )

    def by_reason(self) -> list[Share]:
        return self._grouped([REASONS[reason].value for reason in self.reason.tolist()])

    def _grouped(self, names: Sequence[str]) -> list[Share]:
        sums: dict[str, int] = {}
        values: dict[str, list[int]] = {}
        for name, value, size in zip(names, self.value.tolist(), self.bytes.tolist(), strict=True):
            sums[name] = sums.get(name, 0) + size
            values.setdefault(name, []).append(value)
        shares = [Share(name, size, tuple(values[name])) for name, size in sums.items()]
        return _sorted([*shares, *self._rest()])

    def _rest(self) -> list[Share]:
        own = (
            Share(FIXED, self.graph.fixed_bytes),
            Share(WORKSPACE, self.graph.ops[self.op].workspace_bytes),
            Share(TAKEN_OVER, -self.taken_over_bytes),
        )
        return [share for share in own if share.bytes]


def _sorted(shares: Iterable[Share]) -> list[Share]:
    return sorted((share for share in shares if share.bytes), key=lambda share: -share.bytes)


@dataclass(frozen=True, eq=False)
class Uses:
    """Every read of a schedule: ``step`` int64, ascending; ``owner`` int32, whose buffer is read."""

    step: NDArray[np.int64]
    owner: NDArray[np.int32]

    @classmethod
    def of(cls, graph: Graph, schedule: Schedule) -> Uses:
        step, value = graph.op_inputs.gather(schedule.steps)
        return cls(step, graph.owner[value])


def _last_written(owner: NDArray[np.int32], step: NDArray[np.int64], m: int) -> NDArray[np.int64]:
    """Return, per value, the last of its steps, -1: none; numpy assigns repeated indices in order."""
    found = np.full(m, -1, np.int64)
    found[owner] = step
    return found


def moment(
    graph: Graph, schedule: Schedule, timeline: Timeline, step: int, uses: Uses | None = None
) -> Moment:
    """Return what is live while step ``step`` (from 0) of ``schedule`` executes.

    Raises:
        IndexError: the schedule has no such step.
    """
    if not 0 <= step < len(schedule.steps):
        raise IndexError(f"step {step} of {len(schedule.steps)}")
    uses = uses or Uses.of(graph, schedule)
    (hits,) = np.nonzero((timeline.buffer_born <= step) & (step <= timeline.buffer_last))
    hits = hits[np.argsort(-timeline.buffer_bytes[hits], kind="stable")]
    value, born, last = timeline.buffer_value[hits], timeline.buffer_born[hits], timeline.buffer_last[hits]
    later = int(np.searchsorted(uses.step, step, side="right"))  # the first read after this step
    read = _last_written(uses.owner[later:][::-1], uses.step[later:][::-1], graph.m)[value]
    read[read > last] = -1  # that step reads a later copy
    used = np.maximum(born, _last_written(uses.owner[:later], uses.step[:later], graph.m)[value])
    reader = schedule.steps[read]  # arbitrary where ``read`` is -1
    cases = (
        (born == step, Reason.WRITTEN_NOW),
        (used == step, Reason.READ_NOW),
        (read < 0, Reason.RESULT),
        (~schedule.first_occurrence[read], Reason.FOR_RECOMPUTATION),
        (graph.late[graph.producer[value]], Reason.GRADIENT),
        (graph.late[reader], Reason.FOR_BACKWARD),
    )
    reason = np.select(
        [case for case, _ in cases],
        [REASONS.index(which) for _, which in cases],
        REASONS.index(Reason.FOR_FORWARD),
    )
    sizes, op = timeline.buffer_bytes[hits], int(schedule.steps[step])
    live, taken = int(timeline.live_bytes[step]), int(timeline.taken_over[step])
    return Moment(graph, step, op, live, taken, value, sizes, born, last, used, read, reason)
