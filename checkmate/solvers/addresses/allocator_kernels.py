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

from checkmate.solvers.compile.jit import kernel, part

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

    ``chunk``: int64[5, N], of each chunk its address, size, whether it is free, and its neighbours. ``free``:
    int64[N], the free chunks, smallest first and of equal ones the lowest. ``fact``: int64[11], the other
    facts by name; WHERE is for the replay's own use.
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
    for name in range(source.fact.shape[0]):
        target.fact[name] = source.fact[name]
    for row in range(source.chunk.shape[0]):
        for chunk in range(source.fact[ROWS]):
            target.chunk[row, chunk] = source.chunk[row, chunk]
    for place in range(source.fact[FREE_COUNT]):
        target.free[place] = source.free[place]


@part
def place_of(m: Memory, size: int, address: int) -> int:
    """The place of the first free chunk of more bytes, or of as many at ``address`` or above."""
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


# Rows of ``Requests.buffer``.
BYTES, VARIABLE, KEPT, FIRST_READER = range(4)
# Rows of ``Work.buffer`` and ``Work.part``.
CHUNK, NEXT = range(2)
RANK, DYING = range(2)
_NONE = -1


class Requests(NamedTuple):
    """What T steps with P parts and B buffers ask for, in whatever order they run.

    * ``first_part``: int64[T + 1], where each step's parts begin;
    * ``first_ask``: int64[P + 1], the first buffer that each part asks for; they are numbered so;
    * ``buffer``: int64[4, B + 1], bytes, variable, whether it is kept, where its readers begin;
    * ``readers``: int64[R], the parts that use each buffer;
    * ``claims``: int64[2, C], sizes and chunks that variables may have before the first step;
    * ``first_after``: int64[T + 1] and ``after``: int64[A], the steps that come after each.
    """

    first_part: NDArray[np.int64]
    first_ask: NDArray[np.int64]
    buffer: NDArray[np.int64]
    readers: NDArray[np.int64]
    claims: NDArray[np.int64]
    first_after: NDArray[np.int64]
    after: NDArray[np.int64]


class Work(NamedTuple):
    """Room that a replay works in.

    * ``buffer``: int64[2, B], the chunk of each, and the next buffer that dies with it;
    * ``part``: int64[2, P], the rank of each part, and the first buffer that dies after it;
    * ``variable``: int64[V], the chunk of each, -2 before the first step;
    * ``claimed``: int64[C], whether each chunk is a variable's.
    """

    buffer: NDArray[np.int64]
    part: NDArray[np.int64]
    variable: NDArray[np.int64]
    claimed: NDArray[np.int64]


@kernel
def serve(m: Memory, handle: NDArray[np.int64], size: NDArray[np.int64], chunk: NDArray[np.int64]) -> int:
    """Serve requests (``size`` 0: give ``handle`` back); return the most bytes in use meanwhile."""
    m.fact[PEAK] = m.fact[IN_USE]
    for request in range(handle.shape[0]):
        h = handle[request]
        if size[request] > 0:
            chunk[h] = allocate(m, size[request])
        else:
            release(m, chunk[h])
            chunk[h] = _NONE
    return int(m.fact[PEAK])


@part
def find_ends(r: Requests, w: Work, order: NDArray[np.int64]) -> int:
    """Find after which part each buffer dies; return the most bytes asked for at once."""
    rank = 0
    for place in range(order.shape[0]):
        step = order[place]
        for p in range(r.first_part[step], r.first_part[step + 1]):
            w.part[RANK, p] = rank
            w.part[DYING, p] = _NONE
            rank += 1
    for b in range(w.buffer.shape[1]):
        if r.buffer[KEPT, b] == 1:
            continue
        last = _NONE
        for at in range(r.buffer[FIRST_READER, b], r.buffer[FIRST_READER, b + 1]):
            p = r.readers[at]
            if last < 0 or w.part[RANK, p] > w.part[RANK, last]:
                last = p
        w.buffer[NEXT, b] = w.part[DYING, last]
        w.part[DYING, last] = b
    return most_asked(r, w, order)


@part
def most_asked(r: Requests, w: Work, order: NDArray[np.int64]) -> int:
    level, most = 0, 0
    for place in range(order.shape[0]):
        step = order[place]
        for p in range(r.first_part[step], r.first_part[step + 1]):
            for b in range(r.first_ask[p], r.first_ask[p + 1]):
                level += r.buffer[BYTES, b]
            most = max(most, level)
            b = w.part[DYING, p]
            while b >= 0:
                level -= r.buffer[BYTES, b]
                b = w.buffer[NEXT, b]
    return most


@part
def given_back(r: Requests, w: Work, b: int) -> int:
    """The chunk that is free after buffer ``b`` dies: a variable keeps it and gives back its own."""
    variable = r.buffer[VARIABLE, b]
    if variable < 0:
        return int(w.buffer[CHUNK, b])
    old = w.variable[variable]
    w.variable[variable] = w.buffer[CHUNK, b]
    if old != -2:
        return int(old)
    for claim in range(r.claims.shape[1]):
        if w.claimed[claim] == 0 and r.claims[0, claim] == r.buffer[BYTES, b]:
            w.claimed[claim] = 1
            return int(r.claims[1, claim])
    return _NONE


