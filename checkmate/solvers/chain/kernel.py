"""Fill the chain program's table: for L segments L³ · slots / 6 additions for each way of running."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.compile.jit import inlined, kernel

# The modes in which a stretch of a chain is reversed.
PLAIN, REUSE, SEEDED = 0, 1, 2  # SEEDED and above: the values of one set of seeds are live
_SLACK = 1e-9  # of a slot; covers float rounding


class Sizes(NamedTuple):
    """What the table is made from.

    There are L segments, P price lists, and O options of all segments and price lists.

    In slots, not rounded:

    * ``sweep``: float64[2, P, L, L], what running s to r needs, in row 1 with the seeds that it leaves;
    * ``there``: float64[P + 1, L, L], per mode what is live before any of s to t is reversed;
    * ``standing``: float64[L, L], gradients and held values when r runs and t is the last segment left.

    In whole slots:

    * ``cut``: int64[P, L, L], what stays taken behind r after running s to r;
    * ``needed``: int64[P + 1, L, O], of each option per mode and t;
    * ``taken``: int64[O], what the option retains.

    Costs are shares of the cost of all forward ops:

    * ``forward``: float64[P, L + 1], running sums;
    * ``extra``: float64[2, O], of each option, in row 1 if what passes out of its segment is live.

    ``first``: int64[P, L + 1], where each segment's options begin.
    ``may_reuse``: bool[L].
    """

    sweep: NDArray[np.float64]
    there: NDArray[np.float64]
    standing: NDArray[np.float64]
    cut: NDArray[np.int64]
    needed: NDArray[np.int64]
    taken: NDArray[np.int64]
    forward: NDArray[np.float64]
    extra: NDArray[np.float64]
    first: NDArray[np.int64]
    may_reuse: NDArray[np.bool_]


@kernel
def fill(z: Sizes, costs: NDArray[np.float32], least: NDArray[np.int64], t: int) -> None:
    """Fill in ``costs[mode, t, s, m]`` for every mode and s; smaller t must be filled in before.

    ``least[mode, t, s]``: the number of slots from which the costs are finite.
    """
    slots = costs.shape[3]
    for s in range(t, -1, -1):
        for mode in range(costs.shape[0]):
            best = costs[mode, t, s]
            for m in range(slots):  # what is live already may be freed
                best[m] = costs[PLAIN, t, s, m] if mode == REUSE else np.inf
            if mode != REUSE or z.may_reuse[t]:
                _keep(z, costs, least, mode, s, t, best)
                for q in range(z.cut.shape[0]):
                    if mode < SEEDED or q == mode - 1:
                        # q + 1 is REUSE if no seeds are left; it may be freed.
                        _cut(z, costs, least, mode, s, t, q, q + 1, best)
            first = 0
            while first < slots and best[first] == np.inf:
                first += 1
            least[mode, t, s] = first


@inlined
def _keep(
    z: Sizes,
    costs: NDArray[np.float32],
    least: NDArray[np.int64],
    mode: int,
    s: int,
    t: int,
    best: NDArray[np.float32],
) -> None:
    p = max(0, mode - 1)
    slots = len(best)
    for o in range(z.first[p, s], z.first[p, s + 1]):
        if s == t:
            cost = np.float32(z.extra[1 if mode == REUSE else 0, o])
            for m in range(z.needed[mode, t, o], slots):
                best[m] = cost if cost < best[m] else best[m]
            continue
        cost = np.float32(z.extra[0, o])
        taken = z.taken[o]
        begin = min(slots, max(z.needed[mode, t, o], taken + least[mode, t, s + 1]))
        out, behind = best[begin:], costs[mode, t, s + 1, begin - taken : slots - taken]
        for i in range(len(out)):
            total = behind[i] + cost
            out[i] = total if total < out[i] else out[i]


@inlined
def _cut(
    z: Sizes,
    costs: NDArray[np.float32],
    least: NDArray[np.int64],
    mode: int,
    s: int,
    t: int,
    q: int,
    again: int,
    best: NDArray[np.float32],
) -> None:
    """Run forward to each r, leaving the seeds of price list ``q``; reverse what is behind r, then s to r."""
    p, fresh = max(0, mode - 1), 1 if mode < SEEDED else 0
    slots = len(best)
    for r in range(s, t):
        taken = z.cut[q, s, r]
        begin = max(least[again, r, s], taken + least[mode, t, r + 1])
        needed = z.sweep[fresh, q, s, r] + z.standing[t, r] + z.there[mode, s, t]
        begin = max(begin, math.ceil(needed - _SLACK))
        if begin >= slots:
            continue
        cost = np.float32(z.forward[p, r + 1] - z.forward[p, s])
        out = best[begin:]
        behind, later = costs[mode, t, r + 1, begin - taken : slots - taken], costs[again, r, s, begin:slots]
        for i in range(len(out)):
            total = behind[i] + later[i] + cost
            out[i] = total if total < out[i] else out[i]
