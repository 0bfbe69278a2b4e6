"""TensorFlow's allocator, best fit with coalescing: which chunk a request gets, and what the meter will show.

The rules are those of ``tsl/framework/bfc_allocator.cc``, checked event by event against TensorFlow's own
trace (``tests/tf/allocator/test_bfc.py``). Sizes are rounded up to 256 bytes. Of the free chunks that are
large enough the smallest is taken, and of equal ones the one with the lowest address. It is split if it is at
least twice what is needed, or 128 MiB larger. If none fits, a new region is fetched: at least as large as the
request, and twice the last region. Free neighbours in a region merge.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field

_ALIGNMENT = 256
_FIRST_REGION = 2 << 20
_MOST_SLACK = 128 << 20  # a chunk this much larger than the request is split even if it is not twice as large
_BINS = 21


@dataclass(frozen=True)
class Request:
    """Bytes under a handle; 0 bytes give the handle back."""

    handle: int
    bytes: int


@dataclass(eq=False)
class _Chunk:
    address: int
    size: int
    free: bool = True
    before: _Chunk | None = None
    after: _Chunk | None = None


@dataclass(eq=False)
class Bfc:
    """The state of one allocator.

    ``capacity``: the size of the only region, for a device whose memory is taken at once; None: regions grow
    as needed, as on a CPU. ``in_use``, ``peak``: bytes in chunks that are handed out, now and at most, as
    ``tf.config.experimental.get_memory_info`` counts them. ``missing``: bytes that the real allocator would
    not have had; this one fetches them. ``regions``: (address, bytes), in the order that they were fetched.
    """

    capacity: int | None = None
    in_use: int = 0
    peak: int = 0
    missing: int = 0
    regions: list[tuple[int, int]] = field(default_factory=list)
    _next_region: int = _FIRST_REGION
    _lowest: int = 1 << 60
    _bins: list[list[tuple[int, int]]] = field(default_factory=lambda: [[] for _ in range(_BINS)])
    _chunks: dict[int, _Chunk] = field(default_factory=dict)  # by address
    _held: dict[int, _Chunk] = field(default_factory=dict)  # by handle

    def play(self, requests: Iterable[Request]) -> int:
        """Serve ``requests`` in order; return the most bytes in use meanwhile."""
        self.peak = self.in_use
        for request in requests:
            if request.bytes:
                self.allocate(request.handle, request.bytes)
            else:
                self.release(request.handle)
        return self.peak

    def allocate(self, handle: int, size: int) -> int:
        """Return the bytes of the request's chunk, 0 for an empty request."""
        if size == 0:
            return 0
        rounded = -(-size // _ALIGNMENT) * _ALIGNMENT
        chunk = self._find(rounded) or self._extend(rounded)
        if chunk.size >= 2 * rounded or chunk.size - rounded >= _MOST_SLACK:
            self._split(chunk, rounded)
        chunk.free = False
        self._held[handle] = chunk
        self.in_use += chunk.size
        self.peak = max(self.peak, self.in_use)
        return chunk.size

    def where(self, handle: int) -> tuple[int, int]:
        chunk = self._held[handle]
        return chunk.address, chunk.size

    def free_chunks(self) -> list[tuple[int, int]]:
        return [entry for entries in self._bins for entry in entries]

    def release(self, handle: int) -> None:
        chunk = self._held.pop(handle, None)
        if chunk is None:
            return
        self.in_use -= chunk.size
        chunk.free = True
        for neighbour in (chunk.after, chunk.before):
            if neighbour is not None and neighbour.free:
                self._remove(neighbour)
                chunk = self._merge(*sorted((chunk, neighbour), key=lambda each: each.address))
        self._insert(chunk)

    def _find(self, size: int) -> _Chunk | None:
        for number in range(_bin(size), _BINS):
            entries = self._bins[number]
            at = bisect.bisect_left(entries, (size, 0))
            if at < len(entries):
                chunk = self._chunks[entries[at][1]]
                del entries[at]
                return chunk
        return None

    def _extend(self, size: int) -> _Chunk:
        if self.capacity is not None:
            taken = bool(self._chunks)
            self._next_region = size if taken or size > self.capacity else self.capacity
            self.missing += size if taken else max(0, size - self.capacity)
        grown = False
        while size > self._next_region:
            self._next_region *= 2
            grown = True
        length = self._next_region
        if not grown:
            self._next_region *= 2
        # Regions are mapped downwards: the newest is the lowest.
        self._lowest -= length + _ALIGNMENT
        chunk = _Chunk(self._lowest, length)
        self._chunks[chunk.address] = chunk
        self.regions.append((chunk.address, length))
        return chunk

    def _split(self, chunk: _Chunk, size: int) -> None:
        rest = _Chunk(chunk.address + size, chunk.size - size, before=chunk, after=chunk.after)
        if chunk.after is not None:
            chunk.after.before = rest
        chunk.after, chunk.size = rest, size
        self._chunks[rest.address] = rest
        self._insert(rest)

    def _merge(self, low: _Chunk, high: _Chunk) -> _Chunk:
        low.size += high.size
        low.after = high.after
        if high.after is not None:
            high.after.before = low
        del self._chunks[high.address]
        return low

    def _insert(self, chunk: _Chunk) -> None:
        bisect.insort(self._bins[_bin(chunk.size)], (chunk.size, chunk.address))

    def _remove(self, chunk: _Chunk) -> None:
        entries = self._bins[_bin(chunk.size)]
        del entries[bisect.bisect_left(entries, (chunk.size, chunk.address))]


def _bin(size: int) -> int:
    return min(_BINS - 1, max(size, _ALIGNMENT).bit_length() - _ALIGNMENT.bit_length())
