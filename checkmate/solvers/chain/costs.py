"""What the chain program counts: bytes and costs of a chain's segments.

The segments are run, cut and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.solvers.chain.options import SegmentOptions, passing_by
from checkmate.solvers.chain.segments import Chain

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Prices:
    """The prices of one chain of L segments, in bytes and cost.

    ``forward``: float64[L], the cost of the segments' forward ops.
    ``sweep``: int64[L, L], ``sweep[s, r]`` is the peak of running s to r. Only what passes into s (not
    counted) and out of r is retained.
    ``cut``: int64[L, L], the bytes that pass out of r but not into s.
    """

    chain: Chain
    pieces: tuple[SegmentOptions, ...]
    forward: NDArray[np.float64]
    sweep: Ints
    cut: Ints


@dataclass(frozen=True, eq=False)
class StandingBytes:
    """Bytes that are live whatever the plan, int64[L] each.

    ``gradients[t]``, ``held[t]``: of what backward ops left and of held values, while t is the last segment
    left to reverse.
    ``at_first[s]``: of held values when segment s runs for the first time.
    """

    gradients: Ints
    held: Ints
    at_first: Ints


def price(graph: Graph, chain: Chain, pieces: Sequence[SegmentOptions]) -> Prices:
    """Return the prices of a chain with these options."""
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
    """Return the owners of the buffers of ``values``, without fixed ones."""
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
    """Return the buffers of the forward pass that are not held.

    The result is three arrays: where each is made, where a forward op reads it last, and its bytes.
    """
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
    """Return the bytes that are live whatever the plan."""
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
