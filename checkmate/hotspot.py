"""What fills memory at one step of a schedule, and why: by value, by layer and by reason.

The shares add up to the live bytes of ``checkmate.ir.timeline`` exactly: fixed bytes, the op's workspace, every live buffer,
less the outputs that are written over an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph, Phase
from checkmate.ir.schedule import Schedule
from checkmate.ir.timeline import Timeline


class Reason(StrEnum):
    """Why a buffer is live while a step executes."""

    READ_NOW = "read by this op"
    WRITTEN_NOW = "written by this op"
    FOR_BACKWARD = "for the backward pass"
    FOR_FORWARD = "for a later forward op"
    FOR_RECOMPUTATION = "for a recomputation"
    GRADIENT = "gradient on its way"
    RESULT = "result of the step"


FIXED, WORKSPACE, TAKEN_OVER = "parameters, optimizer, inputs", "workspace of this op", "written over an input"


@dataclass(frozen=True)
class Live:
    """One live buffer. ``value`` owns it; ``op`` made it at step ``born``; it lives to step ``last``.

    ``used``: the last step up to now that made or read it; ``next_read``: the next step that reads it, None where none does.
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
    """A part of the live bytes. ``values``: the values in it, largest first; none for what no value owns."""

    name: str
    bytes: int
    values: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Moment:
    """The live memory while ``step`` executes ``op``; ``live``: largest first; all figures in bytes."""

    graph: Graph
    step: int
    op: int
    live_bytes: int
    taken_over_bytes: int
    live: tuple[Live, ...]

    def by_value(self) -> list[Share]:
        """One share per buffer, and what no value owns."""
        shares = [Share(self.graph.values[b.value].name, b.bytes, (b.value,)) for b in self.live]
        return _sorted([*shares, *self._rest()])

    def by_layer(self) -> list[Share]:
        """Buffers by the layer (else the op) that made them."""
        return self._grouped(lambda b: self.graph.ops[b.op].group or self.graph.ops[b.op].name)

    def by_reason(self) -> list[Share]:
        """Buffers by why they are there."""
        return self._grouped(lambda b: b.reason.value)

    def _grouped(self, name_of: Callable[[Live], str]) -> list[Share]:
        groups: dict[str, list[Live]] = {}
        for buffer in self.live:
            groups.setdefault(name_of(buffer), []).append(buffer)
        shares = [
            Share(name, sum(b.bytes for b in part), tuple(b.value for b in part)) for name, part in groups.items()
        ]
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
    """Every read of a schedule: ``step``: int64, ascending; ``owner``: int32, the value whose buffer is read."""

    step: NDArray[np.int64]
    owner: NDArray[np.int32]

    @classmethod
    def of(cls, graph: Graph, schedule: Schedule) -> Uses:
        """The reads of produced values."""
        step, value = graph.op_inputs.gather(schedule.steps)
        return cls(step, graph.owner[value])

    def next_after(self, step: int) -> dict[int, int]:
        """Owner → the first step after ``step`` that reads it."""
        start = int(np.searchsorted(self.step, step, side="right"))
        owners, first = np.unique(self.owner[start:], return_index=True)
        return dict(zip(owners.tolist(), self.step[start + first].tolist(), strict=True))

    def last_until(self, step: int) -> dict[int, int]:
        """Owner → the last step up to and with ``step`` that reads it."""
        end = int(np.searchsorted(self.step, step, side="right"))
        owners, first = np.unique(self.owner[:end][::-1], return_index=True)
        return dict(zip(owners.tolist(), self.step[end - 1 - first].tolist(), strict=True))


def moment(graph: Graph, schedule: Schedule, timeline: Timeline, step: int, uses: Uses | None = None) -> Moment:
    """What is live while step ``step`` (0 for the first) of ``schedule`` executes; ``timeline``, ``uses``: the schedule's own.

    Raises:
        IndexError: the schedule has no such step.
    """
    if not 0 <= step < len(schedule.steps):
        raise IndexError(f"step {step} of {len(schedule.steps)}")
    uses = uses or Uses.of(graph, schedule)
    coming, gone = uses.next_after(step), uses.last_until(step)
    first = schedule.first_occurrence
    live = []
    for buffer in timeline.alive_at(step):
        read = coming.get(buffer.value)
        if read is not None and read > buffer.last:
            read = None  # of a later copy
        used = max(buffer.born, gone.get(buffer.value, -1))
        op = int(graph.producer[buffer.value])
        if buffer.born == step or used == step:
            reason = Reason.WRITTEN_NOW if buffer.born == step else Reason.READ_NOW
        elif read is None:
            reason = Reason.RESULT
        else:
            reason = _reason(graph.ops[op].phase, graph.ops[int(schedule.steps[read])].phase, bool(first[read]))
        live.append(Live(buffer.value, buffer.bytes, op, buffer.born, buffer.last, used, read, reason))
    op = int(schedule.steps[step])
    return Moment(graph, step, op, int(timeline.live_bytes[step]), int(timeline.taken_over[step]), tuple(live))


def _reason(made: Phase, read: Phase, first_run: bool) -> Reason:
    """Why it is kept, from who made it and who reads it next."""
    late = (Phase.BACKWARD, Phase.UPDATE)
    if not first_run:
        return Reason.FOR_RECOMPUTATION
    if made in late:
        return Reason.GRADIENT
    return Reason.FOR_BACKWARD if read in late else Reason.FOR_FORWARD
