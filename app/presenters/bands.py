"""A step's buffers as areas over the steps: stacked in bands, or at their addresses in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.layout.grouping import group_tree
from app.presenters.view_tables import ViewTable
from app.presenters.wording import short_name
from app.state.knowledge import ListedSchedule
from checkmate.ir import Graph
from checkmate.memory.hotspot import FIXED, Reason
from checkmate.memory.placement import FIXED as FIXED_BUFFER
from checkmate.memory.placement import WORKSPACE, Placement
from checkmate.units import format_bytes, plural

MOST_GROUPS = 5  # the number of colours; all further layers share one group
_OTHERS = "other layers"
_LEAST_PIXELS = 0.5  # thinner bands of a group are drawn as one
NOTHING = -1


class Grouping(StrEnum):
    LAYER = "layer"
    KIND = "kind"
    DTYPE = "dtype"
    REASON = "reason"


@dataclass(frozen=True, eq=False)
class Bands:
    """The buffers of a schedule in the order that they are stacked, from the bottom to the top.

    ``buffer``: int64[k], their numbers in the timeline. ``group``: int64[k]. ``groups``: names; the last two
    are the workspace and what is fixed. ``parts``: the part of the model that each layer belongs to; empty
    unless they are grouped by that."""

    shown: ListedSchedule
    buffer: NDArray[np.int64]
    group: NDArray[np.int64]
    groups: tuple[str, ...]
    parts: Mapping[str, str]

    @classmethod
    def of(cls, shown: ListedSchedule, grouping: Grouping, before: Bands | None = None) -> Bands:
        """``before``: bands of any schedule, whose parts are reused for the same graph."""
        parts: Mapping[str, str] = {}
        if grouping is Grouping.LAYER:
            if before is not None and before.shown.graph is shown.graph:
                parts = before.parts
            parts = parts or _parts_of(shown.graph)
        timeline, steps = shown.timeline, len(shown.schedule.steps)
        age = np.minimum(timeline.buffer_last, steps - 1) - timeline.buffer_born + 1
        names, group = _grouped(shown, grouping, parts, timeline.buffer_bytes * age)
        order = np.lexsort((-age, group))
        return cls(shown, order, group[order], (*names, "workspace", FIXED), parts)

    @property
    def count(self) -> int:
        return len(self.buffer)

    @cached_property
    def bytes(self) -> NDArray[np.int64]:
        return self.shown.timeline.buffer_bytes[self.buffer]

    @cached_property
    def born(self) -> NDArray[np.int64]:
        return self.shown.timeline.buffer_born[self.buffer]

    @cached_property
    def last(self) -> NDArray[np.int64]:
        return self.shown.timeline.buffer_last[self.buffer]

    @cached_property
    def values(self) -> NDArray[np.int64]:
        return self.shown.timeline.buffer_value[self.buffer].astype(np.int64)

    def owners(
        self, steps: NDArray[np.int64], height: int, top: float, bottom: float = 0.0
    ) -> NDArray[np.int64]:
        """Which band each pixel belongs to, int64[steps, height]. ``steps`` ascend; the first pixel of each
        is at the bottom. ``bottom`` and ``top`` are the bytes at the lower and the upper edge. A pixel above
        the stack is NOTHING; ``count + g`` stands for the merged thin bands of group ``g``, or all of it."""
        column, rank, size, owner = self._parts(steps, (top - bottom) * _LEAST_PIXELS / height)
        order = np.argsort(column * (2 * self.count + 2 * len(self.groups)) + rank, kind="stable")
        column, size, owner = column[order], size[order], owner[order]
        above = np.cumsum(size)
        begins = np.searchsorted(column, np.arange(len(steps)))
        above -= (above - size)[begins][column]  # every column begins at zero
        edges = np.clip(np.rint((above - bottom) / (top - bottom) * height), 0, height).astype(np.int64)
        below = np.concatenate([[0], edges[:-1]])
        below[begins] = 0
        totals = edges[np.append(begins[1:], len(edges)) - 1]
        found = np.full((len(steps), height), NOTHING, np.int64)
        found[np.arange(height)[None, :] < totals[:, None]] = np.repeat(owner, edges - below)
        return found

    def _parts(self, steps: NDArray[np.int64], least: float) -> tuple[NDArray[np.int64], ...]:
        first, end = np.searchsorted(steps, self.born), np.searchsorted(steps, self.last, side="right")
        high = (self.bytes >= least) & (first < end)
        band = np.repeat(np.flatnonzero(high), (end - first)[high])
        starts = np.cumsum((end - first)[high]) - (end - first)[high]
        column = np.arange(len(band)) - np.repeat(starts - first[high], (end - first)[high])
        size = self._less_taken_over(steps, column, band)
        every, groups = np.arange(len(steps)), len(self.groups)
        # A group's low bands are drawn as one, above its other bands.
        ends = np.searchsorted(self.group, np.arange(groups - 2), side="right")
        parts: list[tuple[Any, ...]] = [(column, 2 * band + 2, size, band)]
        for group in range(groups - 2):
            low = ~high & (self.group == group) & (first < end)
            begun, gone = (
                np.bincount(at[low], weights=self.bytes[low], minlength=len(steps) + 1) for at in (first, end)
            )
            heights = np.cumsum(begun - gone)[: len(steps)].astype(np.int64)
            parts.append((every, 2 * ends[group] + 1, heights, self.count + group))
        workspace = self.shown.graph.workspace_bytes[self.shown.schedule.steps[steps]]
        parts.append((every, 2 * self.count + 3, workspace, self.count + groups - 2))
        parts.append((every, 0, self.shown.timeline.fixed_bytes, self.count + groups - 1))
        return tuple(
            np.concatenate([np.broadcast_to(part[i], part[0].shape) for part in parts]) for i in range(4)
        )

    def _less_taken_over(
        self, steps: NDArray[np.int64], column: NDArray[np.int64], band: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return each band's height in its column. Where an op writes over its input, both buffers are live,
        but share memory: the shared bytes are subtracted from the new band, else from the ending one."""
        size = self.bytes[band].copy()
        taken = self.shown.timeline.taken_over[steps].copy()
        new, old = (ends[band] == steps[column] for ends in (self.born, self.last))
        some = np.flatnonzero((new | old) & (taken[column] > 0))
        for at in some[np.argsort(~new[some], kind="stable")].tolist():
            less = min(int(size[at]), int(taken[column[at]]))
            size[at] -= less
            taken[column[at]] -= less
        return size

    def words(self, owner: int) -> str:
        group = owner - self.count
        if group >= 0:
            return self.groups[group] + (": small values" if group < len(self.groups) - 2 else "")
        graph, steps = self.shown.graph, self.shown.schedule.steps
        value = self.value_of(owner)
        born, last = int(self.born[owner]), int(self.last[owner])
        entry = graph.values[value]
        dtype = f" · {entry.dtype}" if entry.dtype else ""
        shape = "" if entry.shape is None else f" · {' × '.join(map(str, entry.shape))}"
        copies = np.sort(self.born[self.values == value])
        again = f", copy {int(np.searchsorted(copies, born)) + 1} of {len(copies)}" * (len(copies) > 1)
        if last >= len(steps):
            end = "live at the end"
        else:
            reader = short_name(graph.ops[int(steps[last])].name)
            end = f"freed after step {last + 1:,}" + (f", last read by {reader}" if last > born else "")
        head = f"{format_bytes(int(self.bytes[owner]))}{dtype}{shape} · {self.groups[self.group[owner]]}"
        return f"{head}\n{short_name(entry.name)}\nmade in step {born + 1:,}{again}\n{end}"

    def op_of(self, owner: int) -> int:
        """The op that writes a band; -1 for what no op writes."""
        value = self.value_of(owner)
        return -1 if value < 0 else int(self.shown.graph.producer[value])

    def value_of(self, owner: int) -> int:
        """The value that a band is; -1 for what is no single value."""
        return int(self.values[owner]) if 0 <= owner < self.count else -1


