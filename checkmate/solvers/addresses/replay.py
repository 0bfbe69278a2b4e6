"""Serve the requests of a step of training, in an order of its steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.addresses.memory import (
    IN_USE,
    MISSING,
    PEAK,
    WHERE,
    Memory,
    allocate,
    copy_memory,
    release,
)
from checkmate.solvers.compile.jit import kernel, part

# Rows of ``Requests.buffer``.
BYTES, VARIABLE, KEPT, FIRST_READER = range(4)
# Rows of ``Work.buffer`` and ``Work.part``.
CHUNK, NEXT = range(2)
RANK, DYING = range(2)
_NONE = -1


class Requests(NamedTuple):
    """What the steps ask for, in whatever order they run.

    There are T steps with P parts and B buffers.

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
    """Serve plain requests; return the most bytes in use meanwhile.

    A ``size`` of 0 gives ``handle`` back. ``chunk``: of each handle, -1 if it has none.
    """
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
    """Find after which part each buffer dies; return the most bytes asked.

    Those are the bytes asked for at once.
    """
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
    """Return the most bytes asked for at once."""
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
    """Return the chunk that is free after buffer ``b`` dies.

    A variable keeps the buffer and gives back its own chunk.
    """
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
    """Serve one step of training; return the most bytes in use meanwhile.

    It ends early where more than ``limit`` are.
    """
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
    """Return the peak that the meter shows in the first ``runs`` steps.

    ``start``: the allocator before them; ``m`` is used up, and has the bytes that were missing and the
    place where the last run had its peak. What is missing counts twice, so that it is avoided. It may end
    early where more than ``limit`` bytes are in use.
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
