"""The live bytes of a step sequence, kept exact while steps come and go.

``sequence.edit`` relies on this. The memory is that of ``checkmate.ir.timeline``. Every execution of an op is
an *occurrence* with an id that survives moves; ``POS`` gives its place. A buffer is named by the occurrence
and owner that produced it. It counts from there to its last read (``last``, an occurrence id, so that
inserting elsewhere does not touch it). A step changes only the buffers of its op's inputs and outputs: each
change is a range added to ``mem``, and the same loop corrects the excess over the budget. A class with views
is evaluated again as a whole. A take-over lowers the step where the input's buffer ends; it is evaluated
again where a buffer began or ceased to end.
"""

from __future__ import annotations

from checkmate.solvers.compile.jit import part, summing
from checkmate.solvers.sequence.model import (
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
from checkmate.solvers.sequence.state import (
    AT,
    BUDGET,
    EXCESS,
    FINAL,
    FIRST,
    LEAVING,
    LIVE,
    MARK,
    NEXT,
    OP,
    POS,
    PREV,
    SEEN,
    SEQ,
    TAKEN,
    TOUCH,
    TOUCHED,
    State,
)

_NOWHERE = 2**30


@part
def source(g: Model, s: State, value: int, place: int) -> int:
    """Return the occurrence that last produced ``value`` before ``place``.

    The result is -1 if there is none.
    """
    x: int = s.ops[FINAL, g.val[PROD, value]]
    while x >= 0 and s.occ[POS, x] >= place:
        x = s.occ[PREV, x]
    return x


@part
def root(g: Model, s: State, value: int, x: int) -> int:
    """Return the occurrence that produced the buffer of a value.

    The value is ``value`` as produced by occurrence ``x``.
    """
    parent = g.val[PARENT, value]
    while parent >= 0:
        if g.val[PROD, parent] != g.val[PROD, value]:
            x = source(g, s, parent, s.occ[POS, x])
        value = parent
        parent = g.val[PARENT, value]
    return x


@part
def last_read(g: Model, s: State, value: int, x: int) -> int:
    """Return the last occurrence that reads ``value`` as produced by ``x``.

    The result is ``x`` itself if none does.
    """
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
    """Return the change of the summed excess if ``size`` were added.

    It would be added to places [begin, end).
    """
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
    """Return the bytes that take-overs save at occurrence ``x``."""
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
    """Return the bytes of workspace and new buffers of op ``j``."""
    total: float = g.price[SCRATCH, j]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == value:
            total += g.size[value]
    return total


@part
def standing(g: Model, s: State, place: int) -> float:
    """Return the bytes that are live between ``place`` - 1 and ``place``."""
    x = s.occ[SEQ, place]
    live: float = s.mem[LIVE, place] - own_bytes(g, s, s.occ[OP, x]) + s.mem[TAKEN, x]
    return live


@part
def refresh(g: Model, s: State, x: int) -> None:
    """Correct the buffers that occurrence ``x`` reads or writes.

    Call this after ``x`` was linked in or (``LEAVING``) out.
    """
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
