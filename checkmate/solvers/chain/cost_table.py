"""The cheapest plan of every stretch of a chain in every amount of memory.

This is dynamic programming after Beaumont, Eyraud-Dubois, Hermann, Joly and Shilova, "Optimal checkpointing
for heterogeneous chains: how to train deep neural networks with limited memory" (arXiv 1911.13214). There are
two ways to reverse segments s to t from what passes into s. Either run forward to some cut, retain what
passes it, reverse what is behind, then reverse s up to the cut from s again. Or run s and retain what one of
its options says, reverse s + 1 to t, and run the backward ops of s. Here

* a segment has several options (``segment_options``), like the blocks of Rockmate (Zhao et al., ICML 2023);
* several values can pass a cut, and some of them pass earlier cuts too; those are counted once;
* what was retained at a cut may stay until the segment before the cut is reversed, which then need not make
  it again;
* running forward may leave *seeds*: the outputs of some dear ops. The same segments can then run again
  without these ops, as often as the memory requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.progress import Cancelled
from checkmate.solvers.chain.forward_segments import Chain, buffer_bytes
from checkmate.solvers.chain.kernel import REUSE, SEEDED, Sizes, fill
from checkmate.solvers.chain.segment_options import SegmentOption, SegmentOptions, passing_by

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Prices:
    """The prices of one chain of L segments, in bytes and cost.

    ``forward``: float64[L], the cost of the segments' forward ops. ``sweep``: int64[L, L], the peak of
    running s to r, with only what passes into s (not counted) and out of r retained. ``cut``: int64[L, L],
    the bytes that pass out of r but not into s.
    """

    chain: Chain
    pieces: tuple[SegmentOptions, ...]
    forward: NDArray[np.float64]
    sweep: Ints
    cut: Ints


@dataclass(frozen=True, eq=False)
class StandingBytes:
    """Bytes that are live in every plan, int64[L] each.

    ``gradients[t]``, ``held[t]``: gradients from later segments, and held values, while t is the last segment
    that is not reversed yet. ``at_first[s]``: held values when segment s first runs.
    """

    gradients: Ints
    held: Ints
    at_first: Ints


def price(graph: Graph, chain: Chain, pieces: Sequence[SegmentOptions]) -> Prices:
    count = len(chain.segments)
    cost = [sum(graph.ops[op].cost for op in segment.forward) for segment in chain.segments]
    passing = [_owned(graph, values) for values in chain.across]
    size = {owner: graph.values[owner].bytes for owners in passing for owner in owners}
    cut = np.zeros((count, count), np.int64)
    for r, owners in enumerate(passing):
        cut[: r + 1, r] = sum(size[owner] for owner in owners)
        for s in range(1, r + 1):
            if there := owners & passing[s - 1]:
                cut[s, r] -= sum(size[owner] for owner in there)
    return Prices(chain, tuple(pieces), np.array(cost, np.float64), _sweeps(graph, chain), cut)


def _owned(graph: Graph, values: frozenset[int]) -> frozenset[int]:
    return frozenset(owner for value in values if graph.producer[owner := int(graph.owner[value])] >= 0)


def _sweeps(graph: Graph, chain: Chain) -> Ints:
    order = [op for segment in chain.segments for op in segment.forward]
    position = {op: i for i, op in enumerate(order)}
    ends = np.cumsum([0] + [len(segment.forward) for segment in chain.segments])
    made, last, size = _buffers(graph, chain, position)
    count, length = len(chain.segments), len(order)
    sweep = np.zeros((count, count), np.int64)
    work = graph.workspace_bytes[order]
    for s in range(count):
        ours = made >= ends[s]
        change = np.zeros(length + 1, np.int64)
        np.add.at(change, made[ours], size[ours])
        np.subtract.at(change, last[ours] + 1, size[ours])
        live = np.cumsum(change)[:length] + work
        peaks = [int(live[ends[k] : ends[k + 1]].max(initial=0)) for k in range(s, count)]
        sweep[s, s:] = np.maximum.accumulate(peaks)
    return sweep


def _buffers(graph: Graph, chain: Chain, position: dict[int, int]) -> tuple[Ints, Ints, Ints]:
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
    return (
        np.array(list(made.values()), np.int64),
        np.array([last[o] for o in made], np.int64),
        np.array(size, np.int64),
    )


def standing(graph: Graph, chain: Chain) -> StandingBytes:
    count = len(chain.segments)
    segment_of = {
        op: s for s, segment in enumerate(chain.segments) for op in (*segment.forward, *segment.backward)
    }
    readers = graph.value_readers.lists()
    until: dict[int, int] = {}  # the lowest segment that reads the buffer, forward or backward
    since: dict[int, int] = {}
    for value in chain.held:
        owner = int(graph.owner[value])
        if graph.producer[owner] >= 0:
            low = (
                0
                if graph.keep[value]
                else min((segment_of[reader] for reader in readers[value]), default=count)
            )
            until[owner] = min(low, until.get(owner, count))
            since[owner] = min(chain.made_in[value], since.get(owner, count))
    held, first = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for owner, low in until.items():
        held[low:] += graph.values[owner].bytes
        first[since[owner] :] += graph.values[owner].bytes
    return StandingBytes(np.array(passing_by(graph, chain), np.int64), held, first)


Floats = NDArray[np.float64]


class CostTable:
    """The least cost of reversing every stretch in 0 to ``slots`` - 1 slots of ``unit`` bytes.

    ``prices``: of the chain, then of the chain with each set of seeds. ``costs[mode, t, s, m]``: float32, the
    cost of reversing s to t in m slots beyond what passes into s, as a share of all forward ops. Backward ops
    that run once are not counted. The modes are those of ``chain.kernel``: plain; with what passes out of t
    and is read by its own backward ops live already, until these have run; with each set of seeds of s to t
    live.
    """

    def __init__(
        self, graph: Graph, prices: Sequence[Prices], there: StandingBytes, *, unit: int, slots: int
    ) -> None:
        self.prices, self.unit, self.slots = prices, unit, slots
        self.count = len(prices[0].pieces)
        self.sizes = _sizes(graph, prices, there, unit)
        # Half of it is never touched, and so takes no memory.
        self.costs = np.empty((len(prices) + 1, self.count, self.count, slots), np.float32)

    def fill(self, over: Cancelled) -> bool:
        """Fill the table; False, and no valid table, if ``over`` says so before."""
        least = self.least_slots()
        for t in range(self.count):
            if over():
                return False
            fill(self.sizes, self.costs, least, t)
        return True

    def least_slots(self) -> NDArray[np.int64]:
        """int64[mode, t, s], in slots: where each stretch's costs begin to be finite; nowhere yet."""
        return np.full(self.costs.shape[:3], self.slots, np.int64)

    @property
    def least(self) -> NDArray[np.float32]:
        """float32[slots]: the least cost of the whole chain."""
        least: NDArray[np.float32] = self.costs[0, -1, 0]
        return least

    def options(self, mode: int, s: int) -> Sequence[SegmentOption]:
        return self.prices[max(0, mode - 1)].pieces[s].options

    def taken(self, mode: int, s: int, row: int) -> int:
        """The slots that option ``row`` of s retains, with its seeds."""
        return int(self.sizes.taken[self.sizes.first[max(0, mode - 1), s] + row])

    def option_costs(self, s: int, t: int, mode: int, slots: int) -> Floats:
        """float64[options]: the costs of reversing s to t if s runs by each of its options."""
        z, p = self.sizes, max(0, mode - 1)
        rows = slice(z.first[p, s], z.first[p, s + 1])
        if s == t:
            costs = z.extra[int(mode == REUSE), rows]
            needed = z.needed[mode, t, rows]
        else:
            needed = np.maximum(z.needed[mode, t, rows], z.taken[rows])
            costs = z.extra[0, rows] + self.costs[mode, t, s + 1, np.maximum(0, slots - z.taken[rows])]
        return np.where(needed <= slots, costs, np.inf)

    def cut_costs(self, s: int, t: int, mode: int, price_list: int, again: int, slots: int) -> Floats:
        """float64[t - s]: the costs of reversing s to t by running forward to each r from s on.

        The forward run leaves the seeds of the price list. ``again``: the mode in which s to r is reversed.
        """
        z = self.sizes
        fresh, p = int(mode < SEEDED), max(0, mode - 1)
        taken = z.cut[price_list, s, s:t]
        needed = z.sweep[fresh, price_list, s, s:t] + z.standing[t, s:t] + z.there[mode, s, t]
        behind = self.costs[mode, t, np.arange(s + 1, t + 1), np.maximum(0, slots - taken)]
        costs = z.forward[p, s + 1 : t + 1] - z.forward[p, s] + behind + self.costs[again, s:t, s, slots]
        return np.where(np.maximum(taken, _rounded_up(needed)) <= slots, costs, np.inf)


