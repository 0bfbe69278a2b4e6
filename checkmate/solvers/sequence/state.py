"""The arrays that hold one step sequence while it is searched.

``sequence.live_bytes`` says what they mean together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.compile.jit import part
from checkmate.solvers.sequence.model import OUT, TAKE, Model

# Rows of ``State.occ``: place in the sequence (-1: not in use), op, next and previous occurrence of the op
# (-1: none), start of its outputs in ``last``; scratch; whether it is among the touched. Then rows by place,
# not by occurrence: the occurrence there; work to do; the touched.
POS, OP, NEXT, PREV, AT, MARK, SEEN, SEQ, TODO, TOUCH = range(10)
# Rows of ``State.mem``: live bytes at each place; bytes that take-overs save at each occurrence.
LIVE, TAKEN = 0, 1
# Rows of ``State.ops``: first and last occurrence, number of them, first unused occurrence id; scratch.
FIRST, FINAL, COUNT, FREE, STAMP = 0, 1, 2, 3, 4
# ``State.num``: steps, occurrence ids given out, entries of ``last`` given out, touched steps, journal
# entries, stamp, whether a change failed for lack of room, the occurrence being removed, improvements so far,
# the most ops that may be recomputed together, whether a plan was given up because it costs too much, the
# random numbers' state, an op whose buffers greedy leaves alone (-1: none).
STEPS, IDS, ENTRIES, TOUCHED, JOURNAL, CLOCK, FULL, LEAVING, BETTER, MOST, DEAR, SEED, HELD = range(13)
# ``State.real``: summed excess over the budget, budget, cost.
EXCESS, BUDGET, COST = 0, 1, 2

# Kinds of changes in ``State.journal``, each with (op or occurrence, place).
INSERTED, REMOVED, MOVED = 0, 1, 2


class State(NamedTuple):
    """One sequence with room for c occurrences.

    It has few arrays with many rows, because every kernel receives all of them.

    ``occ``: int32[10, c].
    ``last``: int64, per occurrence and output the occurrence that reads its buffer last.
    ``ops``: int64[5, n + 1].
    ``mem``: float64[2, c], without the fixed bytes.
    ``journal``: int64[3, j], changes to undo.
    ``num``: int64[13].
    ``real``: float64[8].
    """

    occ: NDArray[np.int32]
    last: NDArray[np.int64]
    ops: NDArray[np.int64]
    mem: NDArray[np.float64]
    journal: NDArray[np.int64]
    num: NDArray[np.int64]
    real: NDArray[np.float64]


@part
def recount(s: State) -> float:
    """Sum the excess again, and return the peak (without fixed bytes)."""
    total, peak = 0.0, 0.0
    for i in range(s.num[STEPS]):
        total += max(s.mem[LIVE, i] - s.real[BUDGET], 0.0)
        peak = max(peak, s.mem[LIVE, i])
    s.real[EXCESS] = total
    return peak


@part
def random(s: State) -> float:
    """Return a number in [0, 1) from the state's own generator (xorshift64)."""
    z = np.uint64(s.num[SEED])
    z ^= z << np.uint64(13)
    z ^= z >> np.uint64(7)
    z ^= z << np.uint64(17)
    s.num[SEED] = np.int64(z)
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def new_state(g: Model, *, steps: int, seed: int) -> State:
    """Return an empty state with room for ``steps`` steps."""
    ops = g.price.shape[1]
    outputs = np.diff(g.op[OUT, : ops + 1])
    steps = max(steps, int(np.diff(g.op[TAKE, : ops + 1]).max(initial=0)) + 2, ops + 1)
    num = np.zeros(13, np.int64)
    num[HELD] = -1
    num[SEED] = (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**62 | 1
    return State(
        occ=np.zeros((10, steps), np.int32),
        last=np.zeros(int(outputs.sum()) + int((2 * outputs.mean() + 1) * steps), np.int64),
        ops=np.full((5, ops), -1, np.int64),
        mem=np.zeros((2, steps)),
        journal=np.zeros((3, 8192), np.int64),
        num=num,
        real=np.zeros(8),
    )


def steps_of(s: State) -> NDArray[np.int32]:
    """Return the op indices in order, without ``end``."""
    steps: NDArray[Any] = s.occ[OP, s.occ[SEQ, : int(s.num[STEPS]) - 1]]
    return steps.astype(np.int32)
