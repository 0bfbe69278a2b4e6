"""Carry a small step's schedule over to the step with all blocks.

What the small schedule does not hold where the backward pass begins is not held in the whole step either; it
is made again just before it is read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.solvers.repeats.find import Repeats
from checkmate.solvers.repeats.shrink import Shrunk

_ENDS = 2  # blocks at either end that stand for themselves; those between are tiled


def dropped_ops(graph: Graph, steps: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return bool[n]: whether a forward op runs again in the backward pass."""
    late = graph.late
    turn = int(np.argmax(late[steps])) if late[steps].any() else len(steps)
    again = np.zeros(graph.n, np.bool_)
    again[steps[turn:]] = True
    return again & ~late


def spread(shrunk: Shrunk, repeats: Repeats, whole: Graph, again: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return bool[N]: ``again`` of the small step, for the whole step's ops."""
    found = np.zeros(whole.n, np.bool_)
    found[shrunk.ops] = again
    section, small = repeats.forward, shrunk.forward
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
    """Return the given order, with the ops ``again`` made once more.

    They run again when a late op first needs them. ``again`` names ops before the first late one.
    """
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
