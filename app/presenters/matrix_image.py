"""R and S as small images, of one schedule and of two, and how schedule A differs from B."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Schedule, StageMatrices, Timeline
from checkmate.units import format_bytes

EMPTY, FORWARD, BACKWARD, RECOMPUTED, HELD, CHECKPOINTED = range(6)
_HELD_SHARE = 0.43  # how strongly a value is drawn that no backward op waits for
_FAINTEST = 0.18  # a single cell stays visible


@dataclass(frozen=True)
class Cells:
    """A part of R or S: rows from ``top`` to before ``bottom``, and columns likewise."""

    top: int
    bottom: int
    left: int
    right: int

    @classmethod
    def all_of(cls, n: int) -> Cells:
        return cls(0, n, 0, n)

    def row_bins(self, n: int, most: int) -> NDArray[np.int64]:
        """The row of the image for each of ``n`` rows; -1 if outside."""
        return _bins_inside(self.top, self.bottom, n, most)

    def column_bins(self, n: int, most: int) -> NDArray[np.int64]:
        return _bins_inside(self.left, self.right, n, most)

    def shape(self, rows: int, columns: int) -> tuple[int, int]:
        return min(rows, self.bottom - self.top), min(columns, self.right - self.left)


def computed_image(
    graph: Graph, matrices: StageMatrices, most: int, cells: Cells | None = None
) -> NDArray[np.uint8]:
    """R as palette indices, with at most ``most`` cells on a side. A set cell stays visible at any size, a
    recomputation above all. No array is made that is larger than the image."""
    cells = cells or Cells.all_of(matrices.n)
    late = graph.late[matrices.order]
    image = np.zeros(cells.shape(most, most), np.uint8)
    rows = cells.row_bins(matrices.n, most)[matrices.stage_of_step]
    columns = cells.column_bins(matrices.n, most)[matrices.column_of_step]
    inside = (rows >= 0) & (columns >= 0)
    # A stage ends with the first computation of its op.
    first = inside & (matrices.stage_of_step == matrices.column_of_step)
    again = inside & ~first
    image[rows[first], columns[first]] = np.where(late[matrices.column_of_step[first]], BACKWARD, FORWARD)
    image[rows[again], columns[again]] = RECOMPUTED
    return image


def held_image(graph: Graph, matrices: StageMatrices, most: int) -> NDArray[np.uint8]:
    """S as palette indices: held, or checkpointed, where a forward value crosses into the backward pass."""
    bins, crosses = bins_of(matrices.n, most), checkpointed(graph, matrices)
    image = np.zeros((bins[-1] + 1, bins[-1] + 1), np.uint8)
    for mask, index in ((~crosses, HELD), (crosses, CHECKPOINTED)):
        chosen = mask[matrices.held_column]
        first, last = bins[matrices.held_from[chosen]], bins[matrices.held_to[chosen] - 1]
        image[spread(first, last, bins[matrices.held_column[chosen]], image.shape)] = index
    return image


def checkpointed(graph: Graph, matrices: StageMatrices) -> NDArray[np.bool_]:
    """bool[n]: whether a column is a forward op whose output is held as the first backward op begins."""
    late = graph.late[matrices.order]
    border = min(int(np.argmax(late)) if late.any() else matrices.n, matrices.n - 1)
    crosses = np.zeros(matrices.n, np.bool_)
    crosses[matrices.held_column[(matrices.held_from <= border) & (border < matrices.held_to)]] = True
    return np.asarray(crosses & ~late, np.bool_)


def held_strength(
    graph: Graph, matrices: StageMatrices, cells: Cells, rows: int, columns: int
) -> NDArray[np.float64]:
    """How strongly each of at most ``rows`` x ``columns`` pixels of S is drawn, from 0 to 1: as strong as
    many of its cells are held. Those of checkpointed columns count most. One held cell alone stays visible.
    """
    column, begin, end = held_spans(matrices)
    crosses = checkpointed(graph, matrices)[column]
    shape = cells.shape(rows, columns)
    strength = np.zeros(shape)
    for chosen, share in ((crosses, 1.0), (~crosses, _HELD_SHARE)):
        spans = column[chosen], begin[chosen], end[chosen]
        strength += share * density(*spans, cells, shape, matrices.n)
    return np.where(strength > 1e-9, np.maximum(np.minimum(strength, 1.0), _FAINTEST), 0.0)


def held_spans(matrices: StageMatrices) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The cells of S as spans that do not overlap, which those of an op with several outputs may do in
    ``matrices``. Arrays of one length: column, first row, and row after the last."""
    order = np.lexsort((matrices.held_from, matrices.held_column))
    spans = matrices.held_column, matrices.held_from, matrices.held_to
    column, begin, end = (np.asarray(entry[order], np.int64) for entry in spans)
    if not len(column):
        return column, begin, end
    # Columns one below the other, so that no span reaches from one into the next.
    shift = column * (matrices.n + 1)
    reach = np.maximum.accumulate(end + shift)
    fresh = np.concatenate([[True], (begin + shift)[1:] > reach[:-1]])
    firsts = np.flatnonzero(fresh)
    lasts = np.append(firsts[1:], len(column)) - 1
    return column[firsts], begin[firsts], reach[lasts] - shift[lasts]


