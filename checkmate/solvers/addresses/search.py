"""Search orders of the same steps for what the allocator serves best.

A move takes one step past some of its neighbours, as far as nothing is read before it is made. Most orders
show the same peak as another, so a move that is no worse is taken; at first one that is a little worse, too.
Half of the moves are near the peak. The result depends on the seed and the number of moves only, never on the
clock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.addresses.memory import WHERE, Memory
from checkmate.solvers.addresses.replay import Requests, Work, find_ends, shown
from checkmate.solvers.compile.jit import kernel, part

_WORSE = 0.004  # of the peak: how much worse an order may be at first
_NEAR = 24  # steps beside the peak
_FAR = 16  # steps: how far a step is moved at most; one of eight moves goes as far as it can


@part
def draw(seed: NDArray[np.int64], below: int) -> int:
    """Return a random number from 0 up to ``below``, which is not in it."""
    seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
    high = seed[0] >> 8
    seed[0] = (seed[0] * 1103515245 + 12345) & 0x7FFFFFFF
    return int(((high << 16) ^ (seed[0] >> 8)) % below)


@part
def must_follow(r: Requests, before: int, after: int) -> bool:
    """Return whether step ``after`` must come after ``before``."""
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

    ``order`` is where to begin. No order is taken that asks for more than ``most`` bytes at once. It ends
    after ``moves``, or with the first order that shows at most ``goal``. ``seed``: int64[1], used up.
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