def _sizes(graph: Graph, prices: Sequence[Prices], there: StandingBytes, unit: int) -> Sizes:
    total = float(prices[0].forward.sum()) or 1.0
    count = len(prices[0].pieces)
    left = np.array([_running(_seed_bytes(graph, prices[0].chain, entry.chain)) for entry in prices])
    between = left[:, None, 1:] - left[:, :-1, None]  # [price list, s, r]: the seeds of s to r
    sweep = np.array([entry.sweep for entry in prices])
    reused = np.array([piece.reused_bytes for piece in prices[0].pieces])
    before = np.array([between[0], np.broadcast_to(reused, (count, count)), *between[1:]])
    standing = there.gradients[:, None] + np.repeat(there.held[:, None], count, axis=1)
    standing[-1] = there.gradients[-1] + there.at_first
    options = [option for entry in prices for piece in entry.pieces for option in piece.options]
    lengths = [[len(piece.options) for piece in entry.pieces] for entry in prices]
    first = np.cumsum([0, *np.ravel(lengths)])
    seeds = np.array([left[q, s + 1] - left[q, s] for q, s in _owners(lengths)])
    return Sizes(
        sweep=np.array([sweep, sweep + between]) / unit,
        there=before / unit,
        standing=standing / unit,
        cut=_rounded_up((np.array([entry.cut for entry in prices]) + between) / unit),
        needed=_needed(prices, there, before, standing, seeds, unit),
        taken=_rounded_up((np.array([option.retained for option in options]) + seeds) / unit),
        forward=np.array([_running(entry.forward) for entry in prices]) / total,
        extra=_extra(prices, options, _owners(lengths)) / total,
        first=np.array([first[q * count : (q + 1) * count + 1] for q in range(len(prices))]),
        may_reuse=np.array([_may_reuse(piece) for piece in prices[0].pieces], np.bool_),
    )


