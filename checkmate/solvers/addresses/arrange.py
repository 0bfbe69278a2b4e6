"""Arrange a schedule's steps so that the allocator wastes little.

A free chunk that is a little too large is handed out whole, and one that is a little too small helps nobody.
Which chunks are free depends on the order of requests. Here the same steps are put in another order, as far
as ``StepRequests.after`` allows; so cost and gradients stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkmate.memory.step_requests import InitialAllocations, StepRequests
from checkmate.solvers.addresses.allocator_kernels import (
    MISSING,
    PEAK,
    Memory,
    Requests,
    Work,
    new_memory,
    search,
    serve,
    shown,
)

_RUNS = 2  # steps served for each order that is tried; the answer is checked with more
_NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Shown:
    """What the meter shows: most ``bytes`` in chunks, and those ``missing``."""

    bytes: int
    missing: int = 0

    @property
    def badness(self) -> int:
        """What a search makes as small as it can."""
        return self.bytes + self.missing


class Allocator:
    """Serves a step's requests in any order of its steps."""

    def __init__(self, requests: StepRequests, before: InitialAllocations) -> None:
        self.requests = requests
        room = 2 * (len(before.requests) + 4 * len(requests.buffers)) + 64
        self._start, chunks = _played(before, room)
        self._memory = new_memory(before.capacity, room)
        self._kernel = _packed(requests, before, chunks)
        self._work = Work(
            np.zeros((2, len(requests.buffers)), np.int64),
            np.zeros((2, requests.parts), np.int64),
            np.zeros(1 + max((b.variable for b in requests.buffers), default=-1), np.int64),
            np.zeros(len(before.unclaimed), np.int64),
        )

    def shown(self, order: Sequence[int] | None = None, *, runs: int = 4) -> Shown:
        """What the meter shows in the first ``runs`` steps of training; ``order``: places of the steps."""
        at = np.arange(len(self.requests.steps)) if order is None else np.asarray(order, np.int64)
        shown(self._kernel, self._work, self._start, self._memory, at, runs, _NO_LIMIT)
        return Shown(int(self._memory.fact[PEAK]), int(self._memory.fact[MISSING]))

    def arranged(self, *, moves: int, seed: int, goal: int) -> list[int]:
        """Return the places of the steps in the best order found, after ``moves`` or at ``goal`` bytes."""
        order = np.arange(len(self.requests.steps), dtype=np.int64)
        best, numbers = order.copy(), np.array([seed + 1], np.int64)
        search(
            self._kernel,
            self._work,
            self._start,
            self._memory,
            order,
            best,
            numbers,
            _RUNS,
            moves,
            self.requests.requested_peak(),
            goal,
        )
        found: list[int] = best.tolist()
        return found


def arrange(
    requests: StepRequests,
    before: InitialAllocations,
    *,
    moves: int,
    seed: int = 0,
    goal: int = 0,
) -> list[int]:
    """The steps in an order, the same for a ``seed``, that shows no more and asks for no more at once."""
    allocator = Allocator(requests, before)
    places = allocator.arranged(moves=moves, seed=seed, goal=goal)
    if allocator.shown(places).badness >= allocator.shown().badness:
        return list(requests.steps)
    return [requests.steps[place] for place in places]


def _played(before: InitialAllocations, room: int) -> tuple[Memory, dict[int, int]]:
    memory = new_memory(before.capacity, room)
    names = {handle: number for number, handle in enumerate({each.handle: None for each in before.requests})}
    chunks = np.full(len(names), -1, np.int64)
    handles = np.array([names[each.handle] for each in before.requests], np.int64)
    serve(memory, handles, np.array([each.bytes for each in before.requests], np.int64), chunks)
    return memory, {handle: int(chunks[number]) for handle, number in names.items()}


def _packed(requests: StepRequests, before: InitialAllocations, chunks: dict[int, int]) -> Requests:
    buffers = requests.buffers
    table = np.zeros((4, len(buffers) + 1), np.int64)
    table[:3, :-1] = np.array([(b.bytes, b.variable, b.kept) for b in buffers], np.int64).reshape(-1, 3).T
    table[3, 1:] = np.cumsum([len(b.readers) for b in buffers])
    asks = np.bincount([b.part for b in buffers], minlength=requests.parts)
    claims = [(size, chunks[handle]) for size, handle in before.unclaimed]
    return Requests(
        first_part=requests.first_part.astype(np.int64),
        first_ask=np.concatenate([[0], np.cumsum(asks)]).astype(np.int64),
        buffer=table,
        readers=np.array([reader for b in buffers for reader in b.readers], np.int64),
        claims=np.ascontiguousarray(np.array(claims, np.int64).reshape(-1, 2).T),
        first_after=np.array(requests.after.starts, np.int64),
        after=np.array(requests.after.ids, np.int64),
    )
