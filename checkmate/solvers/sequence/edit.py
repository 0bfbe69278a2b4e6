"""Insert, remove and move single steps of a sequence, and undo that.

The memory is that of ``checkmate.ir.timeline``. Every execution of an op is an *occurrence* with an id that
survives moves; ``POS`` gives its place. A buffer is named by the occurrence and owner that produced it, and
counts from there to its last read (``last``, an occurrence id, so that inserting elsewhere does not touch
it). A step changes only the buffers of its op's inputs and outputs: each change is a range added to ``mem``,
and the same loop corrects the excess over the budget. A class with views is evaluated again as a whole. A
take-over lowers the step where the input's buffer ends; it is evaluated again where a buffer began or ceased
to end.

Every change is noted in a journal, which the caller clears before it starts, and can be undone exactly, in
reverse order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.solvers.compile.jit import inlined, kernel, part, summing
from checkmate.solvers.sequence.kernel_arrays import (
    AT,
    BUDGET,
    COST,
    COSTS,
    COUNT,
    ENTRIES,
    EXCESS,
    FINAL,
    FIRST,
    FREE,
    FULL,
    IDS,
    IN,
    INSERTED,
    JOURNAL,
    LEAVING,
    LIVE,
    MARK,
    MEMB,
    MOST,
    MOVED,
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
    REMOVED,
    SCRATCH,
    SEED,
    SEEN,
    SEQ,
    STEPS,
    TAKE,
    TAKEN,
    TOUCH,
    TOUCHED,
    Model,
    State,
)

_NOWHERE = 2**30


@part
def source(g: Model, s: State, value: int, place: int) -> int:
    """The occurrence that last produced ``value`` before ``place``; -1 if there is none."""
    x: int = s.ops[FINAL, g.val[PROD, value]]
    while x >= 0 and s.occ[POS, x] >= place:
        x = s.occ[PREV, x]
    return x


@part
def root(g: Model, s: State, value: int, x: int) -> int:
    """The occurrence that produced the buffer of ``value`` as produced by ``x``."""
    parent = g.val[PARENT, value]
    while parent >= 0:
        if g.val[PROD, parent] != g.val[PROD, value]:
            x = source(g, s, parent, s.occ[POS, x])
        value = parent
        parent = g.val[PARENT, value]
    return x


@part
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


@summing
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


@summing
def range_excess(s: State, begin: int, end: int, size: float) -> float:
    """The change of the summed excess if ``add_range`` were called so."""
    budget = s.real[BUDGET]
    change = 0.0
    mem = s.mem[LIVE]
    for i in range(begin, end):
        old = mem[i] - budget
        change += max(old + size, 0.0) - max(old, 0.0)
    return change


@part
def touch(g: Model, s: State, x: int) -> None:
    """Have ``settle`` evaluate the take-overs of occurrence ``x`` again."""
    j = s.occ[OP, x]
    if g.op[TAKE, j] < g.op[TAKE, j + 1] and s.occ[SEEN, x] == 0:
        s.occ[SEEN, x] = 1
        s.occ[TOUCH, s.num[TOUCHED]] = x
        s.num[TOUCHED] += 1


@part
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
    touch(g, s, old)
    touch(g, s, y)


@part
def update_class(g: Model, s: State, owner: int) -> None:
    """Evaluate all buffers of a class with views again."""
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
                    touch(g, s, y)
                    y = s.occ[NEXT, y]
    x = s.ops[FIRST, op]
    while x >= 0:
        set_last(g, s, owner, x, s.occ[MARK, x])
        x = s.occ[NEXT, x]


@part
def _taken_over(g: Model, s: State, x: int) -> float:
    j, place = s.occ[OP, x], s.occ[POS, x]
    total = 0.0
    begin, end = g.op[TAKE, j], g.op[TAKE, j + 1]
    applied = s.occ[MARK]  # the earlier pairs of this op that applied
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
        for k in range(begin, i, 2):  # each output and each buffer is used once
            old = g.val[OWNER, g.lists[k + 1]]
            if applied[k - begin] >= 0 and (
                g.lists[k] == output or (old == owner and applied[k - begin] == r)
            ):
                free = False
        if free:
            total += g.size[owner]
            applied[i - begin] = r
    return total


@part
def settle(g: Model, s: State) -> None:
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


@part
def own_bytes(g: Model, s: State, j: int) -> float:
    total: float = g.price[SCRATCH, j]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == value:
            total += g.size[value]
    return total


@part
def standing(g: Model, s: State, place: int) -> float:
    """The bytes that are live between ``place`` - 1 and ``place``."""
    x = s.occ[SEQ, place]
    live: float = s.mem[LIVE, place] - own_bytes(g, s, s.occ[OP, x]) + s.mem[TAKEN, x]
    return live


@part
def refresh(g: Model, s: State, x: int) -> None:
    """Correct the buffers of what ``x`` reads or writes, after it was linked in or (``LEAVING``) out."""
    j, place = s.occ[OP, x], s.occ[POS, x]
    removed = s.num[LEAVING] == x
    before = s.occ[PREV, x]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        owner = g.val[OWNER, value]
        if owner < 0:
            continue
        if g.val[MEMB, owner + 1] - g.val[MEMB, owner] > 1:
            if removed and value == owner:
                set_last(g, s, owner, x, x)
            update_class(g, s, owner)
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
            update_class(g, s, owner)
            continue
        y = source(g, s, value, place)
        last = s.last[s.occ[AT, y] + g.val[NTH, value]]
        if removed:
            if last == x:
                set_last(g, s, value, y, last_read(g, s, value, y))
        elif s.occ[POS, last] < place:
            set_last(g, s, value, y, x)


@part
def _note(s: State, kind: int, which: int, place: int) -> bool:
    k = s.num[JOURNAL]
    if k >= s.journal.shape[1]:
        return False
    s.journal[0, k], s.journal[1, k], s.journal[2, k] = kind, which, place
    s.num[JOURNAL] = k + 1
    return True


@part
def _new_id(g: Model, s: State, j: int) -> int:
    x: int = s.ops[FREE, j]
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


@part
def _join(s: State, j: int, before: int, after: int, first: int, last: int) -> None:
    """Among the occurrences of op ``j``, let ``first`` follow ``before``, and ``after`` follow ``last``."""
    if before >= 0:
        s.occ[NEXT, before] = first
    else:
        s.ops[FIRST, j] = first
    if after >= 0:
        s.occ[PREV, after] = last
    else:
        s.ops[FINAL, j] = last


@part
def insert(g: Model, s: State, j: int, place: int) -> int:
    """Execute op ``j`` just before ``place``; return its occurrence, -1 without room (``FULL``)."""
    steps = s.num[STEPS]
    x: int = _new_id(g, s, j) if steps < s.occ.shape[1] else -1
    if x < 0 or not _note(s, INSERTED, j, place):
        if x >= 0:
            s.occ[NEXT, x], s.ops[FREE, j] = s.ops[FREE, j], x
        s.num[FULL] = 1
        return -1
    live = standing(g, s, place) + own_bytes(g, s, j)
    pos = s.occ[POS]
    first = np.int32(place)
    for i in range(s.num[IDS]):
        pos[i] += np.int32(pos[i] >= first)
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
    _join(s, j, before, after, x, x)
    s.ops[COUNT, j] += 1
    s.real[COST] += g.price[COSTS, j]
    s.mem[TAKEN, x] = 0.0
    for i in range(g.op[OUT, j + 1] - g.op[OUT, j]):
        s.last[s.occ[AT, x] + i] = x
    touch(g, s, x)
    refresh(g, s, x)
    settle(g, s)
    return x


@part
def remove(g: Model, s: State, x: int) -> bool:
    """Remove ``x``; False without room. Every read of its outputs must find an earlier occurrence."""
    j, place = s.occ[OP, x], s.occ[POS, x]
    if not _note(s, REMOVED, j, place):
        return False
    before, after = s.occ[PREV, x], s.occ[NEXT, x]
    _join(s, j, before, after, after, before)
    s.ops[COUNT, j] -= 1
    s.real[COST] -= g.price[COSTS, j]
    s.num[LEAVING] = x
    refresh(g, s, x)
    s.num[LEAVING] = -1
    pos = s.occ[POS]
    pos[x] = -1
    settle(g, s)
    steps = s.num[STEPS]
    s.real[EXCESS] -= max(s.mem[LIVE, place] - s.real[BUDGET], 0.0)
    seq, mem = s.occ[SEQ], s.mem[LIVE]
    for i in range(place, steps - 1):
        seq[i] = seq[i + 1]
        mem[i] = mem[i + 1]
    first = np.int32(place)
    for i in range(s.num[IDS]):
        pos[i] -= np.int32(pos[i] > first)
    s.num[STEPS] = steps - 1
    s.occ[NEXT, x] = s.ops[FREE, j]
    s.ops[FREE, j] = x
    return True


@part
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


@part
def move(g: Model, s: State, x: int, target: int) -> bool:
    """Move ``x`` to ``target``, as removing and inserting would, without touching what lies outside.

    Its op must be ``movable`` and stay between its sources and its readers, and between its op's other
    occurrences.
    """
    j, place = s.occ[OP, x], s.occ[POS, x]
    if not _note(s, MOVED, x, place):
        return False
    before, after = s.occ[PREV, x], s.occ[NEXT, x]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == value:
            set_last(g, s, value, x, x)
    # Take it out of its op's list, so that it does not count as a reader.
    _join(s, j, before, after, after, before)
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
    mem[target] = live + own_bytes(g, s, j)
    s.mem[TAKEN, x] = 0.0
    s.real[EXCESS] += max(mem[target] - s.real[BUDGET], 0.0)
    _join(s, j, before, after, x, x)
    touch(g, s, x)
    refresh(g, s, x)
    settle(g, s)
    return True


@part
def undo(g: Model, s: State) -> None:
    while s.num[JOURNAL] > 0:
        k = s.num[JOURNAL] - 1
        s.num[JOURNAL] = k
        kind, which, place = s.journal[0, k], s.journal[1, k], s.journal[2, k]
        if kind == INSERTED:
            remove(g, s, s.occ[SEQ, place])
        elif kind == REMOVED:
            insert(g, s, which, place)
        else:
            move(g, s, which, place)
        s.num[JOURNAL] = k


@inlined
def _extend_all(g: Model, s: State) -> None:
    for value in range(len(g.size)):
        owner = g.val[OWNER, value]
        if owner != value:
            continue
        if g.val[MEMB, owner + 1] - g.val[MEMB, owner] > 1:
            update_class(g, s, owner)
            settle(g, s)
            continue
        x = s.ops[FIRST, g.val[PROD, value]]
        while x >= 0:
            set_last(g, s, value, x, last_read(g, s, value, x))
            x = s.occ[NEXT, x]
        settle(g, s)
    for i in range(s.num[STEPS]):
        touch(g, s, s.occ[SEQ, i])
        settle(g, s)


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
        _join(s, j, before, -1, x, x)
        s.ops[COUNT, j] += 1
        s.real[COST] += g.price[COSTS, j]
        s.mem[TAKEN, x] = 0.0
        s.mem[LIVE, place] = own_bytes(g, s, j)
        s.real[EXCESS] += max(s.mem[LIVE, place] - budget, 0.0)
        for i in range(g.op[OUT, j + 1] - g.op[OUT, j]):
            s.last[s.occ[AT, x] + i] = x
    s.num[STEPS] = len(steps) + 1
    _extend_all(g, s)
    return True


def load(g: Model, s: State, steps: NDArray[np.integer[Any]], budget: float) -> bool:
    """Let the sequence be ``steps``, which must be valid, followed by ``end``; False if there is no room."""
    s.num[:SEED] = 0
    s.num[LEAVING], s.num[MOST] = -1, 2000
    s.occ[POS] = -1
    s.occ[SEEN] = 0
    s.ops[:] = -1
    s.ops[COUNT] = 0
    s.real[EXCESS], s.real[BUDGET], s.real[COST] = 0.0, budget, 0.0
    return bool(_load(g, s, np.ascontiguousarray(steps, np.int64), budget))
