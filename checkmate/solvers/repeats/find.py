"""Recognise the equal blocks of a training step.

A run of ops is periodic if each op looks like the one a period before it: the same type, phase and sizes, and
inputs that were made as long ago. The forward pass of a network of k equal blocks is such a run, and so is
its backward pass, where inputs from the forward pass lie further back with each block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph, Op

_LEAST = 4  # blocks
_TRIED = 32  # periods
_NEARLY = 0.98  # of the longest run: a shorter period that covers as much is preferred


@dataclass(frozen=True)
class RepeatedSection:
    """A run of ``count`` equal blocks of ``period`` ops from op ``start``."""

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        """Return the op after the last block."""
        return self.start + self.period * self.count


@dataclass(frozen=True)
class Repeats:
    """The equal blocks of a step, in its forward and its backward pass.

    The backward section runs through the blocks from last to first.
    """

    forward: RepeatedSection
    backward: RepeatedSection

    @property
    def count(self) -> int:
        return min(self.forward.count, self.backward.count)


def find_repeats(graph: Graph) -> Repeats | None:
    """Return the equal blocks of ``graph``; None if it has none."""
    looks = _looks(graph)
    late = graph.late
    turn = int(np.argmax(late)) if late.any() else graph.n
    forward, backward = _longest(looks[:turn], 0), _longest(looks[turn:], turn)
    if forward is None or backward is None:
        return None
    found = Repeats(forward, backward)
    return found if found.count >= _LEAST else None


def _looks(graph: Graph) -> NDArray[np.int64]:
    """Return int64[n]: equal numbers for ops that look alike."""
    numbers: dict[tuple[object, ...], int] = {}
    return np.array([numbers.setdefault(_look(graph, op), len(numbers)) for op in graph.ops], np.int64)


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
    """Return the periodic run that covers most ops.

    Of runs of nearly one length, it is the one of the shortest period."""
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
    """Return the likeliest periods, rising.

    They are the commonest distances between two ops that look alike."""
    order = np.argsort(looks, kind="stable")
    gaps = np.diff(order)[np.diff(looks[order]) == 0]
    gaps = gaps[gaps <= len(looks) // _LEAST]
    periods, votes = np.unique(gaps, return_counts=True)
    return sorted(int(period) for period in periods[np.argsort(-votes)][:_TRIED])


def _longest_true(flags: NDArray[np.bool_]) -> tuple[int, int]:
    """Return where the longest run of true flags begins, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    if not len(edges):
        return 0, 0
    lengths = edges[1::2] - edges[::2]
    at = int(np.argmax(lengths))
    return int(edges[2 * at]), int(lengths[at])
