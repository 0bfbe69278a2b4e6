"""What a segment of a chain can retain for its own backward ops, at a price in memory and computation.

A segment is treated as a small graph: its forward ops, one op that stands for all that happens until it is
reversed, and its backward ops. One option keeps everything that these read. Further ones come from the greedy
search on the small graph, which is asked to leave ever less live across the op in the middle. Bytes are read
from an exact replay of the small graph, so views, take-overs, workspace and several outputs per op count as
in the whole graph.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkmate.ir import Graph, GraphBuilder, Schedule
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
from checkmate.solvers.chain.forward_segments import Chain, buffer_bytes
from checkmate.solvers.sequence.greedy_solver import CAREFUL, greedy_steps
from checkmate.solvers.sequence.kernel_arrays import SCRATCH, build_model

_SHARES = (0.85, 0.7, 0.55, 0.4, 0.25, 0.1, 0.0)  # the share of the droppable bytes that is still retained
_MIDDLE = -1


@dataclass(frozen=True)
class SegmentOption:
    """One way to run a segment. Bytes do not include its inputs, held values, and gradients that pass by.

    ``retained``: bytes kept from its forward to its backward ops, its outputs included. ``extra``: cost of
    the ops recomputed in its backward pass. ``tail``, ``tail_cost``: the forward ops that must run, and their
    cost, if the values in ``SegmentOptions.reused`` are still live; ``reused_bytes``: bytes of these that it
    reads.
    """

    retained: int
    extra: float
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    forward_peak: int
    backward_peak: int
    tail: tuple[int, ...]
    tail_cost: float
    reused_bytes: int


@dataclass(frozen=True)
class SegmentOptions:
    """A segment's options. ``reused``: values that pass out of it and that its own backward ops read."""

    options: tuple[SegmentOption, ...]
    reused: frozenset[int]
    reused_bytes: int


def price_segments(
    graph: Graph, chain: Chain, *, several_until: float, over: Cancelled
) -> list[SegmentOptions]:
    """The options of every segment, one for each from ``several_until`` on; fewer segments if ``over``."""
    pieces = []
    for segment in range(len(chain.segments)):
        if over():
            break
        small = _SegmentGraph(graph, chain, segment)
        plans = [list(range(small.small.n))]
        if len(chain.segments[segment].forward) > 1:
            plans += small.smaller_plans(several_until, over)
        pieces.append(small.piece(plans))
    return pieces


def passing_by(graph: Graph, chain: Chain) -> list[int]:
    """Per segment, the bytes of gradients that pass by while it is to be reversed."""
    return [
        buffer_bytes(graph, (value for value, (made, last) in chain.late.items() if made > at >= last))
        for at in range(len(chain.segments))
    ]


