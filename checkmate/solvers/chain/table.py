"""The cheapest plan of every stretch of a chain in every amount of memory, by dynamic programming.

After Beaumont, Eyraud-Dubois, Hermann, Joly and Shilova, "Optimal checkpointing for heterogeneous chains: how to train deep neural
networks with limited memory" (arXiv 1911.13214): to reverse segments s to t from what passes into s, either run forward to some
cut, retain what passes it, reverse what is behind, then reverse s up to the cut from s again; or run s and retain what one
of its options says, reverse s + 1 to t, and run the backward ops of s. Memory is counted in slots. What differs:

* a segment has several options (``chain_options``), as the blocks of Rockmate have (Zhao et al., ICML 2023);
* a cut can be passed by several values, some of which pass earlier cuts too; those are counted once;
* what was retained at a cut may stay until the segment before the cut is reversed, which then need not make it again;
* running forward may leave *seeds*: what some dear ops made, so that running the same segments again, as often as the memory
  then asks for, does without these ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled
from checkmate.solvers.chain.costs import Prices, Standing
from checkmate.solvers.chain.modes import REUSE, SEEDED
from checkmate.solvers.chain.options import Option, Piece
from checkmate.solvers.chain.segments import Chain, buffer_bytes

if TYPE_CHECKING:
    from checkmate.solvers.chain.kernel import Sizes

Floats = NDArray[np.float64]


class Table:
    """The least cost of reversing every stretch, in 0 to ``slots`` - 1 slots of ``unit`` bytes.

    ``prices``: of the chain, then of the chain with each set of seeds. ``costs[mode, t, s, m]``: float32, of reversing s to t in m
    slots beyond what passes into s, as a share of all forward ops; backward ops that run once are not counted. The modes are those of
    ``chain_kernel``: plain; with what passes out of t and its own backward ops read there already, until these have run;
    with each set of seeds of s to t there.
    """

    def __init__(
        self, graph: Graph, prices: Sequence[Prices], there: Standing, *, unit: int, slots: int
    ) -> None:
        self.prices, self.unit, self.slots = prices, unit, slots
        self.count = len(prices[0].pieces)
        self.sizes = _sizes(graph, prices, there, unit)
        # Half of it is never touched, and so takes no memory.
        self.costs = np.empty((len(prices) + 1, self.count, self.count, slots), np.float32)

    def fill(self, over: Cancelled) -> bool:
        """Make the table; False, and no table, if ``over`` says so before it is done. Asked every few milliseconds."""
        from checkmate.solvers.chain.kernel import fill

        least = self.least_slots()
        for t in range(self.count):
            if over():
                return False
            fill(self.sizes, self.costs, least, t)
        return True

    def least_slots(self) -> NDArray[np.int64]:
        """Return where each stretch's costs begin to be finite: nowhere yet.

        int64[mode, t, s], in slots.
        """
        return np.full(self.costs.shape[:3], self.slots, np.int64)

    @property
    def least(self) -> NDArray[np.float32]:
        """float32[slots], of the whole chain."""
        least: NDArray[np.float32] = self.costs[0, -1, 0]
        return least

    def options(self, mode: int, s: int) -> Sequence[Option]:
        """The options of a segment."""
        return self.prices[max(0, mode - 1)].pieces[s].options

    def taken(self, mode: int, s: int, row: int) -> int:
        """Slots that option ``row`` of s retains, its seeds included."""
        return int(self.sizes.taken[self.sizes.first[max(0, mode - 1), s] + row])

    def option_costs(self, s: int, t: int, mode: int, slots: int) -> Floats:
        """Of reversing s to t where s is run by each of its options; float64[options]."""
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
        """Of reversing s to t by running forward to r, leaving the price list's seeds; float64[t - s], for r from s on.

        ``again``: the mode in which s to r is reversed.
        """
        z = self.sizes
        fresh, p = int(mode < SEEDED), max(0, mode - 1)
        taken = z.cut[price_list, s, s:t]
        needed = z.sweep[fresh, price_list, s, s:t] + z.standing[t, s:t] + z.there[mode, s, t]
        behind = self.costs[mode, t, np.arange(s + 1, t + 1), np.maximum(0, slots - taken)]
        costs = z.forward[p, s + 1 : t + 1] - z.forward[p, s] + behind + self.costs[again, s:t, s, slots]
        return np.where(np.maximum(taken, _whole(needed)) <= slots, costs, np.inf)


def _sizes(graph: Graph, prices: Sequence[Prices], there: Standing, unit: int) -> Sizes:
    from checkmate.solvers.chain.kernel import Sizes

    total = float(prices[0].forward.sum()) or 1.0
    count = len(prices[0].pieces)
    left = np.array([_running(_seed_bytes(graph, prices[0].chain, entry.chain)) for entry in prices])
    between = left[:, None, 1:] - left[:, :-1, None]  # [price list, s, r]: seeds of s to r
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
        cut=_whole((np.array([entry.cut for entry in prices]) + between) / unit),
        needed=_needed(prices, there, before, standing, seeds, unit),
        taken=_whole((np.array([option.retained for option in options]) + seeds) / unit),
        forward=np.array([_running(entry.forward) for entry in prices]) / total,
        extra=_extra(prices, options, _owners(lengths)) / total,
        first=np.array([first[q * count : (q + 1) * count + 1] for q in range(len(prices))]),
        may_reuse=np.array([_may_reuse(piece) for piece in prices[0].pieces], np.bool_),
    )


def _owners(lengths: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The price list and the segment of every option."""
    return [(q, s) for q, row in enumerate(lengths) for s, length in enumerate(row) for _ in range(length)]


def _extra(prices: Sequence[Prices], options: Sequence[Option], owners: Sequence[tuple[int, int]]) -> Floats:
    """Cost of running a segment with each option: from what passes into it, and where ``Piece.reused`` is there."""
    ahead = [prices[q].forward[s] for q, s in owners]
    extra = np.array([option.extra for option in options])
    return np.array([extra + ahead, extra + [option.tail_cost for option in options]])


def _needed(
    prices: Sequence[Prices],
    there: Standing,
    before: Floats,
    standing: NDArray[np.int64],
    seeds: Floats,
    unit: int,
) -> NDArray[np.int64]:
    """``Sizes.needed``; slots of options where they cannot be used mean nothing."""
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
    return _whole(np.array(needed) / unit)


def _whole(sizes: Floats) -> NDArray[np.int64]:
    """Slots that hold each size; a billionth of one is rounding."""
    return np.maximum(0, np.ceil(sizes - 1e-9)).astype(np.int64)


def _running(sizes: Sequence[float] | Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.asarray(sizes, np.float64))])


def _seed_bytes(graph: Graph, chain: Chain, seeded: Chain) -> list[int]:
    """Per segment, what its seeds take."""
    made: list[list[int]] = [[] for _ in chain.segments]
    for value in seeded.held - chain.held:
        made[chain.made_in[value]].append(value)
    return [buffer_bytes(graph, values) for values in made]


def _may_reuse(piece: Piece) -> bool:
    """Whether it spares anything that what passes out of the segment is there already."""
    return bool(piece.reused) and any(len(option.tail) < len(option.forward) for option in piece.options)