def _grouped(
    shown: ListedSchedule, grouping: Grouping, parts: Mapping[str, str], weight: NDArray[np.int64]
) -> tuple[list[str], NDArray[np.int64]]:
    graph, values = shown.graph, shown.timeline.buffer_value
    makers = graph.producer[values]
    if grouping is Grouping.KIND:
        return ["activations", "gradients"], graph.late[makers].astype(np.int64)
    if grouping is Grouping.REASON:
        return _reasons(shown)
    if grouping is Grouping.DTYPE:
        named, key = [value.dtype or "dtype not known" for value in graph.values], values
    else:
        named, key = [parts[op.group or op.name] for op in graph.ops], makers
    listed = list(dict.fromkeys(named))
    place_of = {name: place for place, name in enumerate(listed)}
    number = np.array([place_of[name] for name in named], np.int64)[key]
    sums = np.bincount(number, weights=weight, minlength=len(listed))
    rest = np.array([name == _OTHERS for name in listed])
    order = np.lexsort((-sums, rest))
    place = np.argsort(order)
    found = [listed[one] for one in order.tolist() if sums[one]]
    if len(found) > MOST_GROUPS:
        others = _OTHERS if grouping is Grouping.LAYER else "others"
        found = [*found[:MOST_GROUPS], others]
    return found, np.minimum(place[number], max(0, len(found) - 1))


