"""A first schedule of a step with many equal blocks.

The step with a dozen blocks is searched for the budget that leaves as much to each block; its schedule is
carried over. The small budget is corrected until the whole fits. Of two schedules, one that fits and a
cheaper one that does not, each block takes one, so that the budget is used.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import GraphError
from checkmate.ir import Graph, Op, Schedule, Value
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
from checkmate.solvers.listeners import CancelListener
from checkmate.solvers.problem import Problem
from checkmate.solvers.sequence.greedy_solver import QUICK, greedy_steps
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import SequenceSearch

_LEAST = 4  # the fewest blocks
_TRIED = 32  # periods to try
_NEARLY = 0.98  # of the longest run: a shorter period that covers this much is preferred


@dataclass(frozen=True)
class RepeatedSection:
    """A run of ``count`` equal blocks of ``period`` ops from op ``start``."""

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count


@dataclass(frozen=True)
class Repeats:
    """The equal blocks of a step; the backward section runs through them from last to first."""

    forward: RepeatedSection
    backward: RepeatedSection

    @property
    def count(self) -> int:
        return min(self.forward.count, self.backward.count)


def find_repeats(graph: Graph) -> Repeats | None:
    numbers: dict[tuple[object, ...], int] = {}
    looks = np.array([numbers.setdefault(_look(graph, op), len(numbers)) for op in graph.ops], np.int64)
    late = graph.late
    turn = int(np.argmax(late)) if late.any() else graph.n
    forward, backward = _longest(looks[:turn], 0), _longest(looks[turn:], turn)
    if forward is None or backward is None:
        return None
    found = Repeats(forward, backward)
    return found if found.count >= _LEAST else None


def _look(graph: Graph, op: Op) -> tuple[object, ...]:
    size = graph.value_bytes
    return (
        op.type,
        op.phase,
        op.recomputable,
        op.workspace_bytes,
        tuple(int(size[value]) for value in op.inputs),
        tuple(int(size[value]) for value in op.outputs),
    )


def _longest(looks: NDArray[np.int64], offset: int) -> RepeatedSection | None:
    found: list[tuple[int, int, int]] = []  # ops covered, period, start
    for period in _periods(looks):
        start, length = _longest_true(looks[period:] == looks[:-period])
        if length >= (_LEAST - 1) * period:
            found.append((length + period, period, start))
    if not found:
        return None
    most = max(covered for covered, _, _ in found)
    covered, period, start = next(entry for entry in found if entry[0] >= _NEARLY * most)
    return RepeatedSection(offset + start, period, covered // period)


def _periods(looks: NDArray[np.int64]) -> list[int]:
    order = np.argsort(looks, kind="stable")
    gaps = np.diff(order)[np.diff(looks[order]) == 0]
    gaps = gaps[gaps <= len(looks) // _LEAST]
    periods, votes = np.unique(gaps, return_counts=True)
    return sorted(int(period) for period in periods[np.argsort(-votes)][:_TRIED])


def _longest_true(flags: NDArray[np.bool_]) -> tuple[int, int]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    at = int(np.argmax(lengths))
    return int(edges[2 * at]), int(lengths[at])


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A step with ``left`` of its repeated blocks. ``ops``: int64[n], per op its index in the whole step."""

    repeats: Repeats
    graph: Graph
    ops: NDArray[np.int64]
    left: int
    forward: RepeatedSection


