"""Fit a step sequence into the budget by dropping buffers.

At the worst step, the buffer that lowers the excess most for its cost is dropped. Recomputations that turned
out not to be needed are then left out, the costliest first. The candidates' scores are remembered and
evaluated again only when one comes to the top: scores mostly fall as the excess does, so most are never
evaluated twice. A long chain of recomputations is planned only as far as it could still be worth it. What is
known then is a score that it does not exceed, and it is planned further only if that comes to the top.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.compile.jit import inlined, kernel, part
from checkmate.solvers.sequence.edit import insert, last_read, range_excess, remove, root, source, undo
from checkmate.solvers.sequence.kernel_arrays import (
    AGAIN,
    AT,
    CLOCK,
    COST,
    COSTS,
    COUNT,
    DEAR,
    EXCESS,
    FIRST,
    HELD,
    IN,
    JOURNAL,
    LIVE,
    MEMB,
    MOST,
    NEXT,
    NTH,
    OP,
    OUT,
    OWNER,
    PARENT,
    POS,
    PREV,
    PROD,
    READ,
    SEQ,
    STAMP,
    STEPS,
    TAKE,
    TODO,
    Model,
    State,
    random,
    recount,
)

# ``State.real``: the price of one unit of excess when a recomputation is planned.
RATE = 3


@part
def is_read(g: Model, s: State, x: int) -> bool:
    """Whether an output of ``x`` is read before it is produced again."""
    j = s.occ[OP, x]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):  # noqa: SIM110 (numba compiles no generators)
        if last_read(g, s, g.lists[i], x) != x:
            return True
    return False


@part
def sweep(g: Model, s: State, count: int) -> None:
    """Of the first ``count`` occurrences to do, remove those that nobody reads, and what only they read."""
    while count > 0:
        count -= 1
        x = s.occ[TODO, count]
        if s.occ[POS, x] < 0:
            continue
        j = s.occ[OP, x]
        if s.ops[COUNT, j] < 2 or is_read(g, s, x):
            continue
        place = s.occ[POS, x]
        if not remove(g, s, x):
            return
        for i in range(g.op[IN, j], g.op[IN, j + 1]):
            y = source(g, s, g.lists[i], place)
            if y >= 0 and count < s.occ.shape[1]:
                s.occ[TODO, count] = y
                count += 1


@part
def plan_chain(g: Model, s: State, count: int, place: int, spread: float, limit: float) -> int:
    """Add to the first ``count`` ops to do, which run again before ``place``, the ops that they need, in
    order.

    Returns the new count; -1 if this is impossible, longer than ``MOST``, or costs more than ``limit``
    (``DEAR`` is set then). An input whose buffer has ended is either kept longer or recomputed as well,
    whichever is cheaper with excess at ``RATE``. ``spread`` > 0 makes that choice random by up to that
    factor.
    """
    s.num[CLOCK] += 1
    stamp = s.num[CLOCK]
    for i in range(count):
        s.ops[STAMP, s.occ[TODO, i]] = stamp
    done = 0
    while done < count:
        j = s.occ[TODO, done]
        done += 1
        limit -= g.price[COSTS, j]
        if limit < 0.0:
            s.num[DEAR] = 1
        if g.op[AGAIN, j] == 0 or limit < 0.0:
            return -1
        for i in range(g.op[IN, j], g.op[IN, j + 1]):
            value = g.lists[i]
            owner = g.val[OWNER, value]
            maker = g.val[PROD, value]
            if owner < 0 or g.op[AGAIN, maker] == 0 or s.ops[STAMP, maker] == stamp:
                continue
            y = source(g, s, value, place)
            end = s.occ[POS, s.last[s.occ[AT, root(g, s, value, y)] + g.val[NTH, owner]]]
            if end >= place:
                continue
            grown = range_excess(s, end + 1, place, g.size[owner]) * s.real[RATE]
            if spread > 0.0:
                grown *= 1.0 + spread * (2.0 * random(s) - 1.0)
            if grown > g.price[COSTS, maker]:
                if count >= s.num[MOST]:
                    return -1
                s.occ[TODO, count] = maker
                s.ops[STAMP, maker] = stamp
                count += 1
    todo = s.occ[TODO]
    for i in range(1, count):  # an insertion sort: chains are short
        j, k = todo[i], i
        while k > 0 and todo[k - 1] > j:
            todo[k] = todo[k - 1]
            k -= 1
        todo[k] = j
    return count


@part
def next_read(g: Model, s: State, owner: int, x: int, place: int) -> tuple[int, int]:
    """The first read after ``place`` of a buffer: (place, value read), or (-1, -1)."""
    best, found = -1, -1
    for i in range(g.val[MEMB, owner], g.val[MEMB, owner + 1]):
        value = g.lists[i]
        for k in range(g.val[READ, value], g.val[READ, value + 1]):
            y = s.ops[FIRST, g.lists[k]]
            while y >= 0:
                at = s.occ[POS, y]
                earlier = at > place and (best < 0 or at < best)
                if earlier and root(g, s, value, source(g, s, value, at)) == x:
                    best, found = at, value
                    break
                y = s.occ[NEXT, y]
    return best, found


@part
def drop_buffer(
    g: Model, s: State, owner: int, x: int, place: int, spread: float, patience: float, slack: float
) -> bool:
    """End the buffer of ``owner`` made by ``x`` before ``place``, or at its last read by then.

    False if this is impossible, or (``DEAR``) if making the value again costs ``slack`` more than
    ``patience`` times the value at ``RATE`` of the excess that can be saved. The changes made so far stay in
    the journal either way.
    """
    begin = s.num[JOURNAL]
    s.num[DEAR] = 0
    for _ in range(2 + 2 * (g.val[MEMB, owner + 1] - g.val[MEMB, owner])):
        at, value = next_read(g, s, owner, x, place)
        if at < 0:
            break
        count = 0
        while value >= 0:  # the view ops between the new buffer and the read
            s.occ[TODO, count] = g.val[PROD, value]
            count += 1
            value = g.val[PARENT, value]
            if value >= 0 and root(g, s, value, source(g, s, value, at)) != x:
                break
        worth = -range_excess(s, s.occ[POS, x] + 1, at, -g.size[owner]) * s.real[RATE]
        count = plan_chain(g, s, count, at, spread, patience * worth + slack)
        if count < 0:
            return False
        for i in range(count):
            if i > 0 and s.occ[TODO, i] == s.occ[TODO, i - 1]:
                continue
            if insert(g, s, s.occ[TODO, i], at) < 0:
                return False
            at += 1
    count = 0
    for k in range(begin, s.num[JOURNAL]):
        y = s.occ[PREV, s.occ[SEQ, s.journal[2, k]]]
        if y >= 0:
            s.occ[TODO, count] = y
            count += 1
    sweep(g, s, count)
    return True


@part
def drop_step(g: Model, s: State, x: int) -> bool:
    """Leave recomputation ``x`` out, not its op's first occurrence; False if the journal is full."""
    j, place = s.occ[OP, x], s.occ[POS, x]
    if not remove(g, s, x):
        return False
    count = 0
    for i in range(g.op[IN, j], g.op[IN, j + 1]):
        s.occ[TODO, count] = source(g, s, g.lists[i], place)
        count += 1
    sweep(g, s, count)
    return True


