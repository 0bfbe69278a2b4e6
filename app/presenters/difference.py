"""How schedule A differs from schedule B of the same graph. The difference is given as figures, cells of R
and S, and curves. No Qt here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.presenters.matrix_image import Cells, enlarge, shrink, spread
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule, StageMatrices
from checkmate.ir.timeline import Timeline
from checkmate.units import format_bytes

NEITHER, BOTH, ONLY_A, ONLY_B, STRIPE_A, STRIPE_B = range(6)
_EXACT = 1500  # ops; for more, the cells are not stored one by one
_STRIPE = 4  # pixels from one hatch line to the next


@dataclass(frozen=True)
class RecomputeCounts:
    """An op that A and B recompute a different number of times."""

    op: int
    in_a: int
    in_b: int


@dataclass(frozen=True)
class Difference:
    """A minus B: ``peak_bytes``, ``cost`` and ``ops``, largest cost first. The cost is a fraction of
    computing everything once."""

    peak_bytes: int
    cost: float
    ops: tuple[RecomputeCounts, ...]

    @property
    def only_a(self) -> int:
        return sum(entry.in_a > 0 and entry.in_b == 0 for entry in self.ops)

    @property
    def only_b(self) -> int:
        return sum(entry.in_b > 0 and entry.in_a == 0 for entry in self.ops)

    @property
    def sentence(self) -> str:
        if self.peak_bytes == 0 and not self.ops:
            return "A and B need the same memory and compute the same"
        sign = "−" if self.peak_bytes < 0 else "+"
        peak = f"{sign}{format_bytes(abs(self.peak_bytes))} peak" if self.peak_bytes else "same peak"
        cost = f"{100 * self.cost:+.1f} % cost".replace("-", "−")
        return (
            f"A minus B: {peak}, {cost} · recomputed only in A: {self.only_a} ops, only in B: {self.only_b}"
        )


def difference(graph: Graph, a: Schedule, a_live: Timeline, b: Schedule, b_live: Timeline) -> Difference:
    """Return A minus B; each comes with its own timeline."""
    runs_a, runs_b = (np.bincount(schedule.steps, minlength=graph.n) - 1 for schedule in (a, b))
    unlike = np.flatnonzero(runs_a != runs_b)
    weight = np.abs(runs_a - runs_b)[unlike] * graph.cost[unlike]
    ops = unlike[np.argsort(-weight, kind="stable")].tolist()
    base = graph.base_cost or 1.0
    return Difference(
        a_live.peak_bytes - b_live.peak_bytes,
        (a_live.cost - b_live.cost) / base,
        tuple(RecomputeCounts(op, int(runs_a[op]), int(runs_b[op])) for op in ops),
    )


def in_order_of(order: NDArray[np.int32], matrices: StageMatrices, which: str) -> NDArray[np.bool_]:
    """Return ``R`` or ``S`` (bool[n, n]) in another order of ops.

    The order is that of its columns and of its stages. Stage t of the result ends with the first computation
    of op ``order[t]``, whenever the schedule computes it.
    """
    index = _places(matrices.order)[order]
    return np.asarray(getattr(matrices, which).take(index, axis=0).take(index, axis=1))


def compared_image(
    a: StageMatrices, b: StageMatrices, which: str, most: int, cells: Cells | None = None
) -> NDArray[np.uint8]:
    """Return which schedule computes (``R``) or holds (``S``) each cell.

    Columns and stages are in A's order. The values are NEITHER, BOTH, ONLY_A and ONLY_B; the image has at
    most ``most`` cells on a side. For very many ops, one cell of the image stands for many, and says which
    schedule has any of them.
    """
    part = cells or Cells.all_of(a.n)
    cases = np.array([NEITHER, ONLY_A, ONLY_B, BOTH], np.uint8)
    if a.n <= _EXACT:
        first, second = (
            matrix[part.top : part.bottom, part.left : part.right]
            for matrix in (getattr(a, which), in_order_of(a.order, b, which))
        )
        found = cases[first.astype(np.uint8) + 2 * second.astype(np.uint8)]
        return np.asarray(shrink(found, most, most))
    first, second = (_occupied(matrices, a.order, which, most, part) for matrices in (a, b))
    return np.asarray(cases[first.view(np.uint8) + 2 * second.view(np.uint8)])


def _occupied(
    matrices: StageMatrices, order: NDArray[np.int32], which: str, most: int, part: Cells
) -> NDArray[np.bool_]:
    n = matrices.n
    row_bins, column_bins = part.row_bins(n, most), part.column_bins(n, most)
    place = _places(order)[matrices.order]  # of this schedule's columns and stages
    height, width = part.shape(most, most)
    if which == "R":
        image = np.zeros((height, width), np.bool_)
        rows, columns = row_bins[place[matrices.stage_of_step]], column_bins[place[matrices.column_of_step]]
        inside = (rows >= 0) & (columns >= 0)
        image[rows[inside], columns[inside]] = True
        return image
    columns = column_bins[place[matrices.held_column]]
    some = columns >= 0
    spans = matrices.held_from[some], matrices.held_to[some] - 1, columns[some]
    held = spread(*spans, (n, width))[_places(matrices.order)[order]][part.top : part.bottom]
    return np.maximum.reduceat(
        held, np.searchsorted(row_bins[part.top : part.bottom], np.arange(height)), axis=0
    )


def _places(order: NDArray[np.int32]) -> NDArray[np.int64]:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def hatched(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    r"""Return the image at ``height`` x ``width`` pixels, with stripes.

    The stripes are ``/`` for A and ``\`` for B.
    """
    large = enlarge(image, height, width)
    y, x = np.ogrid[:height, :width]
    large[(large == ONLY_A) & ((x + y) % _STRIPE == 0)] = STRIPE_A
    large[(large == ONLY_B) & ((x - y) % _STRIPE == 0)] = STRIPE_B
    return large


def aligned(other: Schedule, shown: Schedule) -> NDArray[np.float64]:
    """Return the place of each step of ``other`` among ``shown``'s steps.

    The places are float64[steps]. Steps are matched by how many ops have been computed. A stage of one is
    stretched over the same stage of the other, so that the ends of all stages meet.
    """
    stages, stage = _stages(shown), _stages(other)
    ends = np.searchsorted(stages, np.arange(int(stages[-1]) + 1), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    first = np.searchsorted(stage, stage, side="left")
    count = np.searchsorted(stage, stage, side="right") - first
    within = (np.arange(len(stage)) - first + 1) / count
    return np.asarray(starts[stage] + within * (ends - starts)[stage] - 1.0)


def _stages(schedule: Schedule) -> NDArray[np.int64]:
    """Return the stage of each step, int64[steps], as in ``StageMatrices``."""
    first = schedule.first_occurrence
    return np.asarray(np.minimum(np.cumsum(first) - first, int(first.sum()) - 1))
