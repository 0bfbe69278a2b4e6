"""Imitate TensorFlow's allocator in compiled code.

It does what ``checkmate.memory.bfc`` does, and shows the same bytes after each request
(``tests/tf/allocator/test_arrange.py``). A search serves some thousand requests for every order that it
tries, so nothing is allocated here: chunks are rows of an array, and the free ones are kept sorted by size
and address.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.compile.jit import part

# Rows of ``Memory.chunk``.
ADDRESS, SIZE, FREE, BEFORE, AFTER = range(5)
# Entries of ``Memory.fact``.
IN_USE, PEAK, MISSING, NEXT_REGION, LOWEST, CAPACITY, ROWS, FREE_COUNT, SPARE, FETCHED, WHERE = range(11)

_ALIGNMENT = 256
_FIRST_REGION = 2 << 20
_MOST_SLACK = 128 << 20
_HIGH = 1 << 60


class Memory(NamedTuple):
    """The state of one allocator.

    * ``chunk``: int64[5, N], of each chunk its address, size, whether it is free, and its neighbours;
    * ``free``: int64[N], the free chunks, smallest first and of equal ones the lowest;
    * ``fact``: int64[11], the other facts by name. WHERE is for the replay's own use.
    """

    chunk: NDArray[np.int64]
    free: NDArray[np.int64]
    fact: NDArray[np.int64]


def new_memory(capacity: int | None, chunks: int) -> Memory:
    """Return an allocator as ``Bfc(capacity)`` with room for ``chunks``."""
    fact = np.zeros(11, np.int64)
    fact[NEXT_REGION], fact[LOWEST], fact[SPARE] = _FIRST_REGION, _HIGH, -1
    fact[CAPACITY] = -1 if capacity is None else capacity
    return Memory(np.zeros((5, chunks), np.int64), np.zeros(chunks, np.int64), fact)


@part
def copy_memory(source: Memory, target: Memory) -> None:
    """Let ``target`` be as ``source`` is."""
    for name in range(source.fact.shape[0]):
        target.fact[name] = source.fact[name]
    for row in range(source.chunk.shape[0]):
        for chunk in range(source.fact[ROWS]):
            target.chunk[row, chunk] = source.chunk[row, chunk]
    for place in range(source.fact[FREE_COUNT]):
        target.free[place] = source.free[place]


@part
def place_of(m: Memory, size: int, address: int) -> int:
    """Return the place of the first free chunk that is not smaller.

    Of chunks of ``size`` bytes, those below ``address`` count as smaller.
    """
    low, high = 0, m.fact[FREE_COUNT]
    while low < high:
        middle = (low + high) // 2
        chunk = m.free[middle]
        found = m.chunk[SIZE, chunk]
        if found < size or (found == size and m.chunk[ADDRESS, chunk] < address):
            low = middle + 1
        else:
            high = middle
    return low


@part
def insert_free(m: Memory, chunk: int) -> None:
    """Put a chunk among the free ones."""
    place = place_of(m, m.chunk[SIZE, chunk], m.chunk[ADDRESS, chunk])
    for other in range(m.fact[FREE_COUNT], place, -1):
        m.free[other] = m.free[other - 1]
    m.free[place] = chunk
    m.fact[FREE_COUNT] += 1
    m.chunk[FREE, chunk] = 1


@part
def remove_free(m: Memory, place: int) -> None:
    """Take the chunk at ``place`` from the free ones."""
    m.chunk[FREE, m.free[place]] = 0
    m.fact[FREE_COUNT] -= 1
    for other in range(place, m.fact[FREE_COUNT]):
        m.free[other] = m.free[other + 1]


@part
def new_chunk(m: Memory, address: int, size: int, before: int, after: int) -> int:
    """Return a row for a chunk that nobody has."""
    chunk = m.fact[SPARE]
    if chunk >= 0:
        m.fact[SPARE] = m.chunk[AFTER, chunk]
    else:
        chunk = m.fact[ROWS]
        m.fact[ROWS] += 1
    m.chunk[ADDRESS, chunk], m.chunk[SIZE, chunk], m.chunk[FREE, chunk] = address, size, 0
    m.chunk[BEFORE, chunk], m.chunk[AFTER, chunk] = before, after
    return int(chunk)


@part
def extend(m: Memory, size: int) -> int:
    """Return a new region as one chunk."""
    if m.fact[CAPACITY] >= 0:
        taken, room = m.fact[FETCHED] > 0, m.fact[CAPACITY]
        m.fact[NEXT_REGION] = size if taken or size > room else room
        m.fact[MISSING] += size if taken else max(0, size - room)
    grown = False
    while size > m.fact[NEXT_REGION]:
        m.fact[NEXT_REGION] *= 2
        grown = True
    length = m.fact[NEXT_REGION]
    if not grown:
        m.fact[NEXT_REGION] *= 2
    m.fact[LOWEST] -= length + _ALIGNMENT
    m.fact[FETCHED] += 1
    return new_chunk(m, m.fact[LOWEST], length, -1, -1)


@part
def allocate(m: Memory, size: int) -> int:
    """Serve a request of ``size`` bytes; return its chunk, -1 for 0 bytes."""
    if size == 0:
        return -1
    rounded = -(-size // _ALIGNMENT) * _ALIGNMENT
    place = place_of(m, rounded, -_HIGH)
    if place < m.fact[FREE_COUNT]:
        chunk = m.free[place]
        remove_free(m, place)
    else:
        chunk = extend(m, rounded)
    had = m.chunk[SIZE, chunk]
    if had >= 2 * rounded or had - rounded >= _MOST_SLACK:
        after = m.chunk[AFTER, chunk]
        rest = new_chunk(m, m.chunk[ADDRESS, chunk] + rounded, had - rounded, chunk, after)
        if after >= 0:
            m.chunk[BEFORE, after] = rest
        m.chunk[AFTER, chunk], m.chunk[SIZE, chunk] = rest, rounded
        insert_free(m, rest)
    m.fact[IN_USE] += m.chunk[SIZE, chunk]
    m.fact[PEAK] = max(m.fact[PEAK], m.fact[IN_USE])
    return int(chunk)


@part
def merge(m: Memory, low: int, high: int) -> None:
    """Let ``low`` have the bytes of its neighbour ``high`` too."""
    m.chunk[SIZE, low] += m.chunk[SIZE, high]
    after = m.chunk[AFTER, high]
    m.chunk[AFTER, low] = after
    if after >= 0:
        m.chunk[BEFORE, after] = low
    m.chunk[AFTER, high] = m.fact[SPARE]
    m.fact[SPARE] = high


@part
def release(m: Memory, chunk: int) -> None:
    """Give a chunk back; nothing is done for -1."""
    if chunk < 0:
        return
    m.fact[IN_USE] -= m.chunk[SIZE, chunk]
    after, before = m.chunk[AFTER, chunk], m.chunk[BEFORE, chunk]
    if after >= 0 and m.chunk[FREE, after] == 1:
        remove_free(m, place_of(m, m.chunk[SIZE, after], m.chunk[ADDRESS, after]))
        merge(m, chunk, after)
    if before >= 0 and m.chunk[FREE, before] == 1:
        remove_free(m, place_of(m, m.chunk[SIZE, before], m.chunk[ADDRESS, before]))
        merge(m, before, chunk)
        chunk = before
    insert_free(m, chunk)