def _parts_of(graph: Graph) -> dict[str, str]:
    """The part of the model that each layer belongs to, the outermost groups of the training graph."""
    names = [op.group or op.name for op in graph.ops]
    layers = list(dict.fromkeys(name for name, late in zip(names, graph.late, strict=True) if not late))
    parts = group_tree(layers).children if layers else []
    found = {layers[at]: part.name for part in parts for at in range(part.first, part.last)}
    return {name: found.get(name, name if not found else _OTHERS) for name in names}


_REASONS = [  # from the bottom to the top
    Reason.FOR_BACKWARD,
    Reason.FOR_RECOMPUTATION,
    Reason.GRADIENT,
    Reason.FOR_FORWARD,
    Reason.RESULT,
]


def _reasons(shown: ListedSchedule) -> tuple[list[str], NDArray[np.int64]]:
    graph, timeline, steps = shown.graph, shown.timeline, shown.schedule.steps
    reader = np.minimum(timeline.buffer_last, len(steps) - 1)
    cases = {  # the first that holds
        Reason.RESULT: timeline.buffer_last >= len(steps),
        Reason.GRADIENT: graph.late[graph.producer[timeline.buffer_value]],
        Reason.FOR_RECOMPUTATION: ~shown.schedule.first_occurrence[reader],
        Reason.FOR_BACKWARD: graph.late[steps[reader]],
    }
    places = [_REASONS.index(one) for one in cases]
    number = np.select(list(cases.values()), places, _REASONS.index(Reason.FOR_FORWARD))
    return [reason.value for reason in _REASONS], np.asarray(number, np.int64)


ORIGIN = "estimated: replica of TensorFlow's BFC allocator"
ON_CPU = "On a CPU, TensorFlow uses that allocator only with TF_CPU_ALLOCATOR_USE_BFC=true."
_PLACED_LEAST_PIXELS = 1.0  # a lower block is drawn together with those beside it
_FILLED = 0.5  # of a pixel: what low blocks must fill together to be drawn
_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlacedBlocks:
    """The blocks of a placement. ``bands``: the same buffers as bands, whose groups these are. ``order``:
    int64[k], the placement's blocks by address."""

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
    def groups(self) -> tuple[str, ...]:
        return self.bands.groups

    @property
    def count(self) -> int:
        return len(self.order)

    @cached_property
    def buffer(self) -> _Ints:
        return self.placement.buffer[self.order]

    @cached_property
    def group(self) -> _Ints:
        of_buffer = np.zeros(self.bands.count + 2, np.int64)
        of_buffer[self.bands.buffer] = self.bands.group
        of_buffer[WORKSPACE], of_buffer[FIXED_BUFFER] = len(self.groups) - 2, len(self.groups) - 1
        return of_buffer[self.buffer]

    @cached_property
    def values(self) -> _Ints:
        """The value in each block; -1 for what is no value."""
        of_buffer = np.append(self.shown.timeline.buffer_value.astype(np.int64), [-1, -1])
        return of_buffer[self.buffer]

    def owners(self, steps: _Ints, height: int, top: float, bottom: float = 0.0) -> _Ints:
        """Which block each pixel belongs to, as ``Bands.owners``, with addresses at the edges. What is free
        is NOTHING. Where low blocks fill half of a pixel together, it is ``count`` and the group that fills
        most of it."""
        place, order = self.placement, self.order
        scale = height / (top - bottom)
        begins = place.address[order].astype(np.float64)
        low, high = (begins - bottom) * scale, (begins + place.chunk[order] - bottom) * scale
        first = np.searchsorted(steps, place.born[order])
        end = np.searchsorted(steps, place.last[order], side="right")
        seen = (first < end) & (high > 0) & (low < height)
        large = seen & (high - low >= _PLACED_LEAST_PIXELS)
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
        best, total = np.zeros((2, columns, height))
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
        if buffer == FIXED_BUFFER:
            return f"{format_bytes(asked)} · {self.groups[-1]}\n{where}\nthere before the step and after it"
        if buffer == WORKSPACE:
            op = self.shown.graph.ops[int(self.shown.schedule.steps[last])]
            head = f"{format_bytes(asked)} · workspace of {short_name(op.name)}"
            return f"{head}\n{where}\nin step {last + 1:,}"
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
        return int(self.values[owner]) if 0 <= owner < self.count else -1

    def op_of(self, owner: int) -> int:
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