@part
def run_once(r: Requests, w: Work, m: Memory, order: NDArray[np.int64], limit: int) -> int:
    """Serve one step of training; return the most bytes in use meanwhile. It ends early above ``limit``."""
    m.fact[PEAK] = m.fact[IN_USE]
    for place in range(order.shape[0]):
        step = order[place]
        before = m.fact[PEAK]
        for p in range(r.first_part[step], r.first_part[step + 1]):
            for b in range(r.first_ask[p], r.first_ask[p + 1]):
                w.buffer[CHUNK, b] = allocate(m, r.buffer[BYTES, b])
            if m.fact[PEAK] > limit:
                return int(m.fact[PEAK])
            b = w.part[DYING, p]
            while b >= 0:
                release(m, given_back(r, w, b))
                b = w.buffer[NEXT, b]
        if m.fact[PEAK] > before:
            m.fact[WHERE] = place
    for b in range(w.buffer.shape[1]):
        if r.buffer[KEPT, b] == 1:
            release(m, given_back(r, w, b))
    return int(m.fact[PEAK])


@kernel
def shown(
    r: Requests, w: Work, start: Memory, m: Memory, order: NDArray[np.int64], runs: int, limit: int
) -> int:
    """Return the peak that the meter shows in the first ``runs`` steps; missing bytes count twice, to be
    avoided.

    ``start``: the allocator before them; ``m`` is used up, and has the bytes that were missing and the place
    where the last run had its peak. It may end early where more than ``limit`` bytes are in use.
    """
    copy_memory(start, m)
    for variable in range(w.variable.shape[0]):
        w.variable[variable] = -2
    for claim in range(w.claimed.shape[0]):
        w.claimed[claim] = 0
    find_ends(r, w, order)
    peak = 0
    for _ in range(runs):
        peak = max(peak, run_once(r, w, m, order, limit))
        if peak > limit:
            break
    m.fact[PEAK] = peak
    return int(peak + m.fact[MISSING])


_WORSE = 0.004  # of the peak: how much worse an order may be at first
_NEAR = 24  # steps beside the peak
_FAR = 16  # steps: how far a step is moved at most; one of eight moves goes as far as it can


@part
def draw(seed: NDArray[np.int64], below: int) -> int:
    """A random number from 0 up to ``below``, which is not in it."""
    seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
    high = seed[0] >> 8
    seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return int(((high << 16) ^ (seed[0] >> 8)) % below)


@part
def must_follow(r: Requests, before: int, after: int) -> bool:
    low, high = r.first_after[before], r.first_after[before + 1]
    while low < high:
        middle = (low + high) // 2
        if r.after[middle] < after:
            low = middle + 1
        else:
            high = middle
    return bool(low < r.first_after[before + 1] and r.after[low] == after)


@part
def shift(r: Requests, order: NDArray[np.int64], place: int, target: int) -> int:
    """Move the step at ``place`` towards ``target``; return where it ends."""
    while place < target and not must_follow(r, order[place], order[place + 1]):
        order[place], order[place + 1] = order[place + 1], order[place]
        place += 1
    while place > target and not must_follow(r, order[place - 1], order[place]):
        order[place], order[place - 1] = order[place - 1], order[place]
        place -= 1
    return place


@part
def shift_back(order: NDArray[np.int64], place: int, target: int) -> None:
    """Move the step at ``place`` to ``target``."""
    step = order[place]
    while place < target:
        order[place] = order[place + 1]
        place += 1
    while place > target:
        order[place] = order[place - 1]
        place -= 1
    order[place] = step


@kernel
def search(
    r: Requests,
    w: Work,
    start: Memory,
    m: Memory,
    order: NDArray[np.int64],
    best: NDArray[np.int64],
    seed: NDArray[np.int64],
    runs: int,
    moves: int,
    most: int,
    goal: int,
) -> int:
    """Leave in ``best`` the order that shows least; return what it shows.

    A move takes one step past some of its neighbours, as far as nothing is read before it is made. Most
    orders show the same peak as another, so a move that is no worse is taken; at first one that is a little
    worse, too. Half of the moves are near the peak. ``order`` is where to begin. No order is taken that asks
    for more than ``most`` bytes at once. It ends after ``moves``, or with the first order that shows at most
    ``goal``. ``seed``: int64[1], used up.
    """
    count = order.shape[0]
    now = shown(r, w, start, m, order, runs, np.iinfo(np.int64).max)
    where, least = m.fact[WHERE], now
    for place in range(count):
        best[place] = order[place]
    for move in range(moves):
        if least <= goal:
            break
        if draw(seed, 2) == 0:
            place = min(count - 1, max(0, where - _NEAR + draw(seed, 2 * _NEAR + 1)))
        else:
            place = draw(seed, count)
        reach = count if draw(seed, 8) == 0 else 1 + draw(seed, _FAR)
        target = max(0, place - reach) if draw(seed, 2) == 0 else min(count - 1, place + reach)
        end = shift(r, order, place, target)
        if end == place:
            continue
        limit = now + int(_WORSE * now * (moves - move) / moves)
        found = limit + 1
        if find_ends(r, w, order) <= most:
            found = shown(r, w, start, m, order, runs, limit)
        if found > limit:
            shift_back(order, end, place)
            continue
        now, where = found, m.fact[WHERE]
        if now < least:
            least = now
            for at in range(count):
                best[at] = order[at]
    return least
