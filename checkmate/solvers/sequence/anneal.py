"""Simulated annealing of a step sequence.

The energy is the cost plus a price on the excess over the budget. There are three moves. Drop a buffer that
lives across a step that is over the budget. Leave a recomputation out and, if a step is then over the budget,
drop something there instead. Move a step within the window that its inputs and readers allow. The price of
excess rises while the sequence does not fit and falls while it does, so the search walks along the edge of
the budget. The result depends on the seed and the number of moves only, never on the clock.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.compile.jit import inlined, kernel, part
from checkmate.solvers.sequence.drops import (
    FITS,
    RATE,
    Scores,
    drop_buffer,
    drop_step,
    fit,
    is_bound_to,
    worst_place,
)
from checkmate.solvers.sequence.edit import insert, movable, move, remove, source, undo
from checkmate.solvers.sequence.kernel_arrays import (
    AGAIN,
    AT,
    BETTER,
    BUDGET,
    COST,
    COSTS,
    EXCESS,
    FULL,
    HELD,
    IN,
    JOURNAL,
    LIVE,
    NEXT,
    NTH,
    OP,
    OUT,
    OWNER,
    POS,
    PREV,
    READ,
    SEQ,
    STEPS,
    WEIGHT,
    Model,
    State,
    random,
    recount,
)

# ``State.real``: cost of the best sequence that fits; the least and the highest price of excess.
BEST, FLOOR, CEILING = 4, 5, 6

_TRIES = 24  # the most random picks for one of the wanted kind
_SPREAD = 0.5  # by which plans of recomputations are random


@part
def _first_read(g: Model, s: State, x: int) -> int:
    j, place = s.occ[OP, x], s.occ[POS, x]
    after = s.occ[NEXT, x]
    best = s.occ[POS, after] if after >= 0 else s.num[STEPS] - 1
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        for k in range(g.val[READ, value], g.val[READ, value + 1]):
            y = s.ops[1, g.lists[k]]
            while y >= 0 and s.occ[POS, y] > place:
                best = min(best, s.occ[POS, y])
                y = s.occ[PREV, y]
    return best


@inlined
def _takes(g: Model, s: State, j: int) -> bool:
    return g.price[WEIGHT, j] >= 1.0 or random(s) < g.price[WEIGHT, j]


@part
def _shift(g: Model, s: State) -> bool:
    place = int(random(s) * (s.num[STEPS] - 1))
    for _ in range(_TRIES):
        if _takes(g, s, s.occ[OP, s.occ[SEQ, place]]):
            break
        place = int(random(s) * (s.num[STEPS] - 1))
    x = s.occ[SEQ, place]
    j = s.occ[OP, x]
    low = s.occ[POS, s.occ[PREV, x]] + 1 if s.occ[PREV, x] >= 0 else 0
    for i in range(g.op[IN, j], g.op[IN, j + 1]):
        low = max(low, s.occ[POS, source(g, s, g.lists[i], place)] + 1)
    high = _first_read(g, s, x)
    if high - low <= 1:
        return False
    kind = random(s)
    if kind < 0.15:
        target = low
    elif kind < 0.3:
        target = high
    elif kind < 0.65:
        target = low + int(random(s) * (high - low + 1))
    else:
        reach = 1 + int(12.0 * random(s) * random(s))
        target = place - reach if random(s) < 0.5 else place + 1 + reach
        target = min(max(target, low), high)
    if target == place or target == place + 1:
        return False
    if movable(g, s, j):
        return move(g, s, x, target if target < place else target - 1)
    return insert(g, s, j, target) >= 0 and remove(g, s, x)


@part
def _some_over(s: State) -> int:
    if random(s) < 0.5:
        place = worst_place(s)
        return place if s.mem[LIVE, place] > s.real[BUDGET] else -1
    steps = s.num[STEPS]
    offset = int(random(s) * steps)
    for i in range(steps):
        place = offset + i if offset + i < steps else offset + i - steps
        if s.mem[LIVE, place] > s.real[BUDGET]:
            return place
    return -1


@part
def _drop_across(g: Model, s: State, place: int, slack: float) -> bool:
    for _ in range(_TRIES):
        x = s.occ[SEQ, int(random(s) * place)]
        j = s.occ[OP, x]
        outputs = g.op[OUT, j + 1] - g.op[OUT, j]
        if outputs == 0 or g.op[AGAIN, j] == 0 or not _takes(g, s, j):
            continue
        value = g.lists[g.op[OUT, j] + int(random(s) * outputs)]
        if g.val[OWNER, value] != value or g.size[value] <= 0.0:
            continue
        if s.occ[POS, s.last[s.occ[AT, x] + g.val[NTH, value]]] <= place or is_bound_to(
            g, s, value, x, place
        ):
            continue
        return drop_buffer(g, s, value, x, place, _SPREAD, 1.0, slack + g.price[COSTS, j])
    return False


@part
def _leave_out(g: Model, s: State) -> bool:
    picked = -1
    more = 2 if random(s) < 0.5 else 1
    for _ in range(2 * _TRIES):
        x = s.occ[SEQ, int(random(s) * (s.num[STEPS] - 1))]
        if s.occ[PREV, x] >= 0 and _takes(g, s, s.occ[OP, x]):
            if picked < 0 or g.price[COSTS, s.occ[OP, x]] > g.price[COSTS, s.occ[OP, picked]]:
                picked = x
            more -= 1
            if more == 0:
                break
    return picked >= 0 and drop_step(g, s, picked)


@inlined
def _propose(g: Model, s: State, slack: float) -> bool:
    kind = random(s)
    if s.real[EXCESS] > 0.0:
        if kind < 0.5:
            place = _some_over(s)
            return place > 0 and _drop_across(g, s, place, slack)
        if kind < 0.65:
            return _leave_out(g, s)
        return _shift(g, s)
    if kind < 0.4:
        if not _leave_out(g, s):
            return False
        for _ in range(2):
            if s.real[EXCESS] <= 0.0 or random(s) < 0.15:
                break
            place = _some_over(s)
            if place > 0 and not _drop_across(g, s, place, slack):
                return False
        return True
    if kind < 0.45:
        return s.num[STEPS] > 2 and _drop_across(g, s, 1 + int(random(s) * (s.num[STEPS] - 2)), slack)
    return _shift(g, s)


@inlined
def _keep_best(g: Model, s: State, best: NDArray[np.int64]) -> bool:
    recount(s)
    cost = 0.0
    for i in range(s.num[STEPS] - 1):
        cost += g.price[COSTS, s.occ[OP, s.occ[SEQ, i]]]
    s.real[COST] = cost
    if s.real[EXCESS] > 0.0 or cost >= s.real[BEST]:
        return False
    s.real[BEST] = cost
    best[0] = s.num[STEPS] - 1
    for i in range(s.num[STEPS] - 1):
        best[i + 1] = s.occ[OP, s.occ[SEQ, i]]
    return True


@kernel
def anneal(
    g: Model, s: State, best: NDArray[np.int64], done: int, moves: int, total: int, hot: float, cold: float
) -> int:
    """Make moves ``done`` to ``done + moves`` of a cycle; return how many, fewer without room.

    The cycle has ``total`` moves and cools from ``hot`` to ``cold``. ``best``: its number of steps, then the
    ops.
    """
    fading = math.log(cold / hot) / total
    warmth = hot
    for turn in range(done, done + moves):
        if turn % 16 == 0 or turn == done:
            warmth = hot * math.exp(fading * (turn - turn % 16))
        if turn % 64 == 0:
            if s.real[EXCESS] > 0.0:
                s.real[RATE] = min(s.real[RATE] * (1.05 if s.real[BEST] < np.inf else 1.15), s.real[CEILING])
            else:
                s.real[RATE] = max(s.real[RATE] * 0.97, s.real[FLOOR])
            if turn % 4096 == 0:
                recount(s)
        s.num[JOURNAL] = 0
        excess, cost = s.real[EXCESS], s.real[COST]
        accepted = _propose(g, s, 8.0 * warmth)
        if accepted:
            worse = s.real[COST] - cost + s.real[RATE] * (s.real[EXCESS] - excess)
            accepted = worse <= 0.0 or random(s) < math.exp(-worse / warmth)
        if not accepted:
            undo(g, s)
            s.real[EXCESS], s.real[COST] = excess, cost
        elif s.real[EXCESS] <= 0.5 and s.real[COST] < s.real[BEST] and _keep_best(g, s, best):
            s.num[BETTER] += 1
        if s.num[FULL]:
            return turn + 1 - done
    return moves


_NOISE = 0.3  # each candidate's score is random by this share, so that greedy decides otherwise each time
_SAMPLE = 16  # recomputations from which one is chosen
_PICKS = 4  # random picks per recomputation wanted


@part
def leave_out(g: Model, s: State) -> bool:
    """Leave one of a few random recomputations out, the likelier the more it saves, and hold its op."""
    total, picked = 0.0, -1
    wanted = _SAMPLE
    for _ in range(_SAMPLE * _PICKS):
        if wanted == 0:
            break
        place = int(random(s) * (s.num[STEPS] - 1))
        if s.occ[PREV, s.occ[SEQ, place]] < 0:
            continue
        wanted -= 1
        s.num[JOURNAL] = 0
        excess, cost = s.real[EXCESS], s.real[COST]
        saved = cost - s.real[COST] if drop_step(g, s, s.occ[SEQ, place]) else 0.0
        undo(g, s)
        s.real[EXCESS], s.real[COST] = excess, cost
        total += saved
        if random(s) * total < saved:
            picked = place
    s.num[JOURNAL] = 0
    if picked < 0:
        return False
    x = s.occ[SEQ, picked]
    s.num[HELD] = s.occ[OP, x]
    return drop_step(g, s, x)


@kernel
def kick(g: Model, s: State, r: Scores, trials: int, least: float, further: float) -> bool:
    """Leave out a recomputation that saves much and fit the rest; return whether it fits.

    The sequence is fitted into the budget without dropping the same value, so a value is held through a long
    stretch and greedy decides again what goes instead. Moves of one step each rarely get there: the steps
    between cost more than both ends. (Ruin and recreate, Schrimpf et al., 2000.) At most ``trials`` drops are
    tried; ``r`` is used up; the price of excess stays as it was.
    """
    if not leave_out(g, s):
        s.num[HELD] = -1
        return False
    rate = s.real[RATE]
    s.real[RATE] = 0.1 * s.real[COST] / max(s.real[EXCESS], 1.0)
    outcome = fit(g, s, r, trials, least, further, _NOISE)
    s.real[RATE], s.num[HELD] = rate, -1
    return outcome == FITS