def density(
    column: NDArray[np.integer[Any]],
    begin: NDArray[np.integer[Any]],
    end: NDArray[np.integer[Any]],
    cells: Cells,
    shape: tuple[int, int],
    n: int,
) -> NDArray[np.float64]:
    """The share of each pixel's cells that spans of rows cover. A span is a column and its rows from
    ``begin`` to before ``end``; spans do not overlap. The pixels of the image, of size ``shape``, are equally
    high, so that one may begin within a row."""
    height, width = shape
    bins = cells.column_bins(n, width)
    begin, end = np.maximum(begin, cells.top), np.minimum(end, cells.bottom)
    some = (begin < end) & (bins[column] >= 0)
    at, scale = bins[column[some]], height / (cells.bottom - cells.top)
    size = (height + 1) * width
    whole, part = np.zeros(size), np.zeros(size)
    # What is covered above a row, in pixels: all of the pixels before its own, and a part of that.
    for row, sign in ((end[some], 1.0), (begin[some], -1.0)):
        exact = (row - cells.top) * scale
        pixel = exact.astype(np.int64)
        whole += sign * np.bincount(pixel * width + at, minlength=size)
        part += sign * np.bincount(pixel * width + at, weights=exact - pixel, minlength=size)
    above = np.cumsum(whole.reshape(height + 1, width)[::-1], axis=0)[::-1]
    covered = above[1:] + part.reshape(height + 1, width)[:-1]
    wide = np.bincount(bins[bins >= 0], minlength=width)
    return np.asarray(np.clip(covered / wide, 0.0, 1.0))


def _bins_inside(first: int, last: int, n: int, most: int) -> NDArray[np.int64]:
    bins = np.full(n, -1, np.int64)
    bins[first:last] = bins_of(last - first, most)
    return bins


def bins_of(n: int, most: int) -> NDArray[np.int64]:
    """The row of an image of at most ``most`` rows for each of ``n`` rows, int64[n]. Columns are treated
    alike."""
    return np.arange(n) * min(n, most) // n


def spread(
    first: NDArray[np.integer[Any]],
    last: NDArray[np.integer[Any]],
    column: NDArray[np.integer[Any]],
    shape: tuple[int, int],
) -> NDArray[np.bool_]:
    """bool[shape] with the rows ``first`` to ``last`` (included) of each ``column`` set."""
    cells, width = (shape[0] + 1) * shape[1], shape[1]
    begin, end = (np.bincount(row * width + column, minlength=cells) for row in (first, last + 1))
    return np.cumsum((begin - end).reshape(-1, width), axis=0)[:-1] > 0