@dataclass(frozen=True)
class _Gap:
    """Ops to cut out: ``start`` to before ``stop``, in a section of blocks with ``period`` ops each."""

    start: int
    stop: int
    period: int

    def holds(self, op: int) -> bool:
        return self.start <= op < self.stop

    def stand_in(self, op: int) -> int:
        return op - -(-(op - self.start + 1) // self.period) * self.period


def shrink(graph: Graph, repeats: Repeats, left: int) -> Shrunk | None:
    """Return the step with ``left`` blocks, at least 3, at its ends; None if it cannot be made."""
    away = repeats.count - left
    if away < 1:
        return None
    first = (left + 1) // 2
    forward = _gap(repeats.forward, first, away)
    backward = _backward_gap(graph, repeats, forward, away)
    if backward is None:
        return None
    try:
        small, ops = _without(graph, (forward, backward), repeats.backward.stop)
    except GraphError:
        return None
    section = RepeatedSection(repeats.forward.start, repeats.forward.period, repeats.forward.count - away)
    return Shrunk(repeats, small, ops, left, section)


def _gap(section: RepeatedSection, first: int, away: int) -> _Gap:
    start = section.start + first * section.period
    return _Gap(start, start + away * section.period, section.period)


def _backward_gap(graph: Graph, repeats: Repeats, forward: _Gap, away: int) -> _Gap | None:
    section, producer = repeats.backward, graph.producer
    reads = np.array(
        [
            op
            for op in range(section.start, section.stop)
            for value in graph.ops[op].inputs
            if forward.holds(int(producer[value]))
        ],
        np.int64,
    )
    if not len(reads):
        return None
    length = away * section.period
    first = max(int(reads[0]), section.start + section.period)
    starts = np.arange(first, min(first + section.period, section.stop - length) + 1)
    if not len(starts):
        return None
    left = np.searchsorted(reads, starts) + len(reads) - np.searchsorted(reads, starts + length)
    # The last of them: the block after the gap reads what the gap handed on, and stays.
    start = int(starts[np.flatnonzero(left == left.min())[-1]])
    return _Gap(start, start + length, section.period)


def _without(graph: Graph, gaps: tuple[_Gap, _Gap], after: int) -> tuple[Graph, NDArray[np.int64]]:
    """Return the graph without the gaps, and the ops that stay; GraphError if what is left is not a step.

    From op ``after`` on, ops that only read from the gaps are cut out too: they update the removed blocks.
    """
    gone = np.zeros(graph.n, np.bool_)
    for gap in gaps:
        gone[gap.start : gap.stop] = True
    stands_for = {value: value for value in range(graph.m)}
    for gap in gaps:
        for op in range(gap.start, gap.stop):
            twins = graph.ops[gap.stand_in(op)].outputs
            stands_for.update(zip(graph.ops[op].outputs, twins, strict=True))
    for op in range(after, graph.n):
        made = [value for value in graph.ops[op].inputs if graph.producer[value] >= 0]
        gone[op] = bool(made) and all(gone[graph.producer[value]] for value in made)
    ops = np.flatnonzero(~gone)
    return _renumbered(graph, ops, gone, stands_for), ops


def _renumbered(
    graph: Graph, ops: NDArray[np.int64], gone: NDArray[np.bool_], stands_for: dict[int, int]
) -> Graph:
    stay = [value for value in range(graph.m) if graph.producer[value] < 0 or not gone[graph.producer[value]]]
    number = {value: place for place, value in enumerate(stay)}

    def read(value: int) -> int | None:
        return number.get(stands_for[value])

    def op_of(op: Op) -> Op:
        inputs = tuple(dict.fromkeys(found for value in op.inputs if (found := read(value)) is not None))
        outputs = tuple(number[value] for value in op.outputs)
        pairs = ((number[made], read(taken)) for made, taken in op.takes_over)
        kept = tuple((made, taken) for made, taken in pairs if taken is not None)
        return replace(op, inputs=inputs, outputs=outputs, takes_over=kept)

    def value_of(value: Value) -> Value:
        parent = value.alias_of
        return value if parent is None else replace(value, alias_of=read(parent))

    return Graph(
        graph.name,
        tuple(op_of(graph.ops[op]) for op in ops.tolist()),
        tuple(value_of(graph.values[value]) for value in stay),
        fixed_bytes=graph.fixed_bytes,
        cost_unit=graph.cost_unit,
        cost_origin=graph.cost_origin,
    )


_ENDS = 2  # blocks at either end that are copied one to one; the ones between repeat the small step's middle


def dropped_ops(graph: Graph, steps: NDArray[np.int32]) -> NDArray[np.bool_]:
    """bool[n]: whether a forward op runs again in the backward pass."""
    late = graph.late
    turn = int(np.argmax(late[steps])) if late[steps].any() else len(steps)
    again = np.zeros(graph.n, np.bool_)
    again[steps[turn:]] = True
    return again & ~late


def spread(shrunk: Shrunk, whole: Graph, again: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """bool[N]: ``again`` of the small step, for the whole step's ops."""
    found = np.zeros(whole.n, np.bool_)
    found[shrunk.ops] = again
    section, small = shrunk.repeats.forward, shrunk.forward
    for block in range(section.count):
        twin = _twin(block, section.count, small.count)
        start, from_ = section.start + block * section.period, small.start + twin * small.period
        found[start : start + section.period] = again[from_ : from_ + small.period]
    return found


def _twin(block: int, count: int, small: int) -> int:
    ends = min(_ENDS, (small - 1) // 2)
    if block < ends:
        return block
    if block >= count - ends:
        return small - (count - block)
    return ends + (block - ends) % (small - 2 * ends)


def steps_without(graph: Graph, again: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The given order, with the ops ``again``, of the forward pass, made once more when first needed."""
    late = graph.late
    turn = int(np.argmax(late)) if late.any() else graph.n
    steps, here = list(range(turn)), ~again
    producer = graph.producer
    for op in range(turn, graph.n):
        waiting = [op]
        while waiting:
            top = waiting[-1]
            missing = [
                maker
                for value in graph.ops[top].inputs
                if (maker := int(producer[value])) >= 0 and not here[maker]
            ]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if top == op or not here[top]:
                steps.append(top)
                here[top] = True
    return np.array(steps, np.int32)


_LEAST_OPS = 1500  # smaller steps are searched as they are
_SMALL_OPS, _FEWEST, _MOST = 1000, 6, 24  # ops and blocks of the small step
_AT_LEAST, _AT_MOST = 2, 0.5  # times as many blocks as the small step has; its share of the ops
_ROUNDS = (10_000, 20_000, 40_000, 80_000)  # moves of the search, each round


@dataclass(frozen=True, eq=False)
class _Pattern:
    """Which ops of the small step run again, and the whole step's schedule with the same choice."""

    again: NDArray[np.bool_]
    steps: NDArray[np.int32]
    peak: int
    cost: float


class BlocksOf:
    """The blocks of one graph, looked for once, when they are first asked for."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def found(self) -> Shrunk | None:
        return blocks_of(self._graph)


def blocks_of(graph: Graph) -> Shrunk | None:
    """Return the step with a few of its blocks; None where there are too few."""
    repeats = find_repeats(graph) if graph.n >= _LEAST_OPS else None
    if repeats is None:
        return None
    ops_of_block = repeats.forward.period + repeats.backward.period
    left = min(_MOST, max(_FEWEST, _SMALL_OPS // ops_of_block))
    shrunk = shrink(graph, repeats, left) if repeats.count >= _AT_LEAST * left else None
    if shrunk is None or shrunk.graph.n > _AT_MOST * graph.n:
        return None
    return shrunk


def repeated_schedules(
    problem: Problem,
    blocks: Shrunk,
    *,
    until: float,
    cancelled: Cancelled,
    seed: int = 0,
    rounds: int = len(_ROUNDS),
) -> Iterator[NDArray[np.int32]]:
    """Yield schedules that fit, each cheaper than the one before, in ``rounds`` that grow longer."""
    yield from _Join(problem, blocks, seed).schedules(_ROUNDS[:rounds], until, cancelled)


@dataclass
class _Join:
    problem: Problem
    shrunk: Shrunk
    seed: int
    best: float = field(init=False, default=math.inf)
    fits: _Pattern | None = field(init=False, default=None)
    over: _Pattern | None = field(init=False, default=None)

    def schedules(
        self, rounds: Sequence[int], until: float, cancelled: Cancelled
    ) -> Iterator[NDArray[np.int32]]:
        small, budget = self.shrunk.graph, self._small_budget()
        scaled, start = build_model(small), np.arange(small.n, dtype=np.int32)
        for moves in rounds:
            if cancelled() or time.perf_counter() > until:
                return
            end = greedy_steps(scaled, budget, until=until, cancelled=cancelled, start=start, further=QUICK)
            search = SequenceSearch(small, scaled, budget, end.steps, seed=self.seed)
            search.run(CancelListener(cancelled), until=until, moves=moves)
            start = end.steps if search.best is None else search.best
            found = self._pattern(spread(self.shrunk, self.problem.graph, dropped_ops(small, start)))
            self._note(found)
            mixed = self._mixed(until, cancelled)
            for pattern in (found, mixed):
                if pattern is not None and self._fits(pattern) and pattern.cost < self.best:
                    self.best = pattern.cost
                    yield pattern.steps
            over = found.peak - self.problem.budget_bytes
            budget -= int(over * self.shrunk.left / self.shrunk.repeats.count)

    def _small_budget(self) -> int:
        whole, small = self.problem.graph, self.shrunk.graph
        saved = _plain_peak(whole) - self.problem.budget_bytes
        return int(_plain_peak(small) - saved * self.shrunk.left / self.shrunk.repeats.count)

    def _pattern(self, again: NDArray[np.bool_]) -> _Pattern:
        graph = self.problem.graph
        steps = steps_without(graph, again)
        peak = simulate(graph, Schedule.of(graph, steps)).peak_bytes
        return _Pattern(again, steps, peak, float(graph.cost[steps].sum()))

    def _fits(self, found: _Pattern) -> bool:
        return found.peak <= self.problem.budget_bytes

    def _note(self, found: _Pattern) -> None:
        if self._fits(found):
            if self.fits is None or found.cost < self.fits.cost:
                self.fits = found
        elif self.over is None or found.peak < self.over.peak:
            self.over = found

    def _mixed(self, until: float, cancelled: Cancelled) -> _Pattern | None:
        if self.fits is None or self.over is None or self.over.cost >= self.fits.cost:
            return None
        section = self.shrunk.repeats.forward
        low, high, best = 0, section.count, None
        while high - low > 1 and not cancelled() and time.perf_counter() < until:
            middle = (low + high) // 2
            again = self.fits.again.copy()
            first = slice(section.start, section.start + middle * section.period)
            again[first] = self.over.again[first]
            found = self._pattern(again)
            if self._fits(found):
                low, best = middle, found
            else:
                high = middle
        return best


def _plain_peak(graph: Graph) -> int:
    return simulate(graph, Schedule.plain(graph)).peak_bytes
