"""Show buffers in the allocator's memory as blocks over steps; no Qt. The groups and their colours are those
of the tensor bands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from app.presenters.bands import NOTHING, Bands
from app.presenters.view_tables import ViewTable
from app.presenters.wording import short_name
from app.state.knowledge import ListedSchedule
from checkmate.memory.placement import FIXED, WORKSPACE, Placement
from checkmate.units import format_bytes, plural

ORIGIN = "estimated: replica of TensorFlow's BFC allocator"
ON_CPU = "On a CPU, TensorFlow uses that allocator only with TF_CPU_ALLOCATOR_USE_BFC=true."
_LEAST_PIXELS = 1.0  # a lower block is drawn together with those beside it
_FILLED = 0.5  # of a pixel: what low blocks must fill together to be drawn
_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlacedBlocks:
    """The blocks of a placement, sorted by address.

    Attributes:
        bands: the same buffers as bands, whose groups these are.
        placement: where the chunks are.
        order: int64[k], the placement's blocks in the order of their addresses.
    """

    bands: Bands
    placement: Placement
    order: _Ints

    @classmethod
    def of(cls, bands: Bands, placement: Placement) -> PlacedBlocks:
        return cls(bands, placement, np.lexsort((placement.born, placement.address)))

    @property
    def shown(self) -> ListedSchedule:
        return self.bands.shown

    @property
    def count(self) -> int:
        return len(self.order)

    @property
    def groups(self) -> tuple[str, ...]:
        return self.bands.groups

    @cached_property
    def buffer(self) -> _Ints:
        return self.placement.buffer[self.order]

    @cached_property
    def group(self) -> _Ints:
        of_buffer = np.zeros(self.bands.count + 2, np.int64)
        of_buffer[self.bands.buffer] = self.bands.group
        of_buffer[WORKSPACE], of_buffer[FIXED] = len(self.groups) - 2, len(self.groups) - 1
        return of_buffer[self.buffer]

    @cached_property
    def values(self) -> _Ints:
        """Return the value in each block; -1 for what is no value."""
        of_buffer = np.append(self.shown.timeline.buffer_value.astype(np.int64), [-1, -1])
        return of_buffer[self.buffer]

    def owners(self, steps: _Ints, height: int, top: float, bottom: float = 0.0) -> _Ints:
        """Return which block each pixel belongs to, int64[steps, height].

        ``steps`` ascend. The first pixel of each is at the bottom. ``bottom`` and ``top`` are the addresses
        at the lower and the upper edge. What is free is NOTHING. Where low blocks fill half of a pixel
        together, it is ``count`` and the group that fills most of it.
        """
        place, order = self.placement, self.order
        scale = height / (top - bottom)
        begins = place.address[order].astype(np.float64)
        low = (begins - bottom) * scale
        high = (begins + place.chunk[order] - bottom) * scale
        first = np.searchsorted(steps, place.born[order])
        end = np.searchsorted(steps, place.last[order], side="right")
        seen = (first < end) & (high > 0) & (low < height)
        large = seen & (high - low >= _LEAST_PIXELS)
        found = np.full((len(steps), height), NOTHING, np.int64)
        self._fill_low(found, np.flatnonzero(seen & ~large), (first, end), (low, high))
        for block in np.flatnonzero(large).tolist():
            rows = slice(max(0, round(low[block])), max(0, round(high[block])))
            found[first[block] : end[block], rows] = block
        return found

    def _fill_low(
        self, found: _Ints, some: _Ints, steps: tuple[_Ints, _Ints], ends: tuple[NDArray[np.float64], ...]
    ) -> None:
        columns, height = found.shape
        row = np.clip(((ends[0] + ends[1]) / 2).astype(np.int64), 0, height - 1)
        best = np.zeros((columns, height))
        total = np.zeros((columns, height))
        for group in sorted(set(self.group[some].tolist())):
            part = some[self.group[some] == group]
            size = (ends[1] - ends[0])[part]
            change = np.zeros((columns + 1, height))
            np.add.at(change, (steps[0][part], row[part]), size)
            np.subtract.at(change, (steps[1][part], row[part]), size)
            filled = np.cumsum(change, axis=0)[:columns]
            found[filled > best + 1e-9] = self.count + group
            best, total = np.maximum(best, filled), total + filled
        found[total < _FILLED] = NOTHING

    def words(self, owner: int) -> str:
        """Say what a block is: its bytes, its address, and from when to when."""
        if owner >= self.count:
            return f"{self.groups[owner - self.count]}: small blocks"
        if owner == NOTHING:
            return "free"
        place, block = self.placement, int(self.order[owner])
        asked, chunk = int(place.asked[block]), int(place.chunk[block])
        where = f"at address {format_bytes(int(place.address[block]))}"
        if format_bytes(asked) != format_bytes(chunk):
            where += f", in a chunk of {format_bytes(chunk)}"
        buffer, last = int(place.buffer[block]), int(place.last[block])
        if buffer == FIXED:
            return f"{format_bytes(asked)} · {self.groups[-1]}\n{where}\nthere before the step and after it"
        if buffer == WORKSPACE:
            op = self.shown.graph.ops[int(self.shown.schedule.steps[last])]
            return (
                f"{format_bytes(asked)} · workspace of {short_name(op.name)}\n{where}\nin step {last + 1:,}"
            )
        words = f"{self.bands.words(int(self._band_of[buffer]))}\n{where}"
        if last < min(int(self.shown.timeline.buffer_last[buffer]), len(self.shown.schedule.steps) - 1):
            words += f"\nwritten over in step {last + 2:,}"
        return words

    @cached_property
    def _band_of(self) -> _Ints:
        of_buffer = np.zeros(self.bands.count, np.int64)
        of_buffer[self.bands.buffer] = np.arange(self.bands.count)
        return of_buffer

    def free_words(self, step: int) -> str:
        """Say how much is free while a step runs, and in how many chunks."""
        place = self.placement
        free, chunks = place.free_bytes(step), int(place.free_chunks[step])
        taken = f"step {step + 1:,}: {format_bytes(int(place.requested[step]))} requested"
        taken += f", {format_bytes(int(place.allocated[step]))} in chunks"
        if not free or not chunks:
            return f"{taken}\nnothing is free below the top"
        if chunks == 1:
            return f"{taken}\nfree: {format_bytes(free)} in one chunk"
        split = f"{format_bytes(free)} in {plural(chunks, 'chunk')}"
        return f"{taken}\nfree but split: {split}, the largest {format_bytes(int(place.largest_free[step]))}"

    def value_of(self, owner: int) -> int:
        """Return the value in a block; -1 for what is no single value."""
        return int(self.values[owner]) if 0 <= owner < self.count else -1

    def op_of(self, owner: int) -> int:
        """Return the op that writes a block; -1 for what no op writes."""
        value = self.value_of(owner)
        if value >= 0:
            return int(self.shown.graph.producer[value])
        if 0 <= owner < self.count and self.buffer[owner] == WORKSPACE:
            return int(self.shown.schedule.steps[self.placement.born[self.order[owner]]])
        return -1

    def table(self) -> ViewTable:
        place, graph, steps = self.placement, self.shown.graph, self.shown.schedule.steps
        rows = []
        for block, value in zip(self.order.tolist(), self.values.tolist(), strict=True):
            if value >= 0:
                kind, name = "value", graph.values[value].name
            else:
                scratch = int(place.buffer[block]) == WORKSPACE
                op = graph.ops[int(steps[place.born[block]])]
                kind, name = ("workspace", op.name) if scratch else ("fixed", "")
            figures = (place.address, place.chunk, place.asked, place.born + 1, place.last + 1)
            rows.append((kind, name, *(int(figure[block]) for figure in figures)))
        return ViewTable.of("kind; name; address; chunk_bytes; bytes; first_step; last_step", rows)
