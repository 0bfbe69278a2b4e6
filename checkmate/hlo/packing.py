"""Where XLA's heap simulator puts buffers: the largest first, each into the smallest gap that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 12_000  # buffers that are placed one by one; what is left is small, and is counted where most is live

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Block:
    """What needs ``bytes`` in each of ``spans``: first and last step, both included."""

    bytes: int
    spans: tuple[tuple[int, int], ...]

    @property
    def lasts(self) -> int:
        return max(last for _, last in self.spans) - min(first for first, _ in self.spans)


def heap_bytes(blocks: Sequence[Block], alignment: int) -> int:
    """Return the height of the lower of XLA's two packings: by size, and by how long blocks live."""
    by_size = sorted(blocks, key=lambda block: (-block.bytes, -block.lasts))
    by_life = sorted(blocks, key=lambda block: (-block.lasts, -block.bytes))
    return min(_height(order, alignment) for order in (by_size[:_MOST], by_life[:_MOST])) if blocks else 0


def _height(blocks: Sequence[Block], alignment: int) -> int:
    count = sum(len(block.spans) for block in blocks)
    first, last, begin, end = np.zeros((4, count), np.int64)
    placed = height = 0
    for block in blocks:
        taken = np.zeros(placed, np.bool_)
        for start, stop in block.spans:
            taken |= (first[:placed] <= stop) & (last[:placed] >= start)
        at = _best_gap(begin[:placed][taken], end[:placed][taken], block.bytes, alignment)
        for start, stop in block.spans:
            first[placed], last[placed], begin[placed], end[placed] = start, stop, at, at + block.bytes
            placed += 1
        height = max(height, at + block.bytes)
    return height


def _best_gap(begin: _Ints, end: _Ints, size: int, alignment: int) -> int:
    if not len(begin):
        return 0
    order = np.argsort(begin, kind="stable")
    begins = begin[order]
    covered = np.maximum.accumulate(end[order])
    starts = np.concatenate(([0], covered))
    starts = -(-starts // alignment) * alignment
    room = begins - starts[:-1]
    fits = room >= size
    if fits.any():
        return int(starts[:-1][fits][np.argmin(room[fits])])
    return int(starts[-1])
