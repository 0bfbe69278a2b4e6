"""What was recorded about one allocator: when a request failed (from a log), or at its fullest (from a
profile, or from what XLA compiled).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    LOG = "log"
    PROFILE = "profile"
    COMPILED = "compiled"
    SNAPSHOT = "snapshot"


class Cause(StrEnum):
    """Why a request failed, as far as the record tells.

    ``SPLIT``: enough was free, but in no one piece. ``REFUSED``: the limit left room, but the device gave
    none.
    """

    TOO_LARGE = "larger than the limit"
    SHORT = "too little free"
    SPLIT = "fragmentation"
    REFUSED = "refused by the device"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FailedRequest:
    """``bytes`` is what the op asked for, rounded where ``about``; ``rounded_bytes`` is the chunk that it
    needs.

    Both are None if the record has the tensor's shape alone, of a dtype without a known size.
    """

    bytes: int | None
    rounded_bytes: int | None = None
    about: bool = False
    op: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str = ""


@dataclass(frozen=True)
class Allocations:
    """What is in use in one layer, or in chunks of one size: whole chunks."""

    name: str
    bytes: int
    count: int


@dataclass(frozen=True)
class MemoryRecord:
    """What one allocator held at one moment; None stands for what the record does not tell.

    ``asked``: the request that failed; None in a profile. ``limit_bytes``: the most that the allocator may
    fetch; ``pool_bytes``: what it has fetched, in use or free. ``requested_bytes``: what was asked for in the
    chunks in use, which are larger. ``most_bytes``: the most that was ever in use. ``free_bytes`` and
    ``largest_free_bytes`` are of the pool. ``by_layer`` and ``by_size``: what is in use, largest first; no
    layers if ops are not told. ``curve``: (seconds, bytes in use) over a profile, thinned out. ``parts``:
    what ``in_use_bytes`` of a compiled step is made of. ``estimated``: XLA had not yet fused and ordered it.
    ``moment``: when this was so, if it was not when most was in use.
    """

    source: Source
    allocator: str = ""
    asked: FailedRequest | None = None
    limit_bytes: int | None = None
    pool_bytes: int | None = None
    in_use_bytes: int | None = None
    requested_bytes: int | None = None
    most_bytes: int | None = None
    free_bytes: int | None = None
    largest_free_bytes: int | None = None
    by_layer: tuple[Allocations, ...] = ()
    by_size: tuple[Allocations, ...] = ()
    curve: tuple[tuple[float, int], ...] = ()
    parts: tuple[Allocations, ...] = ()
    estimated: bool = False
    moment: str = ""

    @property
    def untouched_bytes(self) -> int | None:
        """What the allocator could still have fetched."""
        if self.limit_bytes is None or self.pool_bytes is None:
            return None
        return max(0, self.limit_bytes - self.pool_bytes)

    @property
    def split_bytes(self) -> int | None:
        """What is free outside of the largest free chunk."""
        if self.free_bytes is None or self.largest_free_bytes is None:
            return None
        return max(0, self.free_bytes - self.largest_free_bytes)

    @property
    def needed_bytes(self) -> int | None:
        """The chunk that the failed request needs."""
        if self.asked is None:
            return None
        return self.asked.rounded_bytes or self.asked.bytes

    @property
    def room_bytes(self) -> int | None:
        """What was not in use, within the limit, in whatever pieces."""
        if self.free_bytes is not None and self.untouched_bytes is not None:
            return self.free_bytes + self.untouched_bytes
        if self.limit_bytes is None or self.in_use_bytes is None:
            return None
        return max(0, self.limit_bytes - self.in_use_bytes)

    @property
    def missing_bytes(self) -> int | None:
        """How many more bytes had to be free, in whatever pieces; 0 if enough were."""
        if self.needed_bytes is None or self.room_bytes is None:
            return None
        return max(0, self.needed_bytes - self.room_bytes)

    @property
    def cause(self) -> Cause:
        needed, untouched, largest = self.needed_bytes, self.untouched_bytes, self.largest_free_bytes
        if needed is not None and self.limit_bytes is not None and needed > self.limit_bytes:
            return Cause.TOO_LARGE
        if self.missing_bytes:
            return Cause.SHORT
        if needed is None or untouched is None or self.free_bytes is None:
            return Cause.UNKNOWN
        if largest is not None and needed <= largest:
            return Cause.UNKNOWN
        return Cause.REFUSED if needed <= untouched else Cause.SPLIT


@dataclass(frozen=True)
class ReadRecord:
    """What was read from a file: of a log its failures in order, of a profile its allocators, the largest
    first, of a snapshot each device's failures, its peak and its end.

    ``unread``: failures or events that were left out, because there are too many. ``warnings``: requests of
    the log that failed without harm.
    """

    name: str
    records: tuple[MemoryRecord, ...]
    unread: int = 0
    warnings: int = 0


def by_bytes(found: Mapping[str, tuple[int, int]]) -> tuple[Allocations, ...]:
    rows = (Allocations(name, size, count) for name, (size, count) in found.items())
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.name)))
