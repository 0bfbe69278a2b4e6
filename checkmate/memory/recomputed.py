"""Why each recomputed value did not stay in memory.

Had it stayed, its bytes would have been live at every step from its last read to the recomputation. The
fullest of these steps is where they were needed.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Schedule, Timeline
from checkmate.memory.simulate import simulate


@dataclass(frozen=True)
class Recomputation:
    """One run of an op that is not its first; steps count from 0, and None says that there is no such step.

    ``before`` is the run before it. ``freed_after`` is the last step at which what that run made was in
    memory, and ``bytes`` is its size (0 for a view). ``read_at`` is the first step that reads what ``step``
    makes, and ``reader`` its op. ``fullest_step`` has the most live bytes, ``fullest_bytes``, of the steps
    without the value.
    """

    op: int
    step: int
    before: int
    freed_after: int
    bytes: int
    read_at: int | None
    reader: int | None
    fullest_step: int | None
    fullest_bytes: int | None


def recomputations(graph: Graph, schedule: Schedule) -> list[Recomputation]:
    """Return the recomputations of a valid ``schedule``, by rising step."""
    runs = Runs.of(graph, schedule, simulate(graph, schedule))
    found = [again for op in runs.repeated for again in runs.recomputations_of(op)]
    return sorted(found, key=lambda again: again.step)


@dataclass(frozen=True, eq=False)
class Runs:
    """The steps of a schedule, sorted so that one op's are found at once.

    ``by_op``: all steps, op by op; those of ``op`` begin at ``first[op]``. ``by_birth``: the timeline's
    buffers, by the step that made them; those of ``step`` begin at ``first_made[step]``.
    """

    graph: Graph
    steps: NDArray[np.int64]
    timeline: Timeline
    by_op: NDArray[np.int64]
    first: NDArray[np.int64]
    by_birth: NDArray[np.int64]
    first_made: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph, schedule: Schedule, timeline: Timeline) -> Self:
        steps = schedule.steps.astype(np.int64)
        by_op, by_birth = (np.argsort(keys, kind="stable") for keys in (steps, timeline.buffer_born))
        first = np.searchsorted(steps[by_op], np.arange(graph.n + 1))
        first_made = np.searchsorted(timeline.buffer_born[by_birth], np.arange(len(steps) + 1))
        return cls(graph, steps, timeline, by_op, first, by_birth, first_made)

    @property
    def repeated(self) -> list[int]:
        found: list[int] = np.flatnonzero(np.diff(self.first) > 1).tolist()
        return found

    def steps_of(self, op: int) -> list[int]:
        found: list[int] = self.by_op[self.first[op] : self.first[op + 1]].tolist()
        return found

    def freed_after(self, step: int) -> int:
        """Return the last step at which an output of ``step`` is in memory; past the end if one is kept."""
        made = self.by_birth[self.first_made[step] : self.first_made[step + 1]]
        last: list[int] = self.timeline.buffer_last[made].tolist()
        return max([step, *last])

    def reads_of(self, op: int) -> list[int]:
        """Return the steps that read what ``op`` makes."""
        made = self.graph.ops[op].outputs
        readers = {reader for value in made for reader in self.graph.value_readers[value].tolist()}
        return sorted(step for reader in readers for step in self.steps_of(reader))

    def recomputations_of(self, op: int, most: int | None = None) -> list[Recomputation]:
        runs, reads = self.steps_of(op), self.reads_of(op)
        nexts = [*runs[1:], len(self.steps)]
        found = []
        for before, step, until in list(zip(runs, runs[1:], nexts[1:], strict=False))[:most]:
            after = bisect.bisect_left(reads, step)
            read_at = reads[after] if after < len(reads) and reads[after] < until else None
            found.append(self._recomputation(before, step, read_at))
        return found

    def _recomputation(self, before: int, step: int, read_at: int | None) -> Recomputation:
        made = self.by_birth[self.first_made[before] : self.first_made[before + 1]]
        freed_after = self.freed_after(before)
        without = self.timeline.live_bytes[freed_after + 1 : step]
        fullest = int(np.argmax(without)) if len(without) else None
        return Recomputation(
            op=int(self.steps[step]),
            step=step,
            before=before,
            freed_after=freed_after,
            bytes=int(self.timeline.buffer_bytes[made].sum()),
            read_at=read_at,
            reader=None if read_at is None else int(self.steps[read_at]),
            fullest_step=None if fullest is None else freed_after + 1 + fullest,
            fullest_bytes=None if fullest is None else int(without[fullest]),
        )
