"""Two schedules of one graph held against each other, A and B: figures, cells of R and S, curves over each other; no Qt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.presenters.matrix_image import bins_of, enlarge, shrink, spread
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule, StageMatrices
from checkmate.ir.timeline import Timeline
from checkmate.units import format_bytes

NEITHER, BOTH, ONLY_A, ONLY_B, STRIPE_A, STRIPE_B = range(6)
_EXACT = 1500  # ops; the cells of more are not held one by one
_STRIPE = 4  # pixels from one hatch line to the next


@dataclass(frozen=True)
class Counted:
    """How often an op is computed again in A and in B; they differ."""

    op: int
    in_a: int
    in_b: int


@dataclass(frozen=True)
class Difference:
    """A less B. ``peak_bytes`` in bytes; ``cost`` as a fraction of computing everything once; ``ops``: largest cost first."""

    peak_bytes: int
    cost: float
    ops: tuple[Counted, ...]

    @property
    def only_a(self) -> int:
        """Ops computed again in A but not in B."""
        return sum(entry.in_a > 0 and entry.in_b == 0 for entry in self.ops)

    @property
    def only_b(self) -> int:
        """Ops computed again in B but not in A."""
        return sum(entry.in_b > 0 and entry.in_a == 0 for entry in self.ops)

    @property
    def sentence(self) -> str:
        """What A does to B."""
        if self.peak_bytes == 0 and not self.ops:
            return "A and B need the same memory and compute the same"
        sign = "−" if self.peak_bytes < 0 else "+"
        peak = f"{sign}{format_bytes(abs(self.peak_bytes))} peak" if self.peak_bytes else "same peak"
        cost = f"{100 * self.cost:+.1f} % cost".replace("-", "−")
        return f"A less B: {peak}, {cost} · recomputed only in A: {self.only_a} ops, only in B: {self.only_b}"


def difference(graph: Graph, a: Schedule, a_live: Timeline, b: Schedule, b_live: Timeline) -> Difference:
    """A less B; each with its own timeline."""
    runs_a, runs_b = (np.bincount(schedule.steps, minlength=graph.n) - 1 for schedule in (a, b))
    unlike = np.flatnonzero(runs_a != runs_b)
    weight = np.abs(runs_a - runs_b)[unlike] * graph.cost[unlike]
    ops = unlike[np.argsort(-weight, kind="stable")].tolist()
    base = graph.base_cost or 1.0
    return Difference(
        a_live.peak_bytes - b_live.peak_bytes,
        (a_live.cost - b_live.cost) / base,
        tuple(Counted(op, int(runs_a[op]), int(runs_b[op])) for op in ops),
    )


def in_order_of(order: NDArray[np.int32], matrices: StageMatrices, which: str) -> NDArray[np.bool_]:
    """``R`` or ``S`` (bool[n, n]) of ``matrices``, its columns and stages in another order of ops.

    Stage t is then the one that ends with the first computation of op ``order[t]``, whichever schedule computes it when.
    """
    index = _places(matrices.order)[order]
    return np.asarray(getattr(matrices, which).take(index, axis=0).take(index, axis=1))


def compared_image(a: StageMatrices, b: StageMatrices, which: str, most: int) -> NDArray[np.uint8]:
    """In A's order, at most ``most`` on a side: NEITHER, BOTH, ONLY_A or ONLY_B computes (``R``) or holds (``S``) it.

    Of very many ops, a cell of the picture stands for many cells, and says who has any of them.
    """
    cases = np.array([NEITHER, ONLY_A, ONLY_B, BOTH], np.uint8)
    if a.n <= _EXACT:
        first, second = getattr(a, which), in_order_of(a.order, b, which)
        return np.asarray(shrink(cases[first.view(np.uint8) + 2 * second.view(np.uint8)], most, most))
    first, second = (_occupied(matrices, a.order, which, most) for matrices in (a, b))
    return np.asarray(cases[first.view(np.uint8) + 2 * second.view(np.uint8)])


def _occupied(matrices: StageMatrices, order: NDArray[np.int32], which: str, most: int) -> NDArray[np.bool_]:
    """Cells of the picture, columns and stages in ``order``, in which anything is set."""
    n, bins = matrices.n, bins_of(matrices.n, most)
    place = _places(order)[matrices.order]  # of this schedule's columns and stages
    side = int(bins[-1]) + 1
    if which == "R":
        image = np.zeros((side, side), np.bool_)
        image[bins[place[matrices.stage_of_step]], bins[place[matrices.column_of_step]]] = True
        return image
    columns = bins[place[matrices.held_column]]
    held = spread(matrices.held_from, matrices.held_to - 1, columns, (n, side))[
        _places(matrices.order)[order]
    ]
    return np.maximum.reduceat(held, np.searchsorted(bins, np.arange(side)), axis=0)


def _places(order: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where each op stands in ``order``."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def hatched(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The image at ``height`` x ``width`` pixels, what only one has in stripes: ``/`` for A, ``\\`` for B."""
    large = enlarge(image, height, width)
    y, x = np.ogrid[:height, :width]
    large[(large == ONLY_A) & ((x + y) % _STRIPE == 0)] = STRIPE_A
    large[(large == ONLY_B) & ((x - y) % _STRIPE == 0)] = STRIPE_B
    return large


def aligned(other: Schedule, shown: Schedule) -> NDArray[np.float64]:
    """Where each step of ``other`` stands on the steps of ``shown``: float64[steps], by how many ops have been computed.

    A stage of one is stretched over the same stage of the other, so that the ends of all stages meet.
    """
    stages, stage = _stages(shown), _stages(other)
    ends = np.searchsorted(stages, np.arange(int(stages[-1]) + 1), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    first = np.searchsorted(stage, stage, side="left")
    count = np.searchsorted(stage, stage, side="right") - first
    within = (np.arange(len(stage)) - first + 1) / count
    return np.asarray(starts[stage] + within * (ends - starts)[stage] - 1.0)


def _stages(schedule: Schedule) -> NDArray[np.int64]:
    """The stage of each step, int64[steps], as ``StageMatrices`` has it."""
    first = schedule.first_occurrence
    return np.asarray(np.minimum(np.cumsum(first) - first, int(first.sum()) - 1))