class _SegmentGraph:
    """One segment as a graph: forward ops, the op in the middle, backward ops."""

    def __init__(self, graph: Graph, chain: Chain, index: int) -> None:
        self._graph, self._chain, self._index = graph, chain, index
        self._segment = chain.segments[index]
        self._builder = GraphBuilder("segment")
        self._local: dict[int, int] = {}
        self._ops = [*self._segment.forward, _MIDDLE, *self._segment.backward]
        self._middle = len(self._segment.forward)
        for op in self._segment.forward:
            self._add(op)
        self._arriving = self._add_middle()
        for op in self._segment.backward:
            self._add(op)
        self.small = self._builder.build()
        passing = (
            v for v, (made, last) in chain.late.items() if made > index > last and v not in self._local
        )
        self._passing = buffer_bytes(graph, passing)

    def smaller_plans(self, until: float, cancelled: Cancelled) -> Iterator[list[int]]:
        """Yield plans (ops of ``small``) that leave fewer and fewer bytes live across the middle."""
        timeline = simulate(self.small, Schedule.plain(self.small))
        peak, most = timeline.peak_bytes, int(timeline.live_bytes[self._middle]) - self._arriving
        least = buffer_bytes(self._graph, self._passing_out())
        scaled = build_model(self.small)
        budget = scaled.budget(peak)
        for share in _SHARES if most > least else ():
            if cancelled() or time.perf_counter() > until:
                return
            allowed = least + math.floor(share * (most - least)) + self._arriving
            price = scaled.model.price.copy()
            price[SCRATCH, self._middle] = max(0.0, budget - math.ceil(allowed / scaled.unit))
            narrow = type(scaled)(scaled.model._replace(price=price), scaled.unit, scaled.fixed_bytes)
            found = greedy_steps(narrow, peak, until=until, cancelled=cancelled, further=CAREFUL)
            if found.fits:
                yield found.steps.tolist()

    def piece(self, plans: Sequence[list[int]]) -> SegmentOptions:
        """Return the options of the plans, without dominated ones."""
        made = {v for op in self._segment.forward for v in self._graph.ops[op].outputs}
        reused = frozenset(self._read_back(plans[0]) & self._passing_out() & made)
        options: list[SegmentOption] = []
        for plan in plans:
            option = self._option(plan, reused)
            if not any(_no_worse(other, option) for other in options):
                options.append(option)
        return SegmentOptions(tuple(options), reused, buffer_bytes(self._graph, reused))

    def _option(self, plan: list[int], reused: frozenset[int]) -> SegmentOption:
        timeline = simulate(self.small, Schedule.of(self.small, plan))
        middle = plan.index(self._middle)
        live = timeline.live_bytes
        once = sum(self._graph.ops[op].cost for op in self._ops if op != _MIDDLE)
        read_back = self._read_back(plan)
        tail = self._tail(read_back - reused, reused)
        return SegmentOption(
            retained=int(live[middle]) - self._arriving,
            extra=max(0.0, timeline.cost - once),
            forward=tuple(self._ops[step] for step in plan[:middle]),
            backward=tuple(self._ops[step] for step in plan[middle + 1 :]),
            forward_peak=int(live[:middle].max(initial=0)),
            backward_peak=int(live[middle + 1 :].max(initial=0)) + self._passing,
            tail=tail,
            tail_cost=sum(self._graph.ops[op].cost for op in tail),
            reused_bytes=buffer_bytes(self._graph, reused & read_back),
        )

    def _tail(self, wanted: set[int], there: frozenset[int]) -> tuple[int, ...]:
        needed = set(wanted)
        tail = []
        for op in reversed(self._segment.forward):
            if self._graph.recomputable[op] and not needed.isdisjoint(self._graph.ops[op].outputs):
                tail.append(op)
                needed.update(set(self._graph.op_inputs[op].tolist()) - there)
        return tuple(reversed(tail))

    def _read_back(self, plan: list[int]) -> set[int]:
        made = {v for op in self._segment.forward for v in self._graph.ops[op].outputs} - self._chain.held
        read: set[int] = set()
        again: set[int] = set()
        for step in plan[plan.index(self._middle) + 1 :]:
            read |= (set(self._graph.op_inputs[self._ops[step]].tolist()) & made) - again
            again.update(self._graph.ops[self._ops[step]].outputs)
        return read | ((made & self._chain.late.keys()) - again)

    def _passing_out(self) -> set[int]:
        before = self._chain.across[self._index - 1] if self._index else frozenset()
        return set(self._chain.across[self._index] - before)

    def _add_middle(self) -> int:
        """Add the op that stands for all ops between the segment's forward and backward pass.

        It reads all that passes out of the segment, and writes what the backward ops read from later
        segments; the bytes of that are returned.
        """
        late = self._chain.late
        touched = dict.fromkeys(v for op in self._segment.backward for v in self._graph.ops[op].inputs)
        arriving = [v for v in touched if v in late and late[v][0] > self._index]
        total, seen, outputs = 0, set(), []
        for value in arriving:
            owner = int(self._graph.owner[value])
            size = self._graph.values[owner].bytes if owner in late and owner not in seen else 0
            seen.add(owner)
            total += size
            self._local[value] = self._builder.value("", size, keep=late[value][1] < self._index)
            outputs.append(self._local[value])
        inputs = [self._local[v] for v in sorted(self._passing_out()) if v in self._local]
        self._builder.op("until reversed", inputs, outputs, recomputable=False)
        return total

    def _add(self, index: int) -> None:
        op = self._graph.ops[index]
        for value in op.inputs:
            if value not in self._local:
                # It passes into the segment, or is held: not counted here.
                self._local[value] = self._builder.value("", 0)
        for value in op.outputs:
            self._local[value] = self._new_value(value)
        self._builder.op(
            "",
            [self._local[v] for v in op.inputs],
            [self._local[v] for v in op.outputs],
            cost=op.cost,
            workspace_bytes=op.workspace_bytes,
            recomputable=op.recomputable,
            takes_over=tuple((self._local[out], self._local[read]) for out, read in op.takes_over),
        )

    def _new_value(self, value: int) -> int:
        entry = self._graph.values[value]
        owner = int(self._graph.owner[value])
        is_held = value in self._chain.held or owner in self._chain.held or self._graph.producer[owner] < 0
        later = value in self._chain.late and self._chain.late[value][1] < self._index
        parent = None if entry.alias_of is None else self._local.get(entry.alias_of)
        return self._builder.value("", 0 if is_held else entry.bytes, keep=later, alias_of=parent)


def _no_worse(one: SegmentOption, other: SegmentOption) -> bool:
    return (
        one.retained <= other.retained
        and one.extra <= other.extra
        and one.backward_peak <= other.backward_peak
        and one.forward_peak <= other.forward_peak
    )