def shrink(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """``image`` at most ``height`` x ``width``. Each block becomes its largest index, not the nearest: a
    single set cell, a diagonal above all, must stay visible at any size."""
    rows, columns = min(height, image.shape[0]), min(width, image.shape[1])
    if rows < 1 or columns < 1:
        return image[:1, :1]
    # Along rows both times: rows are contiguous in memory, so this is several times as fast.
    for most in (rows, columns):
        starts = np.linspace(0, image.shape[0], most, endpoint=False).astype(int)
        image = np.ascontiguousarray(np.maximum.reduceat(image, starts, axis=0).T)
    return image


def enlarge(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    rows = np.arange(height) * image.shape[0] // height
    columns = np.arange(width) * image.shape[1] // width
    return image[np.ix_(rows, columns)]


def thicken(image: NDArray[np.uint8], from_index: int) -> NDArray[np.uint8]:
    """Spread every pixel of ``from_index`` or more to its eight neighbours. A recomputation is a single cell,
    and must be visible."""
    padded = np.pad(np.where(image >= from_index, image, EMPTY), 1)
    height, width = image.shape
    around = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    spread = np.maximum.reduce(around)
    return np.where(image >= from_index, image, np.where(spread > EMPTY, spread, image)).astype(np.uint8)


NEITHER, BOTH, ONLY_A, ONLY_B, STRIPE_A, STRIPE_B = range(6)
_EXACT = 1500  # ops; for more, the cells are not stored one by one
_STRIPE = 4  # pixels from one hatch line to the next


@dataclass(frozen=True)
class RecomputeCounts:
    op: int
    in_a: int
    in_b: int


@dataclass(frozen=True)
class Difference:
    """A minus B. ``cost`` is a fraction of computing everything once; ``ops`` have the largest cost first."""

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
        only = f"recomputed only in A: {self.only_a} ops, only in B: {self.only_b}"
        return f"A minus B: {peak}, {cost} · {only}"


def difference(graph: Graph, a: Schedule, a_live: Timeline, b: Schedule, b_live: Timeline) -> Difference:
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
    """``R`` or ``S`` (bool[n, n]) with columns and stages in another order of ops. Stage t of the result ends
    with the first computation of op ``order[t]``, whenever the schedule computes it."""
    index = np.argsort(matrices.order)[order]
    return np.asarray(getattr(matrices, which).take(index, axis=0).take(index, axis=1))


def compared_image(
    a: StageMatrices, b: StageMatrices, which: str, most: int, cells: Cells | None = None
) -> NDArray[np.uint8]:
    """Which schedule computes (``R``) or holds (``S``) each cell: NEITHER, BOTH, ONLY_A or ONLY_B, in A's
    order. The image has at most ``most`` cells on a side. For very many ops, one cell of the image stands for
    many, and says which schedule has any of them."""
    part = cells or Cells.all_of(a.n)
    cases = np.array([NEITHER, ONLY_A, ONLY_B, BOTH], np.uint8)
    if a.n <= _EXACT:
        both = getattr(a, which), in_order_of(a.order, b, which)
        first, second = (matrix[part.top : part.bottom, part.left : part.right] for matrix in both)
        found = cases[first.astype(np.uint8) + 2 * second.astype(np.uint8)]
        return np.asarray(shrink(found, most, most))
    first, second = (_occupied(matrices, a.order, which, most, part) for matrices in (a, b))
    return np.asarray(cases[first.view(np.uint8) + 2 * second.view(np.uint8)])


def _occupied(
    matrices: StageMatrices, order: NDArray[np.int32], which: str, most: int, part: Cells
) -> NDArray[np.bool_]:
    n = matrices.n
    row_bins, column_bins = part.row_bins(n, most), part.column_bins(n, most)
    place = np.argsort(order)[matrices.order]  # of this schedule's columns and stages
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
    held = spread(*spans, (n, width))[np.argsort(matrices.order)[order]][part.top : part.bottom]
    starts = np.searchsorted(row_bins[part.top : part.bottom], np.arange(height))
    return np.maximum.reduceat(held, starts, axis=0)


def hatched(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The image at ``height`` x ``width`` pixels, with rising stripes for A and falling ones for B."""
    large = enlarge(image, height, width)
    y, x = np.ogrid[:height, :width]
    large[(large == ONLY_A) & ((x + y) % _STRIPE == 0)] = STRIPE_A
    large[(large == ONLY_B) & ((x - y) % _STRIPE == 0)] = STRIPE_B
    return large


def aligned(other: Schedule, shown: Schedule) -> NDArray[np.float64]:
    """The place of each step of ``other`` among ``shown``'s steps, float64[steps]. Steps are matched by how
    many ops have been computed. A stage of one is stretched over the same stage of the other, so that the
    ends of all stages meet."""
    stages, stage = _stage_of_step(shown), _stage_of_step(other)
    ends = np.searchsorted(stages, np.arange(int(stages[-1]) + 1), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    first = np.searchsorted(stage, stage, side="left")
    count = np.searchsorted(stage, stage, side="right") - first
    within = (np.arange(len(stage)) - first + 1) / count
    return np.asarray(starts[stage] + within * (ends - starts)[stage] - 1.0)


def _stage_of_step(schedule: Schedule) -> NDArray[np.int64]:
    first = schedule.first_occurrence
    return np.asarray(np.minimum(np.cumsum(first) - first, int(first.sum()) - 1))
