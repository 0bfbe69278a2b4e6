"""Fit a step sequence into the budget by dropping buffers.

At the worst step, the buffer that lowers the excess most for its cost is dropped. Recomputations that turned
out not to be needed are then left out, the costliest first. The candidates' scores are remembered and
evaluated again only when one comes to the top. (Scores mostly fall as the excess does.) So most are never
evaluated twice. A long chain of recomputations is planned only as far as it could still be worth it. What is
known then is a score that it does not exceed, and it is planned further only if that comes to the top.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.compile.jit import inlined, kernel, part
from checkmate.solvers.sequence.edit import undo
from checkmate.solvers.sequence.model import AGAIN, COSTS, NTH, OUT, OWNER, Model
from checkmate.solvers.sequence.moves import RATE, drop_buffer, drop_step, is_bound_to
from checkmate.solvers.sequence.state import (
    AT,
    COST,
    DEAR,
    EXCESS,
    HELD,
    JOURNAL,
    LIVE,
    OP,
    POS,
    PREV,
    SEQ,
    STEPS,
    State,
    random,
    recount,
)

FITS, STUCK, MORE = 0, 1, 2


@part
def worst_place(s: State) -> int:
    """Return the first place with the most live bytes."""
    best, found = -1.0, 0
    for i in range(s.num[STEPS]):
        if s.mem[LIVE, i] > best:
            best, found = s.mem[LIVE, i], i
    return found


@part
def candidates(g: Model, s: State, place: int, makers: NDArray[np.int64], owners: NDArray[np.int64]) -> int:
    """Fill in the buffers (occurrence, owner) that may be dropped.

    They live across ``place``, are not bound to it and can be made again.
    """
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
    """Return the excess saved per cost by dropping one buffer.

    It is negative if nothing is saved or it cannot be done. Below ``enough`` it may be given up (``DEAR``).
    """
    s.num[JOURNAL] = 0
    excess, cost = s.real[EXCESS], s.real[COST]
    done = drop_buffer(g, s, owner, x, place, 0.0, 1.0 / (enough * s.real[RATE]), least)
    saved, paid = excess - s.real[EXCESS], s.real[COST] - cost
    undo(g, s)
    s.real[EXCESS], s.real[COST] = excess, cost
    return saved / max(paid, least) if done and saved > 0.0 else -1.0


class Scores(NamedTuple):
    """What ``fit`` remembers between drops and calls, for V values.

    ``score``: float64[V], the last score of dropping each owner's buffer (inf: never tried).
    ``tried``: int64[V + 1], the round each was last tried in, and the current round.
    ``makers``, ``owners``: int64, scratch for the candidates.
    """

    score: NDArray[np.float64]
    tried: NDArray[np.int64]
    makers: NDArray[np.int64]
    owners: NDArray[np.int64]


def new_scores(g: Model) -> Scores:
    """Return scores with nothing tried yet."""
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
    """Drop buffers until the sequence fits.

    Returns ``MORE`` after ``trials`` evaluated drops. ``least``: a cost that counts as nothing. ``further``:
    a plan is followed down to this share of the score that is hoped for; less is slower and better.
    ``noise``: the share by which each score is random, up or down.
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
    """Leave out recomputations that the budget does not need, costliest first.

    Returns ``MORE`` after ``trials`` evaluated ones.
    """
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