@part
def is_bound_to(g: Model, s: State, owner: int, x: int, place: int) -> bool:
    """Whether the step at ``place`` needs the buffer in any case: it reads it, and cannot take it over."""
    j = s.occ[OP, s.occ[SEQ, place]]
    if g.op[TAKE, j] < g.op[TAKE, j + 1]:
        return False
    for i in range(g.op[IN, j], g.op[IN, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == owner and root(g, s, value, source(g, s, value, place)) == x:
            return True
    return False


FITS, STUCK, MORE = 0, 1, 2


@part
def worst_place(s: State) -> int:
    best, found = -1.0, 0
    for i in range(s.num[STEPS]):
        if s.mem[LIVE, i] > best:
            best, found = s.mem[LIVE, i], i
    return found


@part
def candidates(g: Model, s: State, place: int, makers: NDArray[np.int64], owners: NDArray[np.int64]) -> int:
    """Fill in the buffers across ``place`` that are not bound to it and can be made again."""
    count = 0
    for i in range(place):
        x = s.occ[SEQ, i]
        j = s.occ[OP, x]
        if g.op[AGAIN, j] == 0 or j == s.num[HELD]:
            continue
        for k in range(g.op[OUT, j], g.op[OUT, j + 1]):
            value = g.lists[k]
            if g.val[OWNER, value] != value or g.size[value] <= 0.0 or count >= len(makers):
                continue
            if s.occ[POS, s.last[s.occ[AT, x] + g.val[NTH, value]]] > place and not is_bound_to(
                g, s, value, x, place
            ):
                makers[count], owners[count] = x, value
                count += 1
    return count


@inlined
def _score(g: Model, s: State, owner: int, x: int, place: int, least: float, enough: float) -> float:
    s.num[JOURNAL] = 0
    excess, cost = s.real[EXCESS], s.real[COST]
    done = drop_buffer(g, s, owner, x, place, 0.0, 1.0 / (enough * s.real[RATE]), least)
    saved, paid = excess - s.real[EXCESS], s.real[COST] - cost
    undo(g, s)
    s.real[EXCESS], s.real[COST] = excess, cost
    return saved / max(paid, least) if done and saved > 0.0 else -1.0


class Scores(NamedTuple):
    """What ``fit`` remembers between drops and calls, for V values.

    ``score``: float64[V], the last score of dropping each owner's buffer (inf: never tried). ``tried``:
    int64[V + 1], the round each was last tried in, and the current round. ``makers``, ``owners``: int64,
    scratch for the candidates.
    """

    score: NDArray[np.float64]
    tried: NDArray[np.int64]
    makers: NDArray[np.int64]
    owners: NDArray[np.int64]


def new_scores(g: Model) -> Scores:
    values = len(g.size)
    room = 4 * values + 16
    return Scores(
        np.full(values, np.inf),
        np.zeros(values + 1, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
    )


@kernel
def fit(g: Model, s: State, r: Scores, trials: int, least: float, further: float, noise: float) -> int:
    """Drop buffers until the sequence fits; ``MORE`` after ``trials`` evaluated drops.

    ``least``: a cost that counts as nothing. ``further``: a plan is followed down to this share of the score
    that is hoped for; less is slower and better. ``noise``: the share by which each score is random, up or
    down.
    """
    current = len(r.tried) - 1
    while True:
        s.num[JOURNAL] = 0
        if s.real[EXCESS] <= 0.5:
            recount(s)
            if s.real[EXCESS] <= 0.0:
                return FITS
        r.tried[current] += 1
        place = worst_place(s)
        count = candidates(g, s, place, r.makers, r.owners)
        while True:
            top, best = -1.0, -1
            for i in range(count):
                if r.score[r.owners[i]] > top:
                    top, best = r.score[r.owners[i]], i
            if best < 0 or r.tried[r.owners[best]] == r.tried[current]:
                break
            if trials <= 0:
                r.tried[current] -= 1  # the same round goes on in the next call
                return MORE
            trials -= 1
            owner = r.owners[best]
            enough = min(top, 1.0 / s.real[RATE]) * further
            r.score[owner] = _score(g, s, owner, r.makers[best], place, least, enough)
            if noise > 0.0:
                r.score[owner] *= 1.0 + noise * (2.0 * random(s) - 1.0)
            if s.num[DEAR]:
                r.score[owner] = enough
            else:
                r.tried[owner] = r.tried[current]
        if best < 0 or top <= 0.0:
            return STUCK
        drop_buffer(g, s, r.owners[best], r.makers[best], place, 0.0, 1.0, np.inf)
        s.real[RATE] = 1.0 / top
        for i in range(count):
            if r.score[r.owners[i]] < 0.0:
                r.score[r.owners[i]] = np.inf


@kernel
def trim(g: Model, s: State, trials: int) -> int:
    """Leave out recomputations that the budget does not need; ``MORE`` after ``trials`` of them."""
    while True:
        best, saved = -1, 0.0
        for i in range(s.num[STEPS]):
            x = s.occ[SEQ, i]
            if s.occ[PREV, x] < 0 or g.price[COSTS, s.occ[OP, x]] <= saved:
                continue
            trials -= 1
            s.num[JOURNAL] = 0
            excess, cost = s.real[EXCESS], s.real[COST]
            gain = -1.0
            if drop_step(g, s, x) and s.real[EXCESS] <= excess:
                gain = cost - s.real[COST]
            undo(g, s)
            s.real[EXCESS], s.real[COST] = excess, cost
            if gain > saved:
                best, saved = i, gain
        if best < 0:
            return FITS
        s.num[JOURNAL] = 0
        drop_step(g, s, s.occ[SEQ, best])
        if trials <= 0:
            return MORE
