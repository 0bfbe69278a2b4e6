"""A graph as the arrays that the sequence kernels walk.

Only produced values take part (fixed ones are never counted) and are renumbered 0..V-1. A *class* is a value
that owns a buffer together with the views of it; its name is its owner. An extra op ``end`` (index n) reads
every kept value and stands after all others, so "kept" needs no case of its own.

Sizes are divided by their greatest common divisor and stored in float64, where they add exactly below 2^53.
Larger sizes are rounded up and the budget down, so a schedule that fits here always fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.ir.graph import sorted_views
from checkmate.solvers.compile.jit import part

_EXACT = 2**52
_WEIGHED = 400  # ops; weights were not measured on larger graphs, so there every op is equally likely
_LEAST_WEIGHT, _COST_WEIGHT = 0.1, 0.5

# Rows of ``Model.op``: where an op's inputs, outputs and take-over pairs start in ``Model.lists`` (the next
# column is the end), and whether it may run again.
IN, OUT, TAKE, AGAIN = 0, 1, 2, 3
# Rows of ``Model.val``: producer, owner (-1: the buffer is a fixed value's), parent (-1: none that is
# produced), start of its readers and of its class's members in ``Model.lists``, and the position among its
# producer's outputs.
PROD, OWNER, PARENT, READ, MEMB, NTH = 0, 1, 2, 3, 4, 5
# Rows of ``Model.price``.
COSTS, SCRATCH, WEIGHT = 0, 1, 2


class Model(NamedTuple):
    """The arrays that never change during a search.

    ``op``: int64[4, n + 2]. ``val``: int64[6, V + 1]. ``lists``: int64, all lists one after another.
    ``price``: float64[3, n + 1]: cost, workspace, and how likely a random move that meets the op takes it.
    ``size``: float64[V], of the buffer's owner.
    """

    op: NDArray[np.int64]
    val: NDArray[np.int64]
    lists: NDArray[np.int64]
    price: NDArray[np.float64]
    size: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScaledModel:
    """A model whose sizes are in ``unit`` bytes."""

    model: Model
    unit: int
    fixed_bytes: int

    def budget(self, budget_bytes: int) -> float:
        """The budget in units, without the fixed bytes; negative if not even those fit."""
        return float((budget_bytes - self.fixed_bytes) // self.unit)


def build_model(graph: Graph) -> ScaledModel:
    produced = np.flatnonzero(graph.producer >= 0)
    number = np.full(graph.m, -1, np.int64)
    number[produced] = np.arange(len(produced))
    unit = _unit(graph)
    pack = _Lists()
    op = np.zeros((4, graph.n + 2), np.int64)
    ends = [int(v) for v in number[np.flatnonzero(graph.keep)] if v >= 0]
    inputs = [number[row].tolist() for row in (graph.op_inputs[i] for i in range(graph.n))] + [ends]
    outputs = [number[graph.op_outputs[i]].tolist() for i in range(graph.n)] + [[]]
    op[IN] = pack.add(inputs)
    op[OUT] = pack.add(outputs)
    op[TAKE] = pack.add([_pairs(graph, index, number) for index in range(graph.n)] + [[]])
    op[AGAIN, : graph.n] = graph.recomputable
    val = np.full((6, len(produced) + 1), -1, np.int64)
    val[PROD, :-1] = graph.producer[produced]
    val[OWNER, :-1] = number[graph.owner[produced]]
    parent = graph.alias_of[produced].astype(np.int64)
    val[PARENT, :-1] = np.where(parent >= 0, number[parent], -1)
    for row in outputs:
        val[NTH, row] = np.arange(len(row))
    readers: list[list[int]] = [[] for _ in produced]
    for index, row in enumerate(inputs):
        for value in row:
            readers[value].append(index)
    val[READ] = pack.add(readers)
    val[MEMB] = pack.add(_classes(graph, number, len(produced)))
    sizes = [-(-size // unit) for size in graph.value_bytes[graph.owner[produced]].tolist()]
    work = [-(-size // unit) for size in graph.workspace_bytes.tolist()]
    model = Model(
        op,
        val,
        pack.packed(),
        np.array([[*graph.cost.tolist(), 0.0], [*work, 0.0], [*_weights(graph), 1.0]], np.float64),
        np.array(sizes, np.float64),
    )
    return ScaledModel(model, unit, graph.fixed_bytes)


class _Lists:
    """Lists of ids that are packed one after another."""

    def __init__(self) -> None:
        self._ids: list[int] = []

    def add(self, rows: list[list[int]]) -> NDArray[np.int64]:
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        starts += len(self._ids)
        for row in rows:
            self._ids.extend(row)
        return starts

    def packed(self) -> NDArray[np.int64]:
        return np.array([*self._ids, -1], np.int64)


def _weights(graph: Graph) -> NDArray[np.float64]:
    """float64[n], at most 1: how likely a random move that meets an op takes it.

    If most ops are small and cheap, most moves would be about them, although memory and cost lie elsewhere.
    The measure is the op in which a random byte lies, and half of the op in which a random piece of the cost
    lies.
    """
    if graph.n > _WEIGHED:
        return np.ones(graph.n)
    made = np.zeros(graph.n)
    own = (graph.producer >= 0) & (graph.owner == np.arange(graph.m))
    np.add.at(made, graph.producer[own], graph.value_bytes[own].astype(np.float64))
    return np.clip(np.maximum(_share(made), _COST_WEIGHT * _share(graph.cost)), _LEAST_WEIGHT, 1.0)


def _share(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    most = float(sizes.max(initial=0.0))
    if most <= 0.0:
        return np.ones(len(sizes))
    parts = sizes / most  # so that their squares neither vanish nor overflow
    share: NDArray[np.float64] = parts * (parts.sum() / np.dot(parts, parts))
    return share


def _unit(graph: Graph) -> int:
    sizes = [size for size in [*graph.value_bytes.tolist(), *graph.workspace_bytes.tolist()] if size]
    unit = math.gcd(*sizes) if sizes else 1
    while sum(sizes) // unit >= _EXACT:
        unit *= 2
    return unit


def _pairs(graph: Graph, index: int, number: NDArray[np.int64]) -> list[int]:
    flat: list[int] = []
    for output, read in graph.ops[index].takes_over:
        old, new = graph.owner[read], graph.owner[output]
        if (
            graph.producer[old] >= 0
            and number[read] >= 0
            and graph.value_bytes[old] == graph.value_bytes[new]
        ):
            flat += [int(number[output]), int(number[read])]
    return flat


def _classes(graph: Graph, number: NDArray[np.int64], count: int) -> list[list[int]]:
    members: list[list[int]] = [[] for _ in range(count)]
    for value in range(graph.m):
        if graph.owner[value] == value and number[value] >= 0:
            members[number[value]].append(int(number[value]))
    for view, _ in sorted_views(graph):
        if number[graph.owner[view]] >= 0 and number[view] >= 0:
            members[number[graph.owner[view]]].append(int(number[view]))
    return members


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
    """One sequence with room for c occurrences, in few arrays, because every kernel receives all of them.

    ``occ``: int32[10, c]. ``last``: int64, per occurrence and output the occurrence that reads its buffer
    last. ``ops``: int64[5, n + 1]. ``mem``: float64[2, c], without the fixed bytes. ``journal``: int64[3, j],
    changes to undo. ``num``: int64[13]. ``real``: float64[8].
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
    """Sum the excess again."""
    total, peak = 0.0, 0.0
    for i in range(s.num[STEPS]):
        total += max(s.mem[LIVE, i] - s.real[BUDGET], 0.0)
        peak = max(peak, s.mem[LIVE, i])
    s.real[EXCESS] = total
    return peak


@part
def random(s: State) -> float:
    """A number in [0, 1) from the state's own generator (xorshift64)."""
    z = np.uint64(s.num[SEED])
    z ^= z << np.uint64(13)
    z ^= z >> np.uint64(7)
    z ^= z << np.uint64(17)
    s.num[SEED] = np.int64(z)
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def new_state(g: Model, *, steps: int, seed: int) -> State:
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
    """The op indices in order, without ``end``."""
    steps: NDArray[Any] = s.occ[OP, s.occ[SEQ, : int(s.num[STEPS]) - 1]]
    return steps.astype(np.int32)