def _owners(lengths: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [(q, s) for q, row in enumerate(lengths) for s, length in enumerate(row) for _ in range(length)]


def _extra(
    prices: Sequence[Prices], options: Sequence[SegmentOption], owners: Sequence[tuple[int, int]]
) -> Floats:
    ahead = [prices[q].forward[s] for q, s in owners]
    extra = np.array([option.extra for option in options])
    return np.array([extra + ahead, extra + [option.tail_cost for option in options]])


def _needed(
    prices: Sequence[Prices],
    there: StandingBytes,
    before: Floats,
    standing: NDArray[np.int64],
    seeds: Floats,
    unit: int,
) -> NDArray[np.int64]:
    count = len(prices[0].pieces)
    needed = []
    for mode in range(len(prices) + 1):
        columns: list[Floats] = []
        for q, entry in enumerate(prices):
            for s, piece in enumerate(entry.pieces):
                for option in piece.options:
                    after = np.full(count, option.backward_peak + there.held[s] + seeds[len(columns)])
                    ahead = option.forward_peak + standing[:, s] + before[mode, s]
                    if mode == REUSE and q == 0:
                        after[s] += piece.reused_bytes - option.reused_bytes
                        ahead[s] = ahead[s] if option.tail else 0
                    columns.append(np.maximum(after, ahead))
        needed.append(np.array(columns).T)
    return _rounded_up(np.array(needed) / unit)


def _rounded_up(sizes: Floats) -> NDArray[np.int64]:
    return np.maximum(0, np.ceil(sizes - 1e-9)).astype(np.int64)


def _running(sizes: Sequence[float] | Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.asarray(sizes, np.float64))])


def _seed_bytes(graph: Graph, chain: Chain, seeded: Chain) -> list[int]:
    made: list[list[int]] = [[] for _ in chain.segments]
    for value in seeded.held - chain.held:
        made[chain.made_in[value]].append(value)
    return [buffer_bytes(graph, values) for values in made]


def _may_reuse(piece: SegmentOptions) -> bool:
    return bool(piece.reused) and any(len(option.tail) < len(option.forward) for option in piece.options)
