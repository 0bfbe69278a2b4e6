"""The memory events of a TensorFlow profile (``*.xplane.pb``).

``xplane.proto`` in XLA's repository says what the numbers of the fields mean.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from checkmate.wire import Buffer, fields, text_at

MOST_EVENTS = 2_000_000
_MOST_NAMES = 1_000_000
_MOST_ALLOCATORS, _OTHERS = 64, "others"
_LARGEST = 2**42  # bytes; no memory is larger

_SPACE_PLANE = 1
_PLANE_LINE, _PLANE_EVENTS, _PLANE_STATS = 3, 4, 5
_LINE_TIME_NS, _LINE_EVENT = 3, 4
_EVENT_KIND, _EVENT_OFFSET_PS, _EVENT_STAT = 1, 2, 4
_STAT_KIND, _STAT_DOUBLE, _STAT_TEXT, _STAT_REFERENCE = 1, 2, 5, 7
_ENTRY_KEY, _ENTRY_VALUE, _NAME = 1, 2, 2

_SIGNS = {"MemoryAllocation": 1, "MemoryDeallocation": -1}
_MASK, _ALL_BITS = 2**63 - 1, 2**64 - 1
_Where = tuple[int, int]


@dataclass
class Events:
    """The memory events of one allocator, in columns.

    ``sign``: 1 for an allocation, -1 for a release. ``op`` is a number of the profile's ``names``.
    ``in_use``: the allocator's own sum after it. ``fetchable``: what it can fetch or hand out beside that;
    -1: not told.
    """

    time_ps: array[int] = field(default_factory=lambda: array("q"))
    sign: array[int] = field(default_factory=lambda: array("b"))
    address: array[int] = field(default_factory=lambda: array("q"))
    requested: array[int] = field(default_factory=lambda: array("q"))
    allocated: array[int] = field(default_factory=lambda: array("q"))
    in_use: array[int] = field(default_factory=lambda: array("q"))
    reserved: array[int] = field(default_factory=lambda: array("q"))
    fetchable: array[int] = field(default_factory=lambda: array("q"))
    most: array[int] = field(default_factory=lambda: array("q"))
    op: array[int] = field(default_factory=lambda: array("q"))


@dataclass
class Allocators:
    """The events of each allocator of a profile; ``names`` of ops, by number; ``unread``: events beyond the
    most.
    """

    count: int = 0
    events: dict[str, Events] = field(default_factory=dict)
    names: list[str] = field(default_factory=lambda: [""])
    unread: int = 0
    _numbers: dict[str, int] = field(default_factory=lambda: {"": 0})

    def number_of(self, name: str) -> int:
        """0 stands for names beyond the most."""
        found = self._numbers.get(name)
        if found is None:
            if len(self.names) >= _MOST_NAMES:
                return 0
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found


def read_events(
    data: Buffer, heard: Callable[[int], None] = lambda _: None, *, most: int = MOST_EVENTS
) -> Allocators:
    """Return at most ``most`` memory events of the profile ``data``.

    ``heard`` is told how many bytes were read so far; it may raise to stop.

    Raises:
        WireError: it is no profile.
    """
    found = Allocators()
    for number, _, start, end in fields(data, 0, len(data)):
        if number == _SPACE_PLANE and start < end:
            _read_plane(data, (start, end), found, heard, most)
    return found


def _read_plane(
    data: Buffer, where: _Where, found: Allocators, heard: Callable[[int], None], most: int
) -> None:
    lines: list[_Where] = []
    signs: dict[int, int] = {}
    stats: dict[int, str] = {}
    for number, _, start, end in fields(data, *where):
        if number == _PLANE_LINE:
            lines.append((start, end))
        elif number == _PLANE_EVENTS:
            key, name = _entry(data, start, end)
            if name in _SIGNS:
                signs[key] = _SIGNS[name]
        elif number == _PLANE_STATS:
            key, name = _entry(data, start, end)
            stats[key] = name
    for line in lines if signs else ():
        _read_line(data, line, signs, stats, found, most)
        heard(line[1])
    heard(where[1])


def _entry(data: Buffer, start: int, end: int) -> tuple[int, str]:
    key, name = 0, ""
    for number, value, inner, inner_end in fields(data, start, end):
        if number == _ENTRY_KEY:
            key = value
        elif number == _ENTRY_VALUE:
            for part, _, first, last in fields(data, inner, inner_end):
                if part == _NAME:
                    name = text_at(data, first, last)
    return key, name


def _read_line(
    data: Buffer,
    where: _Where,
    signs: dict[int, int],
    stats: dict[int, str],
    found: Allocators,
    most: int,
) -> None:
    # A line's start time may come before or after its events.
    begin_ps, read = 0, list[tuple[Events, int]]()
    for number, value, start, end in fields(data, *where):
        if number == _LINE_TIME_NS:
            begin_ps = (value & _MASK) * 1000
        elif number == _LINE_EVENT:
            sign, offset_ps = _kind_of(data, start, end, signs)
            if not sign:
                continue
            if found.count >= most:
                found.unread += 1
                continue
            events = _append(dict(_stats(data, start, end, stats)), sign, offset_ps, found)
            read.append((events, len(events.sign) - 1))
    for events, place in read:
        events.time_ps[place] = min(events.time_ps[place] + begin_ps, _MASK)


def _kind_of(data: Buffer, start: int, end: int, signs: dict[int, int]) -> tuple[int, int]:
    sign = offset = 0
    for number, value, _, _ in fields(data, start, end):
        if number == _EVENT_KIND:
            sign = signs.get(value, 0)
            if not sign:
                return 0, 0
        elif number == _EVENT_OFFSET_PS:
            offset = value & _MASK
    return sign, offset


def _stats(
    data: Buffer, start: int, end: int, names: dict[int, str]
) -> Iterator[tuple[str, int | float | str]]:
    for number, _, first, last in fields(data, start, end):
        if number != _EVENT_STAT:
            continue
        key, value = 0, 0  # type: int, int | float | str
        for part, bits, inner, inner_end in fields(data, first, last):
            if part == _STAT_KIND:
                key = bits
            elif part == _STAT_TEXT:
                value = text_at(data, inner, inner_end)
            elif part == _STAT_REFERENCE:
                value = names.get(bits, "")
            elif part == _STAT_DOUBLE:
                (value,) = struct.unpack("<d", (bits & _ALL_BITS).to_bytes(8, "little"))
            else:
                value = bits
        yield names.get(key, ""), value


def _append(told: dict[str, int | float | str], sign: int, offset_ps: int, found: Allocators) -> Events:
    name = str(told.get("allocator_name", ""))[:80]
    if name not in found.events and len(found.events) >= _MOST_ALLOCATORS:
        name = _OTHERS
    events = found.events.setdefault(name, Events())
    found.count += 1
    events.time_ps.append(offset_ps)
    events.sign.append(sign)
    events.address.append(_unsigned(told.get("addr", 0)) & _MASK)
    for column, name in (
        (events.requested, "requested_bytes"),
        (events.allocated, "allocation_bytes"),
        (events.in_use, "bytes_allocated"),
        (events.reserved, "bytes_reserved"),
        (events.most, "peak_bytes_in_use"),
    ):
        column.append(_as_int64(told.get(name, 0)))
    events.fetchable.append(_as_int64(told["bytes_available"]) if "bytes_available" in told else -1)
    events.op.append(found.number_of(str(told.get("tf_op", ""))))
    return events


def _unsigned(value: int | float | str) -> int:
    # Some releases write numbers as text.
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 21 else 0
    return int(value) if 0 <= value <= _ALL_BITS else 0


def _as_int64(value: int | float | str) -> int:
    bits = _unsigned(value)
    return min(bits, _LARGEST) if bits <= _MASK else 0
