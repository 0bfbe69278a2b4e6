"""A step sequence with its live bytes, changed one step at a time: the exact, incremental core of greedy and local search.

The memory is that of ``checkmate.ir.timeline``. Every execution of an op is an *occurrence* with an id that survives moves;
``pos`` gives its place. A buffer is named by the occurrence and owner that produced it and counts from there to its last
read (``last``, an occurrence id, so that inserting elsewhere does not touch it). Inserting or removing one step changes the
buffers of that op's inputs and outputs only: each becomes a range added to ``mem``, and the excess over the budget is
corrected by the same loop. A class with views is evaluated anew as a whole. A take-over lowers the step where the input's
buffer ends; it is evaluated again where a buffer began or ceased to end.

Every change can be undone exactly, in reverse order. ``end`` (see ``sequence_model``) always stands last.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.jit import kernel
from checkmate.solvers.sequence_model import (
    COSTS,
    IN,
    MEMB,
    NTH,
    OUT,
    OWNER,
    PARENT,
    PROD,
    READ,
    SCRATCH,
    TAKE,
    Model,
)

# Rows of ``State.occ``: place in the sequence (-1: not in use), op, next and previous occurrence of the op (-1: none),
# start of its outputs in ``last``; scratch; whether it is among the touched. Then rows by place, not by occurrence: the
# occurrence there; work to do; the touched.
POS, OP, NEXT, PREV, AT, MARK, SEEN, SEQ, TODO, TOUCH = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
# Rows of ``State.mem``: live bytes at each place; bytes by which take-overs lower each occurrence.
LIVE, TAKEN = 0, 1
# Rows of ``State.ops``: first and last occurrence, number of them, first unused occurrence id; scratch.
FIRST, FINAL, COUNT, FREE, STAMP = 0, 1, 2, 3, 4
# ``State.num``: steps, occurrence ids given out, entries of ``last`` given out, touched steps, journal entries, stamp,
# whether an insertion failed for lack of room, and the state of the random numbers.
STEPS, IDS, ENTRIES, TOUCHED, JOURNAL, CLOCK, FULL, SEED = 0, 1, 2, 3, 4, 5, 6, 7
# ``State.real``: summed excess over the budget, budget, cost.
EXCESS, BUDGET, COST = 0, 1, 2

_NOWHERE = 2**30


class State(NamedTuple):
    """One sequence with room for c occurrences; few arrays with many rows, because every kernel is passed all of them.

    ``occ``: int64[10, c]; ``last``: int64, per occurrence and output the occurrence that reads its buffer last; ``ops``:
    int64[5, n + 1]; ``mem``: float64[2, c], without the fixed bytes; ``journal``: int64[3, j], changes to undo; ``num``:
    int64[10]; ``real``: float64[8].
    """

    occ: NDArray[np.int64]
    last: NDArray[np.int64]
    ops: NDArray[np.int64]
    mem: NDArray[np.float64]
    journal: NDArray[np.int64]
    num: NDArray[np.int64]
    real: NDArray[np.float64]


@kernel
def source(g: Model, s: State, value: int, place: int) -> int:
    """The occurrence that last produced ``value`` before ``place``; -1 if none."""
    x = s.ops[FINAL, g.val[PROD, value]]
    while x >= 0 and s.occ[POS, x] >= place:
        x = s.occ[PREV, x]
    return x


@kernel
def root(g: Model, s: State, value: int, x: int) -> int:
    """The occurrence that produced the buffer which ``value``, produced by occurrence ``x``, lies in."""
    parent = g.val[PARENT, value]
    while parent >= 0:
        if g.val[PROD, parent] != g.val[PROD, value]:
            x = source(g, s, parent, s.occ[POS, x])
        value = parent
        parent = g.val[PARENT, value]
    return x


@kernel
def last_read(g: Model, s: State, value: int, x: int) -> int:
    """The last occurrence that reads ``value`` as produced by ``x``; ``x`` itself if none does."""
    best, found = s.occ[POS, x], x
    after = s.occ[NEXT, x]
    limit = s.occ[POS, after] if after >= 0 else _NOWHERE
    for i in range(g.val[READ, value], g.val[READ, value + 1]):
        y = s.ops[FINAL, g.lists[i]]
        while y >= 0 and s.occ[POS, y] > limit:
            y = s.occ[PREV, y]
        if y >= 0 and s.occ[POS, y] > best:
            best, found = s.occ[POS, y], y
    return found


@kernel
def add_range(s: State, begin: int, end: int, size: float) -> None:
    """Add ``size`` to the live bytes of places [begin, end)."""
    budget = s.real[BUDGET]
    change = 0.0
    mem = s.mem[LIVE]
    for i in range(begin, end):
        old = mem[i]
        new = old + size
        mem[i] = new
        change += max(new - budget, 0.0) - max(old - budget, 0.0)
    s.real[EXCESS] += change


@kernel
def range_excess(s: State, begin: int, end: int, size: float) -> float:
    """By how much the summed excess would change if ``size`` were added to places [begin, end)."""
    budget = s.real[BUDGET]
    change = 0.0
    mem = s.mem[LIVE]
    for i in range(begin, end):
        old = mem[i] - budget
        change += max(old + size, 0.0) - max(old, 0.0)
    return change


@kernel
def _touch(g: Model, s: State, x: int) -> None:
    j = s.occ[OP, x]
    if g.op[TAKE, j] < g.op[TAKE, j + 1] and s.occ[SEEN, x] == 0:
        s.occ[SEEN, x] = 1
        s.occ[TOUCH, s.num[TOUCHED]] = x
        s.num[TOUCHED] += 1


@kernel
def set_last(g: Model, s: State, owner: int, x: int, y: int) -> None:
    """Let the buffer of ``owner`` produced by ``x`` end with ``y``."""
    at = s.occ[AT, x] + g.val[NTH, owner]
    old = s.last[at]
    if old == y:
        return
    s.last[at] = y
    before, now = s.occ[POS, old], s.occ[POS, y]
    if now > before:
        add_range(s, before + 1, now + 1, g.size[owner])
    else:
        add_range(s, now + 1, before + 1, -g.size[owner])
    _touch(g, s, old)
    _touch(g, s, y)


@kernel
def _update_class(g: Model, s: State, owner: int) -> None:
    """Evaluate all buffers of a class with views anew."""
    op = g.val[PROD, owner]
    x = s.ops[FIRST, op]
    while x >= 0:
        s.occ[MARK, x] = x
        x = s.occ[NEXT, x]
    for i in range(g.val[MEMB, owner], g.val[MEMB, owner + 1]):
        value = g.lists[i]
        x = s.ops[FIRST, g.val[PROD, value]]
        while x >= 0:
            y, r = last_read(g, s, value, x), root(g, s, value, x)
            if s.occ[POS, y] > s.occ[POS, s.occ[MARK, r]]:
                s.occ[MARK, r] = y
            x = s.occ[NEXT, x]
        for k in range(g.val[READ, value], g.val[READ, value + 1]):
            reader = g.lists[k]
            if g.op[TAKE, reader] < g.op[TAKE, reader + 1]:
                y = s.ops[FIRST, reader]
                while y >= 0:
                    _touch(g, s, y)
                    y = s.occ[NEXT, y]
    x = s.ops[FIRST, op]
    while x >= 0:
        set_last(g, s, owner, x, s.occ[MARK, x])
        x = s.occ[NEXT, x]


@kernel
def _taken_over(g: Model, s: State, x: int) -> float:
    """Bytes by which take-overs lower occurrence ``x``."""
    j, place = s.occ[OP, x], s.occ[POS, x]
    total = 0.0
    begin, end = g.op[TAKE, j], g.op[TAKE, j + 1]
    applied = s.occ[MARK]  # which earlier pairs of this op applied
    for i in range(begin, end, 2):
        output, read = g.lists[i], g.lists[i + 1]
        owner = g.val[OWNER, read]
        applied[i - begin] = -1
        r = root(g, s, read, source(g, s, read, place))
        if s.last[s.occ[AT, r] + g.val[NTH, owner]] != x:
            continue
        if g.val[OWNER, output] == owner and root(g, s, output, x) == r:
            continue
        free = True
        for k in range(begin, i, 2):  # each output and each buffer once
            old = g.val[OWNER, g.lists[k + 1]]
            if applied[k - begin] >= 0 and (g.lists[k] == output or (old == owner and applied[k - begin] == r)):
                free = False
        if free:
            total += g.size[owner]
            applied[i - begin] = r
    return total


@kernel
def _settle(g: Model, s: State) -> None:
    """Evaluate the take-overs of every touched step again."""
    for i in range(s.num[TOUCHED]):
        x = s.occ[TOUCH, i]
        s.occ[SEEN, x] = 0
        place = s.occ[POS, x]
        if place < 0:
            continue
        new = _taken_over(g, s, x)
        if new != s.mem[TAKEN, x]:
            add_range(s, place, place + 1, s.mem[TAKEN, x] - new)
            s.mem[TAKEN, x] = new
    s.num[TOUCHED] = 0


@kernel
def _own_bytes(g: Model, s: State, j: int) -> float:
    """Workspace and new buffers of op ``j``."""
    total = g.price[SCRATCH, j]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == value:
            total += g.size[value]
    return total


@kernel
def standing(g: Model, s: State, place: int) -> float:
    """Bytes live between ``place`` - 1 and ``place``."""
    x = s.occ[SEQ, place]
    return s.mem[LIVE, place] - _own_bytes(g, s, s.occ[OP, x]) + s.mem[TAKEN, x]


@kernel
def _refresh(g: Model, s: State, x: int, removed: bool) -> None:
    """Correct the buffers that occurrence ``x`` reads or writes, after it was linked in or (``removed``) out."""
    j, place = s.occ[OP, x], s.occ[POS, x]
    before = s.occ[PREV, x]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        owner = g.val[OWNER, value]
        if owner < 0:
            continue
        if g.val[MEMB, owner + 1] - g.val[MEMB, owner] > 1:
            if removed and value == owner:
                set_last(g, s, owner, x, x)
            _update_class(g, s, owner)
            continue
        set_last(g, s, value, x, x if removed else last_read(g, s, value, x))
        if before >= 0:
            set_last(g, s, value, before, last_read(g, s, value, before))
    for i in range(g.op[IN, j], g.op[IN, j + 1]):
        value = g.lists[i]
        owner = g.val[OWNER, value]
        if owner < 0:
            continue
        if g.val[MEMB, owner + 1] - g.val[MEMB, owner] > 1:
            _update_class(g, s, owner)
            continue
        y = source(g, s, value, place)
        last = s.last[s.occ[AT, y] + g.val[NTH, value]]
        if removed:
            if last == x:
                set_last(g, s, value, y, last_read(g, s, value, y))
        elif s.occ[POS, last] < place:
            set_last(g, s, value, y, x)


@kernel
def _new_id(g: Model, s: State, j: int) -> int:
    """An unused occurrence id for op ``j``; -1 where there is no room."""
    x = s.ops[FREE, j]
    if x >= 0:
        s.ops[FREE, j] = s.occ[NEXT, x]
        return x
    outputs = g.op[OUT, j + 1] - g.op[OUT, j]
    x = s.num[IDS]
    if x >= s.occ.shape[1] or s.num[ENTRIES] + outputs > len(s.last):
        return -1
    s.num[IDS] += 1
    s.occ[OP, x] = j
    s.occ[AT, x] = s.num[ENTRIES]
    s.num[ENTRIES] += outputs
    return x


@kernel
def insert(g: Model, s: State, j: int, place: int) -> int:
    """Execute op ``j`` just before what is now at ``place``; its occurrence, or -1 where there is no room (``FULL``)."""
    steps = s.num[STEPS]
    x = _new_id(g, s, j) if steps < s.occ.shape[1] else -1
    if x < 0:
        s.num[FULL] = 1
        return -1
    live = standing(g, s, place) + _own_bytes(g, s, j)
    pos = s.occ[POS]
    for i in range(s.num[IDS]):
        pos[i] += 1 if pos[i] >= place else 0
    seq, mem = s.occ[SEQ], s.mem[LIVE]
    for i in range(steps, place, -1):
        seq[i] = seq[i - 1]
        mem[i] = mem[i - 1]
    s.occ[SEQ, place], s.mem[LIVE, place], pos[x] = x, live, place
    s.real[EXCESS] += max(live - s.real[BUDGET], 0.0)
    s.num[STEPS] = steps + 1
    before = s.ops[FINAL, j]
    after = -1
    while before >= 0 and pos[before] > place:
        after, before = before, s.occ[PREV, before]
    s.occ[PREV, x], s.occ[NEXT, x] = before, after
    if before >= 0:
        s.occ[NEXT, before] = x
    else:
        s.ops[FIRST, j] = x
    if after >= 0:
        s.occ[PREV, after] = x
    else:
        s.ops[FINAL, j] = x
    s.ops[COUNT, j] += 1
    s.real[COST] += g.price[COSTS, j]
    s.mem[TAKEN, x] = 0.0
    for i in range(g.op[OUT, j + 1] - g.op[OUT, j]):
        s.last[s.occ[AT, x] + i] = x
    _touch(g, s, x)
    _refresh(g, s, x, False)
    _settle(g, s)
    return x


@kernel
def remove(g: Model, s: State, x: int) -> None:
    """Take occurrence ``x`` out; every read of its outputs must find an earlier one."""
    j, place = s.occ[OP, x], s.occ[POS, x]
    before, after = s.occ[PREV, x], s.occ[NEXT, x]
    if before >= 0:
        s.occ[NEXT, before] = after
    else:
        s.ops[FIRST, j] = after
    if after >= 0:
        s.occ[PREV, after] = before
    else:
        s.ops[FINAL, j] = before
    s.ops[COUNT, j] -= 1
    s.real[COST] -= g.price[COSTS, j]
    _refresh(g, s, x, True)
    pos = s.occ[POS]
    pos[x] = -1
    _settle(g, s)
    steps = s.num[STEPS]
    s.real[EXCESS] -= max(s.mem[LIVE, place] - s.real[BUDGET], 0.0)
    seq, mem = s.occ[SEQ], s.mem[LIVE]
    for i in range(place, steps - 1):
        seq[i] = seq[i + 1]
        mem[i] = mem[i + 1]
    for i in range(s.num[IDS]):
        pos[i] -= 1 if pos[i] > place else 0
    s.num[STEPS] = steps - 1
    s.occ[NEXT, x] = s.ops[FREE, j]
    s.ops[FREE, j] = x


@kernel
def movable(g: Model, s: State, j: int) -> bool:
    """Whether ``move`` can handle op ``j``: none of its values belongs to a class with views."""
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        owner = g.val[OWNER, g.lists[i]]
        if owner >= 0 and g.val[MEMB, owner + 1] - g.val[MEMB, owner] > 1:
            return False
    for i in range(g.op[IN, j], g.op[IN, j + 1]):
        owner = g.val[OWNER, g.lists[i]]
        if owner >= 0 and g.val[MEMB, owner + 1] - g.val[MEMB, owner] > 1:
            return False
    return True


@kernel
def move(g: Model, s: State, x: int, target: int) -> None:
    """Let occurrence ``x`` stand at ``target``; the same as removing and inserting, without touching what lies outside.

    Its op must be ``movable`` and stay between its sources and its readers, and between its op's other occurrences.
    """
    j, place = s.occ[OP, x], s.occ[POS, x]
    before, after = s.occ[PREV, x], s.occ[NEXT, x]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == value:
            set_last(g, s, value, x, x)
    if before >= 0:  # out of its op's list, so that it does not count as a reader
        s.occ[NEXT, before] = after
    else:
        s.ops[FIRST, j] = after
    if after >= 0:
        s.occ[PREV, after] = before
    else:
        s.ops[FINAL, j] = before
    for i in range(g.op[IN, j], g.op[IN, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == value:
            y = source(g, s, value, place)
            if s.last[s.occ[AT, y] + g.val[NTH, value]] == x:
                set_last(g, s, value, y, last_read(g, s, value, y))
    s.real[EXCESS] -= max(s.mem[LIVE, place] - s.real[BUDGET], 0.0)
    seq, mem, pos = s.occ[SEQ], s.mem[LIVE], s.occ[POS]
    if target < place:
        live = standing(g, s, target)
        for i in range(place, target, -1):
            seq[i], mem[i] = seq[i - 1], mem[i - 1]
            pos[seq[i]] = i
    else:
        live = standing(g, s, target + 1)
        for i in range(place, target):
            seq[i], mem[i] = seq[i + 1], mem[i + 1]
            pos[seq[i]] = i
    seq[target], pos[x] = x, target
    mem[target] = live + _own_bytes(g, s, j)
    s.mem[TAKEN, x] = 0.0
    s.real[EXCESS] += max(mem[target] - s.real[BUDGET], 0.0)
    if before >= 0:
        s.occ[NEXT, before] = x
    else:
        s.ops[FIRST, j] = x
    if after >= 0:
        s.occ[PREV, after] = x
    else:
        s.ops[FINAL, j] = x
    _touch(g, s, x)
    _refresh(g, s, x, False)
    _settle(g, s)


@kernel
def _load(g: Model, s: State, steps: NDArray[np.int64], budget: float) -> bool:
    n = g.price.shape[1] - 1
    for place in range(len(steps) + 1):
        j = steps[place] if place < len(steps) else n
        x = _new_id(g, s, j)
        if x < 0:
            return False
        s.occ[POS, x], s.occ[SEQ, place] = place, x
        before = s.ops[FINAL, j]
        s.occ[PREV, x], s.occ[NEXT, x] = before, -1
        if before >= 0:
            s.occ[NEXT, before] = x
        else:
            s.ops[FIRST, j] = x
        s.ops[FINAL, j] = x
        s.ops[COUNT, j] += 1
        s.real[COST] += g.price[COSTS, j]
        s.mem[TAKEN, x] = 0.0
        s.mem[LIVE, place] = _own_bytes(g, s, j)
        s.real[EXCESS] += max(s.mem[LIVE, place] - budget, 0.0)
        for i in range(g.op[OUT, j + 1] - g.op[OUT, j]):
            s.last[s.occ[AT, x] + i] = x
    s.num[STEPS] = len(steps) + 1
    _extend_all(g, s)
    return True


@kernel
def _extend_all(g: Model, s: State) -> None:
    for value in range(len(g.size)):
        owner = g.val[OWNER, value]
        if owner != value:
            continue
        if g.val[MEMB, owner + 1] - g.val[MEMB, owner] > 1:
            _update_class(g, s, owner)
            _settle(g, s)
            continue
        x = s.ops[FIRST, g.val[PROD, value]]
        while x >= 0:
            set_last(g, s, value, x, last_read(g, s, value, x))
            x = s.occ[NEXT, x]
        _settle(g, s)
    for i in range(s.num[STEPS]):
        _touch(g, s, s.occ[SEQ, i])
        _settle(g, s)


@kernel
def recount(s: State) -> float:
    """Sum the excess anew, and return the peak (without fixed bytes)."""
    total, peak = 0.0, 0.0
    for i in range(s.num[STEPS]):
        total += max(s.mem[LIVE, i] - s.real[BUDGET], 0.0)
        peak = max(peak, s.mem[LIVE, i])
    s.real[EXCESS] = total
    return peak


@kernel
def random(s: State) -> float:
    """A number in [0, 1) from the state's own generator (xorshift64)."""
    z = np.uint64(s.num[SEED])
    z ^= z << np.uint64(13)
    z ^= z >> np.uint64(7)
    z ^= z << np.uint64(17)
    s.num[SEED] = np.int64(z)
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def new_state(g: Model, *, steps: int, seed: int) -> State:
    """An empty state with room for ``steps`` steps."""
    ops = g.price.shape[1]
    outputs = np.diff(g.op[OUT, : ops + 1])
    steps = max(steps, int(np.diff(g.op[TAKE, : ops + 1]).max(initial=0)) + 2, ops + 1)
    num = np.zeros(10, np.int64)
    num[SEED] = (seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**62 | 1
    return State(
        occ=np.zeros((10, steps), np.int64),
        last=np.zeros(int(outputs.sum()) + int((2 * outputs.mean() + 1) * steps), np.int64),
        ops=np.full((5, ops), -1, np.int64),
        mem=np.zeros((2, steps)),
        journal=np.zeros((3, 8192), np.int64),
        num=num,
        real=np.zeros(8),
    )


def load(g: Model, s: State, steps: NDArray[np.integer[Any]], budget: float) -> bool:
    """Let the sequence be ``steps`` (which must be valid) followed by ``end``; False where there is no room."""
    s.num[:SEED] = 0
    s.occ[POS] = -1
    s.occ[SEEN] = 0
    s.ops[:] = -1
    s.ops[COUNT] = 0
    s.real[EXCESS], s.real[BUDGET], s.real[COST] = 0.0, budget, 0.0
    loaded: bool = _load(g, s, np.ascontiguousarray(steps, np.int64), budget)
    return loaded


def steps_of(s: State) -> NDArray[np.int64]:
    """The op indices in order, without ``end``."""
    steps: NDArray[Any] = s.occ[OP, s.occ[SEQ, : int(s.num[STEPS]) - 1]]
    return steps.astype(np.int32)
