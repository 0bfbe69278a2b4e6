"""Find exact optima of tiny graphs by shortest paths over states.

It is written against the definition in ``checkmate.ir.timeline`` and shares no code with the solvers. A state
is what has run and which values are live in which buffers. A step runs one op and then forgets any of the
values it touched: a value dies in a step that reads or writes it, never elsewhere. The time is exponential:
it is for about six ops.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from checkmate.ir import Graph

# A live buffer: the value that owns it, and the live values in it (bit mask). Two may have one owner.
Buffers = tuple[tuple[int, int], ...]


class Order(Enum):
    ANY = "any order"
    FIRST_IN_GIVEN_ORDER = "first computations in the given order"
    STAGES = "in addition, the paper's stages: each in the given order, each op once in it, the last op last"


class _State(NamedTuple):  # millions are hashed and compared, which a tuple does without Python's help
    done: int  # bit mask of the ops that have run
    last: int  # the stage's latest op; -1 at the start of a stage, and where stages do not matter
    buffers: Buffers


@dataclass(frozen=True)
class Optimum:
    cost: float
    steps: list[int]


def optimum(
    graph: Graph, budget_bytes: int, order: Order = Order.ANY, once: Collection[int] = ()
) -> Optimum | None:
    """The cheapest schedule within the budget, or None. The ops in ``once`` run only once."""
    kept = sum(1 << v for v in range(graph.m) if graph.values[v].keep and graph.producer[v] >= 0)
    everything = (1 << graph.n) - 1
    start = _State(0, -1, ())
    best: dict[_State, float] = {start: 0.0}
    came: dict[_State, tuple[_State, int]] = {}
    counter = itertools.count()
    heap = [(0.0, next(counter), start)]
    while heap:
        cost, _, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        if state.done == everything and not kept & ~_live(state.buffers):
            return Optimum(cost, _path(came, state))
        for op in _runnable(graph, state, order):
            if op in once and state.done >> op & 1:
                continue
            for buffers in _after(graph, state.buffers, op, budget_bytes):
                first = not state.done >> op & 1
                last = -1 if first or order is not Order.STAGES else op
                reached = _State(state.done | 1 << op, last, buffers)
                total = cost + graph.ops[op].cost
                if total < best.get(reached, float("inf")):
                    best[reached] = total
                    came[reached] = (state, op)
                    heapq.heappush(heap, (total, next(counter), reached))
    return None


def least_budget(
    graph: Graph, order: Order = Order.ANY, once: Collection[int] = (), cost_cap: float = float("inf")
) -> int:
    """The smallest budget that has a schedule of at most ``cost_cap``, which is at least the plain step's
    cost."""
    low, high = (
        0,
        graph.fixed_bytes + sum(v.bytes for v in graph.values) + max(o.workspace_bytes for o in graph.ops),
    )
    while low < high:
        middle = (low + high) // 2
        best = optimum(graph, middle, order, once)
        if best is None or best.cost > cost_cap + 1e-9:
            low = middle + 1
        else:
            high = middle
    return low


def _path(came: dict[_State, tuple[_State, int]], state: _State) -> list[int]:
    steps: list[int] = []
    while state in came:
        state, op = came[state]
        steps.append(op)
    return steps[::-1]


def _live(buffers: Buffers) -> int:
    mask = 0
    for _, values in buffers:
        mask |= values
    return mask


def _runnable(graph: Graph, state: _State, order: Order) -> Iterator[int]:
    frontier = (~state.done & (state.done + 1)).bit_length() - 1  # the first op that has not run
    live = _live(state.buffers)
    if order is Order.STAGES and frontier == graph.n:
        return
    for index, op in enumerate(graph.ops):
        has_run = state.done >> index & 1
        if has_run and not op.recomputable:
            continue
        if order is not Order.ANY and not has_run and index != frontier:
            continue
        if order is Order.STAGES and index <= state.last:
            continue
        if all(graph.producer[v] < 0 or live >> v & 1 for v in op.inputs):
            yield index


def _after(graph: Graph, before: Buffers, index: int, budget: int) -> set[Buffers]:
    """The possible buffers after op ``index`` ran within the budget: a set for every choice of what it
    forgets."""
    op = graph.ops[index]
    source = {v: b for b, (_, values) in enumerate(before) for v in op.inputs if values >> v & 1}
    written = sum(1 << v for v in op.outputs)
    # A value that is written again is dead by then. An emptied buffer is gone before the op runs.
    buffers = [[owner, values & ~written] for owner, values in before]
    at = dict(source)
    for value in op.outputs:
        parent = graph.values[value].alias_of
        if parent is None:
            buffers.append([value, 0])
            at[value] = len(buffers) - 1
        elif parent in at:
            at[value] = at[parent]
        else:  # a view of a fixed value has no bytes of its own
            buffers.append([parent, 0])
            at[value] = len(buffers) - 1
        buffers[at[value]][1] |= 1 << value
    size = [graph.values[owner].bytes for owner, _ in buffers]
    produced = [b for b, (owner, values) in enumerate(buffers) if values and graph.producer[owner] >= 0]
    used = graph.fixed_bytes + op.workspace_bytes + sum([size[b] for b in produced])
    if used > budget and not op.takes_over:
        return set()
    touched = sorted(at)
    found: set[Buffers] = set()
    for forgotten in itertools.chain.from_iterable(
        itertools.combinations(touched, k) for k in range(len(touched) + 1)
    ):
        gone = sum([1 << v for v in forgotten])
        left = [(owner, values & ~gone) for owner, values in buffers]
        freed = {b for b in produced if not left[b][1]} if op.takes_over else set()
        if used - _taken_over(graph, index, at, freed, size) <= budget:
            found.add(tuple(sorted([buffer for buffer in left if buffer[1]])))
    return found


def _taken_over(graph: Graph, index: int, at: dict[int, int], freed: set[int], size: list[int]) -> int:
    saved = 0
    outputs: set[int] = set()
    left = set(freed)
    for output, read in graph.ops[index].takes_over:
        if output in outputs or read not in at or graph.producer[read] < 0:
            continue
        old, new = at[read], at[output]
        if old in left and old != new and size[old] == size[new]:
            saved += size[old]
            left.discard(old)
            outputs.add(output)
    return saved
