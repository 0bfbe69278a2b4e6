"""The cheapest plan of every stretch of a chain in every amount of memory, by dynamic programming.

After Beaumont, Eyraud-Dubois, Hermann, Joly and Shilova, "Optimal checkpointing for heterogeneous chains: how to train deep neural
networks with limited memory" (arXiv 1911.13214): to reverse segments s to t from what passes into s, either run forward to some
cut, retain what passes it, reverse what is behind, then reverse s up to the cut from s again; or run s and retain what one
of its options says, reverse s + 1 to t, and run the backward ops of s. Memory is counted in slots. What differs:

* a segment has several options (``chain_options``), as have the blocks of Rockmate (Zhao et al., ICML 2023);
* a cut can be passed by several values, some of which pass earlier cuts too; those are counted once;
* what was retained at a cut may stay until the segment before the cut is reversed, which then need not make it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.solvers.chain_options import Option, Piece, passing_by
from checkmate.solvers.chain_segments import Chain, buffer_bytes

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Prices:
    """What the program counts, in bytes; L segments.

    ``forward``: float64[L + 1], cost of the forward ops of all segments before each. ``sweep[s, r]``: peak of running s to r,
    retaining nothing but what passes into s (not counted) and out of r. ``cut[s, r]``: what passes out of r but not into s.
    ``gradients[t]``, ``held[t]``: of gradients and of held values while t is the last segment left to reverse; ``at_first[s]``:
    of held values when segment s runs for the first time.
    """

    pieces: tuple[Piece, ...]
    forward: NDArray[np.float64]
    sweep: Ints
    cut: Ints
    gradients: Ints
    held: Ints
    at_first: Ints


def price(graph: Graph, chain: Chain, pieces: Sequence[Piece]) -> Prices:
    """The prices of a chain."""
    count = len(chain.segments)
    cost = [sum(graph.ops[op].cost for op in segment.forward) for segment in chain.segments]
    sweep, cut = _sweeps(graph, chain), np.zeros((count, count), np.int64)
    for s in range(count):
        into = chain.across[s - 1] if s else frozenset()
        for r in range(s, count):
            cut[s, r] = buffer_bytes(graph, chain.across[r] - into)
    gradients = np.array(passing_by(graph, chain), np.int64)
    held, at_first = _held_bytes(graph, chain)
    return Prices(tuple(pieces), np.concatenate([[0.0], np.cumsum(cost)]), sweep, cut, gradients, held, at_first)


def _sweeps(graph: Graph, chain: Chain) -> Ints:
    """``Prices.sweep``."""
    order = [op for segment in chain.segments for op in segment.forward]
    position = {op: i for i, op in enumerate(order)}
    ends = np.cumsum([len(segment.forward) for segment in chain.segments])
    made, last, size = _buffers(graph, chain, position)
    count, length = len(chain.segments), len(order)
    sweep = np.zeros((count, count), np.int64)
    work = graph.workspace_bytes[order]
    for s in range(count):
        begin = int(ends[s - 1]) if s else 0
        ours = made >= begin
        change = np.zeros(length + 1, np.int64)
        np.add.at(change, made[ours], size[ours])
        np.subtract.at(change, last[ours] + 1, size[ours])
        live = np.cumsum(change)[:length] + work
        peaks = np.maximum.reduceat(live, [0, *ends[:-1].tolist()])
        sweep[s, s:] = np.maximum.accumulate(peaks[s:])
    return sweep


def _buffers(graph: Graph, chain: Chain, position: dict[int, int]) -> tuple[Ints, Ints, Ints]:
    """Of every buffer of the forward pass that is not held: where it is made, where last read by a forward op, its bytes."""
    made: dict[int, int] = {}
    last: dict[int, int] = {}
    readers = graph.value_readers.lists()
    for value in chain.made_in:
        owner = int(graph.owner[value])
        if value in chain.held or owner in chain.held or graph.producer[owner] < 0:
            continue
        at = position[int(graph.producer[value])]
        made[owner] = min(at, made.get(owner, at))
        last[owner] = max([last.get(owner, at), at, *(position[r] for r in readers[value] if r in position)])
    size = [graph.values[owner].bytes for owner in made]
    return np.array(list(made.values()), np.int64), np.array([last[o] for o in made], np.int64), np.array(size, np.int64)


def _held_bytes(graph: Graph, chain: Chain) -> tuple[Ints, Ints]:
    """Bytes of held values: while each segment is the last one left to reverse, and when each runs for the first time."""
    count = len(chain.segments)
    segment_of = {op: s for s, segment in enumerate(chain.segments) for op in (*segment.forward, *segment.backward)}
    readers = graph.value_readers.lists()
    until: dict[int, int] = {}  # the lowest segment that reads the buffer, forward or backward
    since: dict[int, int] = {}
    for value in chain.held:
        owner = int(graph.owner[value])
        if graph.producer[owner] >= 0:
            low = 0 if graph.keep[value] else min((segment_of[reader] for reader in readers[value]), default=count)
            until[owner] = min(low, until.get(owner, count))
            since[owner] = min(chain.made_in[value], since.get(owner, count))
    left, first = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for owner, low in until.items():
        left[low:] += graph.values[owner].bytes
        first[since[owner] :] += graph.values[owner].bytes
    return left, first


class Table:
    """The least cost of reversing every stretch, in 0 to ``slots`` - 1 slots of ``unit`` bytes.

    ``costs[reuse, t, s, m]``: float32, of reversing s to t in m slots beyond what passes into s, as a share of all forward ops;
    backward ops that run once are not counted. ``reuse`` is 1 where what passes out of t and t's own backward ops read is there
    already, and stays until these have run. Building it takes O(L³ · slots).
    """

    def __init__(self, prices: Prices, *, unit: int, slots: int) -> None:
        self.prices, self.unit, self.slots = prices, unit, slots
        self.count = len(prices.pieces)
        self.forward = prices.forward / (float(prices.forward[-1]) or 1.0)
        self.cut = self._whole(prices.cut)
        shape = (self.count, self.count, slots)
        self.costs = np.full((2, *shape), np.inf, np.float32)
        self._swept = np.full(shape, np.inf, np.float32)  # [s, r, m]: of running s to r and later reversing them
        self._least = np.full((self.count, self.count), slots)  # the least slots for that
        for t in range(self.count):
            self._fill(t)

    def _whole(self, sizes: Any) -> Any:
        return -(-sizes // self.unit)

    def _fill(self, t: int) -> None:
        """All stretches that end with t, the shortest first."""
        behind = np.full((2, t + 1, self.slots), np.inf, np.float32)  # what cutting before s and reversing s to t costs
        least = 0  # slots that the backward ops of s to t need
        for s in range(t, -1, -1):
            least = max(least, min(self._slots_after(option, s, t, 0) for option in self.prices.pieces[s].options))
            if least >= self.slots:
                return
            for reuse in (0, 1) if self.may_reuse(t) else (0,):
                best = self._kept(s, t, reuse)
                if s < t:
                    cut = self._cut_somewhere(s, t, reuse, behind[reuse], least)
                    np.minimum(best[least:], cut, out=best[least:])
                self.costs[reuse, t, s] = best
                if s:
                    _shift(best, int(self.cut[0, s - 1]), behind[reuse, s])
            either = np.minimum(self.costs[0, t, s], self.costs[1, t, s])
            self._swept[s, t] = either + np.float32(self.forward[t + 1] - self.forward[s])
            self._least[s, t] = np.argmax(np.isfinite(either)) if np.isfinite(either[-1]) else self.slots

    def may_reuse(self, t: int) -> bool:
        """Whether leaving what passes out of t there spares anything."""
        piece = self.prices.pieces[t]
        return bool(piece.reused) and any(len(option.tail) < len(option.forward) for option in piece.options)

    def _kept(self, s: int, t: int, reuse: int) -> Floats:
        best = np.full(self.slots, np.inf, np.float32)
        row = np.empty(self.slots, np.float32)
        for option in self.prices.pieces[s].options:
            cost = np.float32(self.option_cost(option, s, t, reuse))
            if s < t:
                _shift(self.costs[reuse, t, s + 1], self.retained(option), row)
                row += cost
            else:
                row[:] = cost
            needed = self.needed(option, s, t, reuse)
            np.minimum(best[needed:], row[needed:], out=best[needed:])
        return best

    def _cut_somewhere(self, s: int, t: int, reuse: int, behind: Floats, least: int) -> Floats:
        total = behind[s + 1 : t + 1, least:] + self._swept[s, s:t, least:]
        # What passes into s as well is there anyway: such a cut costs less than its own bytes.
        for row in np.flatnonzero(self.cut[s, s:t] < self.cut[0, s:t]).tolist():
            _shift(self.costs[reuse, t, s + row + 1], int(self.cut[s, s + row]), behind[s])
            np.add(behind[s, least:], self._swept[s, s + row, least:], out=total[row])
        needed = self.swept_slots(s, t, reuse)
        for row in np.flatnonzero(needed > np.maximum(self._least[s, s:t], least)).tolist():
            total[row, : needed[row] - least] = np.inf
        best: Floats = total.min(axis=0)
        return best

    def cut_costs(self, s: int, t: int, reuse: int, slots: int) -> NDArray[np.float64]:
        """Per r from s to t - 1: cost of running s to r, reversing r + 1 to t, then s to r, in ``slots``; float64[t - s]."""
        left = slots - self.cut[s, s:t]
        rows = np.arange(s + 1, t + 1)
        total = self.costs[reuse, t, rows, np.maximum(left, 0)].astype(np.float64) + self._swept[s, s:t, slots]
        total[(left < 0) | (self.swept_slots(s, t, reuse) > slots)] = np.inf
        return total

    def swept_slots(self, s: int, t: int, reuse: int) -> Ints:
        """Per r from s to t - 1: slots that running s to r needs while t is the last segment to reverse."""
        held = self.prices.at_first[s:t] if t == self.count - 1 else self.prices.held[t]
        there = self.prices.gradients[t] + (self.prices.pieces[t].reused_bytes if reuse else 0)
        needed: Ints = self._whole(self.prices.sweep[s, s:t] + held + there)
        return needed

    def retained(self, option: Option) -> int:
        """Slots that an option retains."""
        return int(self._whole(option.retained))

    def option_cost(self, option: Option, s: int, t: int, reuse: int) -> float:
        """Share of the forward cost that running s with an option takes, its backward ops' recomputations included."""
        total = float(self.prices.forward[-1]) or 1.0
        whole = float(self.forward[s + 1] - self.forward[s])
        return option.extra / total + (option.tail_cost / total if reuse and s == t else whole)

    def needed(self, option: Option, s: int, t: int, reuse: int) -> int:
        """Slots that running s and, later, its backward ops needs while t is the last segment to reverse."""
        prices = self.prices
        after = self._slots_after(option, s, t, reuse)
        if reuse and s == t and not option.tail:
            return after
        held = prices.at_first[s] if t == self.count - 1 else prices.held[t]
        there = prices.gradients[t] + (prices.pieces[t].reused_bytes if reuse else 0)
        return max(after, int(self._whole(option.forward_peak + held + there)))

    def _slots_after(self, option: Option, s: int, t: int, reuse: int) -> int:
        """Slots that the backward ops of s need."""
        unread = self.prices.pieces[s].reused_bytes - option.reused_bytes if reuse and s == t else 0
        return int(self._whole(option.backward_peak + self.prices.held[s] + unread))


def _shift(costs: Floats, slots: int, out: Floats) -> None:
    """Into ``out``: what costs so much costs in ``slots`` more."""
    out[:slots] = np.inf
    if slots < len(costs):
        out[slots:] = costs[: len(costs) - slots]
