"""The chain program's table, compiled: about L³ · slots / 6 additions for each way of running, for L segments."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.chain_kernel_modes import PLAIN, REUSE, SEEDED
from checkmate.solvers.jit import kernel

_SLACK = 1e-9  # of a slot: float rounding


class Sizes(NamedTuple):
    """What the table is made from; L segments, P price lists, O options of all segments and price lists.

    In slots, not rounded: ``sweep``: float64[2, P, L, L], what running s to r needs, in row 1 with the seeds that it leaves;
    ``there``: float64[P + 1, L, L], per mode what is there before any of s to t is reversed; ``standing``: float64[L, L],
    gradients and held values when r runs and t is the last segment left. In whole slots: ``cut``: int64[P, L, L], what stays
    taken behind r after running s to r; ``needed``: int64[P + 1, L, O], of each option per mode and t; ``taken``: int64[O],
    what it retains. Costs are shares of all forward ops: ``forward``: float64[P, L + 1], running sums; ``extra``: float64[2, O],
    of each option, in row 1 where what passes out of its segment is there. ``first``: int64[P, L + 1], where each segment's
    options begin; ``may_reuse``: bool[L].
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
def fill(z: Sizes, costs: NDArray[np.float32]) -> None:
    """Fill in ``costs[mode, t, s, m]``: of reversing s to t in m slots beyond what passes into s; infinite so far."""
    modes, count, slots = costs.shape[0], costs.shape[1], costs.shape[3]
    for t in range(count):
        for s in range(t, -1, -1):
            for mode in range(modes):
                if mode == REUSE and not z.may_reuse[t]:
                    continue
                p = max(0, mode - 1)
                for o in range(z.first[p, s], z.first[p, s + 1]):
                    needed, taken = z.needed[mode, t, o], z.taken[o]
                    if s == t:
                        cost = np.float32(z.extra[1 if mode == REUSE else 0, o])
                        for m in range(needed, slots):
                            costs[mode, t, s, m] = min(costs[mode, t, s, m], cost)
                    else:
                        _add(costs, (mode, t, s), max(needed, taken), (mode, t, s + 1, taken), (-1, 0, 0), z.extra[0, o])
                for q in range(1 - z.cut.shape[0], 2):
                    # Run anew as the mode is; plain modes: plain, with what passed out still there, or with seeds.
                    if mode < SEEDED:
                        again, own = (1 - q, max(0, -q))
                    elif q == 1:
                        again, own = mode, p
                    else:
                        continue
                    fresh = 1 if mode < SEEDED else 0
                    for r in range(s, t):
                        needed = z.sweep[fresh, own, s, r] + z.standing[t, r] + z.there[mode, s, t]
                        taken = z.cut[own, s, r]
                        begin = max(taken, math.ceil(needed - _SLACK))
                        cost = z.forward[p, r + 1] - z.forward[p, s]
                        if begin < slots and (again != REUSE or z.may_reuse[r]):
                            _add(costs, (mode, t, s), begin, (mode, t, r + 1, taken), (again, r, s), cost)


@kernel
def _add(
    costs: NDArray[np.float32],
    target: tuple[int, int, int],
    begin: int,
    behind: tuple[int, int, int, int],
    again: tuple[int, int, int],
    cost: float,
) -> None:
    """Lower ``target``'s costs from slot ``begin`` on to those of ``behind`` in so many slots less, of ``again``, and ``cost``."""
    slots = costs.shape[3]
    out = costs[target[0], target[1], target[2], begin:slots]
    first = costs[behind[0], behind[1], behind[2], begin - behind[3] : slots - behind[3]]
    share = np.float32(cost)
    if again[0] < 0:
        for i in range(len(out)):
            total = first[i] + share
            out[i] = total if total < out[i] else out[i]
        return
    second = costs[again[0], again[1], again[2], begin:slots]
    for i in range(len(out)):
        total = first[i] + second[i] + share
        out[i] = total if total < out[i] else out[i]
