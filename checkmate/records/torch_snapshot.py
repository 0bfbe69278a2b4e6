"""PyTorch's memory snapshots (``torch.cuda.memory._dump_snapshot``): what was in use, by line of code.

A snapshot has the allocator's segments as they were when it was taken and, where its history was recorded,
what was allocated and freed before. ``torch.cuda.memory._snapshot`` documents the fields.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from checkmate.records import pickle_scan as scanned
from checkmate.records.memory import Allocations, FailedRequest, MemoryRecord, Source, by_bytes
from checkmate.records.profile import thinned

NO_STACK, BEFORE = "without a stack", "from before the recording"
_MOST_FAILURES = 32  # of a device
_MOST_DEVICES = 1024
_MOST_BYTES = 2**62
_BACKWARD = re.compile(r"\w*Backward\w*")

_Ints = NDArray[np.int64]


def read_snapshot(data: mmap.mmap, heard: Callable[[int], None]) -> tuple[MemoryRecord, ...]:
    """Return what each device held: when requests failed, at the most, and when the snapshot was taken.

    ``heard`` is told how many bytes were read; it may raise to stop.

    Raises:
        ValueError: the file is no snapshot.
    """
    seen = np.frombuffer(data, np.uint8)
    heap = scanned.new_heap(len(seen))

    def passed(position: int) -> None:
        data.madvise(mmap.MADV_DONTNEED)  # what was read need not stay in memory
        heard(position)

    root = scanned.scan(seen, heap, passed)
    return tuple(record for device in _Snapshot(seen, heap).devices(root) for record in device.records())


class _Snapshot:
    def __init__(self, data: NDArray[np.uint8], heap: scanned.Heap) -> None:
        self._data, self._heap = data, heap
        self._names = {0: NO_STACK, -1: BEFORE}

    def devices(self, root: int) -> Iterator[_Device]:
        heap = self._heap
        of_segments, of_traces = (int(self.get(each, root)) for each in (scanned.SEGMENTS, scanned.TRACES))
        if not of_segments and not of_traces:
            raise ValueError("it has neither segments nor a history of memory")
        segments = scanned.items_of(heap, of_segments)
        traces = scanned.items_of(heap, of_traces, scanned.OF_LISTS)
        of_device: _Ints = self.get(scanned.DEVICE, segments)
        count = int(max([len(traces), *(of_device + 1)]))
        if count > _MOST_DEVICES or (of_device < 0).any():
            raise ValueError("it names a device that no machine has")
        for number in range(count):
            mine = segments[of_device == number]
            events = scanned.items_of(heap, int(traces[number])) if number < len(traces) else mine[:0]
            if len(mine) or len(events):
                yield _Device(self, number, mine, events)

    def get(self, column: int, rows: NDArray[np.int32] | int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = scanned.column(self._heap, column)[rows]
        return found

    def blocks(self, segments: NDArray[np.int32]) -> tuple[NDArray[np.int32], _Ints]:
        """Return the blocks of segments, which follow each other in each, and their addresses."""
        rows, at = [segments[:0]], [np.zeros(0, np.int64)]
        lists, begins = self.get(scanned.BLOCKS, segments), self.get(scanned.ADDRESS, segments)
        for number, begin in zip(lists.tolist(), begins.tolist(), strict=True):
            rows.append(scanned.items_of(self._heap, number))
            sizes = self.get(scanned.SIZE, rows[-1])
            at.append(begin + np.cumsum(sizes) - sizes)
        return np.concatenate(rows), np.concatenate(at)

    def are(self, rows: NDArray[np.int32], *actions: str) -> NDArray[np.bool_]:
        texts = self.get(scanned.ACTION, rows)
        known = [text for text in np.unique(texts) if self._text(int(text)) in actions]
        return np.isin(texts, known)

    def frames(self, rows: NDArray[np.int32]) -> _Ints:
        """Return the frame by which the stack of each row is known; 0: it has no stack."""
        return self._heap.frame[self.get(scanned.FRAMES, rows)].astype(np.int64)

    def by_line(self, frames: _Ints, sizes: _Ints) -> tuple[Allocations, ...]:
        found: dict[str, tuple[int, int]] = {}
        for frame, size, count in _grouped(frames, sizes):
            if frame not in self._names:
                self._names[frame] = self._named(frame)
            before = found.get(self._names[frame], (0, 0))
            found[self._names[frame]] = before[0] + size, before[1] + count
        return by_bytes(found)

    def _named(self, frame: int) -> str:
        file, name = (int(self.get(each, frame)) for each in (scanned.FILE, scanned.NAME))
        words, ranks = self._text(name), self._heap.text_rank
        if ranks[file] == scanned.OWN:
            where = self._text(file).rpartition("/")[2]
            return f"{words} ({where}:{int(self.get(scanned.LINE, frame))})"
        if ranks[name] == scanned.OWN:
            return words.rpartition("/")[2]
        if (backward := _BACKWARD.search(words)) is not None:
            return backward[0]
        return words.partition("(")[0].rpartition("::")[2] or NO_STACK

    def _text(self, number: int) -> str:
        return scanned.text_of(self._data, self._heap, number) if number else ""


@dataclass(frozen=True, eq=False)
class _Lives:
    """Allocations: each in use after event ``start`` (-1: before the first) and before event ``end``."""

    start: _Ints
    end: _Ints
    sizes: _Ints
    frames: _Ints

    def after(self, event: int) -> NDArray[np.bool_]:
        return (self.start <= event) & (self.end > event)

    def bytes_after_each(self, count: int) -> _Ints:
        """Return the bytes in use before the first event, and after each."""
        change = np.zeros(count + 2, np.int64)
        np.add.at(change, self.start + 1, self.sizes)
        np.subtract.at(change, self.end + 1, self.sizes)
        return np.cumsum(change)[:-1]


class _Device:
    def __init__(
        self, of: _Snapshot, number: int, segments: NDArray[np.int32], events: NDArray[np.int32]
    ) -> None:
        self._of, self._events = of, events
        self._name = f"PyTorch's memory of GPU {number}"
        blocks, addresses = of.blocks(segments)
        used = of.are(blocks, "active_allocated")
        self._used, self._used_at = blocks[used], addresses[used]
        self._free = of.get(scanned.SIZE, blocks[of.are(blocks, "inactive")])
        self._pool = int(of.get(scanned.SIZE, segments).sum())
        fetched = of.are(events, "segment_alloc", "segment_map").astype(np.int64)
        fetched -= of.are(events, "segment_free", "segment_unmap")
        sizes = of.get(scanned.SIZE, events)
        for each in (sizes, of.get(scanned.SIZE, blocks), of.get(scanned.REQUESTED, blocks)):
            if (each < 0).any() or each.sum(dtype=np.float64) > _MOST_BYTES:
                raise ValueError("it has sizes that no memory has")
        # The pool after each event: what it is in the end, without what was fetched later.
        self._pools = self._pool - np.cumsum((fetched * sizes)[::-1])[::-1] + fetched * sizes
        self._lives = self._replayed(sizes)

    def _replayed(self, sizes: _Ints) -> _Lives:
        """Match what was freed with what was allocated; what is left was there before, or is there still."""
        of, events, count = self._of, self._events, len(self._events)
        allocated = of.are(events, "alloc")
        changed = np.flatnonzero(allocated | of.are(events, "free", "free_completed"))
        addresses = of.get(scanned.ADDRESS, events[changed])
        order = changed[np.argsort(addresses, kind="stable")]
        same = np.diff(of.get(scanned.ADDRESS, events[order])) == 0
        pairs = np.flatnonzero(same & allocated[order[:-1]] & ~allocated[order[1:]])
        end = np.full(count, count, np.int64)
        end[order[pairs]] = order[pairs + 1]
        lone = np.ones(count, np.bool_)
        lone[order[pairs + 1]] = False
        new, old = np.flatnonzero(allocated), changed[(lone & ~allocated)[changed]]
        last = np.append(~same, True)[: len(order)] & allocated[order]
        alive = of.get(scanned.ADDRESS, events[order[last]])
        still = self._used[~np.isin(self._used_at, alive)]
        before = np.full(len(old) + len(still), -1, np.int64)
        return _Lives(
            np.concatenate([new, before]),
            np.concatenate([end[new], old, np.full(len(still), count, np.int64)]),
            np.concatenate([sizes[new], sizes[old], of.get(scanned.REQUESTED, still)]),
            np.concatenate([of.frames(events[new]), before[: len(old)], of.frames(still)]),
        )

    def records(self) -> Iterator[MemoryRecord]:
        of, events = self._of, self._events
        failed = np.flatnonzero(of.are(events, "oom"))
        for event in failed[:_MOST_FAILURES].tolist():
            yield self._failure(event)
        in_use = self._lives.bytes_after_each(len(events))
        if len(events):
            peak = int(np.argmax(in_use)) - 1
            yield replace(self._at(peak), curve=self._curve(in_use))
        if len(self._used) or len(self._free):
            yield replace(self._now(self._at(len(events) - 1)), moment="when the snapshot was taken")

    def _at(self, event: int) -> MemoryRecord:
        """What was in use after an event."""
        alive = self._lives.after(event)
        sizes = self._lives.sizes[alive]
        by_size = {str(size): (whole, count) for size, whole, count in _grouped(sizes, sizes)}
        pool = int(self._pools[event]) if 0 <= event < len(self._pools) else self._pool
        return MemoryRecord(
            Source.SNAPSHOT,
            self._name,
            pool_bytes=max(0, pool),
            in_use_bytes=int(sizes.sum()),
            by_layer=self._of.by_line(self._lives.frames[alive], sizes),
            by_size=by_bytes(by_size),
        )

    def _now(self, record: MemoryRecord) -> MemoryRecord:
        """Return the record of the end with what the segments tell of pieces."""
        free = int(self._free.sum())
        return replace(
            record,
            in_use_bytes=max(0, self._pool - free),
            requested_bytes=record.in_use_bytes,
            free_bytes=free,
            largest_free_bytes=int(self._free.max(initial=0)),
        )

    def _failure(self, event: int) -> MemoryRecord:
        size, room = (
            int(self._of.get(each, self._events[event])) for each in (scanned.SIZE, scanned.ADDRESS)
        )
        record = self._at(event)
        if event == len(self._events) - 1 or not self._changes_after(event):
            record = self._now(record)
        return replace(record, asked=FailedRequest(size), limit_bytes=(record.pool_bytes or 0) + room)

    def _changes_after(self, event: int) -> bool:
        return not self._of.are(self._events[event + 1 :], "oom", "snapshot").all()

    def _curve(self, in_use: _Ints) -> tuple[tuple[float, int], ...]:
        times = self._of.get(scanned.TIME, self._events)
        if not times.any():
            return ()
        seconds = np.maximum.accumulate(times - times[0]) * 1e-6
        return thinned(seconds, in_use[1:])


def _grouped(keys: _Ints, sizes: _Ints) -> Iterator[tuple[int, int, int]]:
    """Yield each key with the sum of its sizes, and how many it has."""
    found, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    sums = np.zeros(len(found), np.int64)
    np.add.at(sums, which, sizes)
    yield from zip(found.tolist(), sums.tolist(), counts.tolist(), strict=True)
