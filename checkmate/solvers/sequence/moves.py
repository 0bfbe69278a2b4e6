"""Changes of a step sequence that keep it valid.

``drop_buffer`` ends a buffer before a place and recomputes its value just before its next read, with what
that needs. ``drop_step`` leaves a recomputation out, so that its readers use the earlier result.

Both then remove what nobody reads any more. ``undo`` reverts them exactly.
"""

from __future__ import annotations

from checkmate.solvers.compile.jit import part
from checkmate.solvers.sequence.edit import insert, remove
from checkmate.solvers.sequence.live_bytes import last_read, range_excess, root, source
from checkmate.solvers.sequence.model import (
    AGAIN,
    COSTS,
    IN,
    MEMB,
    NTH,
    OUT,
    OWNER,
    PARENT,
    PROD,
    READ,
    TAKE,
    Model,
)
from checkmate.solvers.sequence.state import (
    AT,
    CLOCK,
    COUNT,
    DEAR,
    FIRST,
    JOURNAL,
    MOST,
    NEXT,
    OP,
    POS,
    PREV,
    SEQ,
    STAMP,
    TODO,
    State,
    random,
)

# ``State.real``: the price of one unit of excess when a recomputation is planned.
RATE = 3


@part
def is_read(g: Model, s: State, x: int) -> bool:
    """Return whether an output of occurrence ``x`` is read. It must be read before it is produced again."""
    j = s.occ[OP, x]
    for i in range(g.op[OUT, j], g.op[OUT, j + 1]):  # noqa: SIM110 (numba compiles no generators)
        if last_read(g, s, g.lists[i], x) != x:
            return True
    return False


@part
def sweep(g: Model, s: State, count: int) -> None:
    """Remove occurrences that nobody reads, and what only they read.

    The first ``count`` occurrences to do are tried.
    """
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
    """Add to ops that run again before ``place`` the ops that they need.

    The first ``count`` ops to do are given. Returns the new count. The result is -1 if this is impossible,
    longer than ``MOST``, or costs more than ``limit`` (``DEAR`` is set then).

    An input whose buffer has ended is either kept longer or recomputed as well, whichever is cheaper with
    excess at ``RATE``. ``spread`` > 0 makes that choice random by up to that factor. The ops are in an order
    of execution.
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
    """Return the first read after ``place`` of a buffer.

    The buffer is that of ``owner`` made by ``x``. The result is (place, value read), or (-1, -1) if there is
    none.
    """
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
    """End the buffer of ``owner`` made by ``x``.

    It ends before ``place``, or at its last read by then. Returns False if this is impossible. It also does
    (``DEAR``) if making the value again costs ``slack`` more than ``patience`` times the value at ``RATE`` of
    the excess that can be saved. The changes made so far stay in the journal either way.
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
            if (i == 0 or s.occ[TODO, i] != s.occ[TODO, i - 1]) and insert(g, s, s.occ[TODO, i], at) < 0:
                return False
            elif i == 0 or s.occ[TODO, i] != s.occ[TODO, i - 1]:
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
    """Leave recomputation ``x`` out; return False if the journal is full.

    ``x`` must not be its op's first occurrence.
    """
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
    """Return whether the step at ``place`` needs the buffer in any case.

    The buffer is that of ``owner`` made by ``x``. It is needed if the step reads it, unless the step could
    take it over if it were not needed later.
    """
    j = s.occ[OP, s.occ[SEQ, place]]
    if g.op[TAKE, j] < g.op[TAKE, j + 1]:
        return False
    for i in range(g.op[IN, j], g.op[IN, j + 1]):
        value = g.lists[i]
        if g.val[OWNER, value] == owner and root(g, s, value, source(g, s, value, place)) == x:
            return True
    return False
