"""What was in memory at its fullest, from a profile's events."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from checkmate.hlo.layers import layer_of
from checkmate.records.memory import Allocations, MemoryRecord, Source, by_bytes
from checkmate.records.xplane import Allocators, Events

_MOST_POINTS = 1000  # of a curve; the highest of neighbours stays
BEFORE = "from before the profile"


def records_of(found: Allocators) -> tuple[MemoryRecord, ...]:
    records = [_record(name, events, found.names) for name, events in found.events.items()]
    return tuple(
        sorted(
            records, key=lambda r: (not r.allocator.startswith("GPU"), -(r.in_use_bytes or 0), r.allocator)
        )
    )


def _record(allocator: str, events: Events, names: list[str]) -> MemoryRecord:
    order = _order(events)
    in_use, at = _in_use(events, order)
    moment = int(np.argmax(in_use))
    alive = _alive(events, order[: moment + 1])
    held = int(in_use[moment])
    layers: dict[str, tuple[int, int]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    known = asked = 0
    for event in alive:
        size = events.allocated[event] or events.requested[event]
        known, asked = known + size, asked + events.requested[event]
        _add(layers, layer_of(names[events.op[event]]), size)
        _add(sizes, str(size), size)
    rest = held - known
    peak = order[moment]
    limit = _limit(events, int(peak))
    return MemoryRecord(
        Source.PROFILE,
        allocator,
        limit_bytes=limit,
        in_use_bytes=held,
        requested_bytes=asked if rest <= 0 else None,
        most_bytes=max(held, max(events.most, default=0)),
        by_layer=_with_rest(by_bytes(layers), rest),
        by_size=_with_rest(by_bytes(sizes), rest),
        curve=thinned(at, in_use),
    )


def _order(events: Events) -> NDArray[np.int64]:
    """Return the events by time. Of equal times releases come first: chunks are reused after that."""
    return np.lexsort((_column(events.sign), _column(events.time_ps)))


def _in_use(events: Events, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the bytes in use after each event, by the allocator's own sum if it tells one, and its time in
    seconds.
    """
    time = _column(events.time_ps)[order]
    told = _column(events.in_use)[order]
    if not told.any():
        size = np.maximum(_column(events.allocated), _column(events.requested))
        # Floats: a damaged file may tell sums beyond all integers.
        told = np.cumsum((_column(events.sign) * size)[order], dtype=np.float64).astype(np.int64)
        told = told - min(0, int(told.min()))  # more was given back than was seen to be taken
    return told, (time - time[0]) * 1e-12


def _alive(events: Events, order: NDArray[np.int64]) -> list[int]:
    alive: dict[int, int] = {}
    for event in order.tolist():
        if events.sign[event] > 0:
            alive[events.address[event]] = event
        else:
            alive.pop(events.address[event], None)
    return list(alive.values())


def _limit(events: Events, event: int) -> int | None:
    if events.fetchable[event] <= 0:
        return None
    return events.reserved[event] + events.in_use[event] + events.fetchable[event]


def _with_rest(rows: tuple[Allocations, ...], rest: int) -> tuple[Allocations, ...]:
    if rest <= 0:
        return rows
    return tuple(sorted((*rows, Allocations(BEFORE, rest, 0)), key=lambda row: -row.bytes))


def thinned(seconds: NDArray[np.float64], in_use: NDArray[np.int64]) -> tuple[tuple[float, int], ...]:
    """Return the curve with few points; peaks stay as high as they are."""
    count = len(in_use)
    edges = np.unique(np.linspace(0, count, min(count, _MOST_POINTS) + 1).astype(np.int64))[:-1]
    highest = np.maximum.reduceat(in_use, edges)
    return tuple(zip(seconds[edges].tolist(), highest.tolist(), strict=True))


def _column(values: array[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _add(found: dict[str, tuple[int, int]], name: str, size: int) -> None:
    before = found.get(name, (0, 0))
    found[name] = before[0] + size, before[1] + 1
