"""R and S as small images, of one schedule and of two, and how schedule A differs from B."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.presenters.axes import StepAxis, stage_edges
from checkmate.ir import Graph, Schedule, StageMatrices, Timeline
from checkmate.units import format_bytes

FORWARD, BACKWARD, RECOMPUTED, HELD, CHECKPOINTED = range(1, 6)  # 0: nothing
_HELD_SHARE = 0.43  # the intensity of a value that no backward op reads
_FAINTEST = 0.18  # the least intensity, so that a single cell stays visible
_APART = 3.0  # pixels; rows of this height or more have a gap below them
_Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Raster:
    """Maps cells of R or S to pixels: steps go along a ``StepAxis``, and ops are rows in order of first
    computation.

    ``edges``: float64[steps + 1], the pixel at which each step begins, and the last one ends. ``top``: the
    pixel at which the first op's row begins. ``row``: height of a row in pixels. ``dot``: the least width and
    height in pixels of a cell that must not be overlooked.
    """

    edges: NDArray[np.float64]
    top: float
    row: float
    size: tuple[int, int]  # height, width
    dot: int = 1

    @classmethod
    def of(
        cls,
        axis: StepAxis,
        steps: tuple[float, float],
        ops: tuple[float, float],
        size: tuple[int, int],
        dot: int = 1,
    ) -> Raster:
        """Show what is between two positions of the axis, and between two ops."""
        (low, high), (height, width) = axis.place(steps), size
        row = height / (ops[1] - ops[0])
        return cls((axis.edges - low) * width / (high - low), -ops[0] * row, row, size, dot)

    def boxes(self, begin: _Ints, end: _Ints, column: _Ints, least: int = 1) -> NDArray[np.bool_]:
        """Mask of the pixels in boxes from step ``begin`` to before step ``end`` in the row of ``column``.
        Each box has at least ``least`` pixels in width and height."""
        (height, width), tops = self.size, self.top + column * self.row
        left, right = _pixels(self.edges[begin], self.edges[end], least, width)
        above, below = _pixels(tops, tops + self.row - self._gap, least, height)
        wide, change = width + 1, np.zeros((height + 1) * (width + 1))
        for y, x, sign in ((above, left, 1), (above, right, -1), (below, left, -1), (below, right, 1)):
            change += sign * np.bincount(y * wide + x, minlength=len(change))
        covered = change.reshape(-1, wide).cumsum(axis=0).cumsum(axis=1)
        return np.asarray(covered[:-1, :-1] > 0.5)

    def density(self, begin: _Ints, end: _Ints, column: _Ints) -> NDArray[np.float64]:
        """The fraction of each pixel covered by spans of steps, averaged over the ops in the pixel. Spans may
        end inside a pixel; those of one column do not overlap."""
        (height, width), wide = self.size, self.size[1] + 1
        whole, part = (np.zeros((height + 1) * wide) for _ in range(2))
        above, below = self._lines(column)
        # A span that ends at x covers every pixel left of x (``whole``) and ``part`` of the pixel at x.
        for steps, sign in ((end, 1.0), (begin, -1.0)):
            exact = np.clip(self.edges[steps], 0, width)
            pixel = exact.astype(np.int64)
            for line, also in ((above, sign), (below, -sign)):
                at = line * wide + pixel
                whole += also * np.bincount(at, minlength=len(whole))
                part += also * np.bincount(at, weights=exact - pixel, minlength=len(part))
        whole, part = (entry.reshape(-1, wide).cumsum(axis=0)[:-1] for entry in (whole, part))
        covered = whole[:, ::-1].cumsum(axis=1)[:, -2::-1] + part[:, :-1]
        return np.asarray(np.clip(covered / self._ops_of_lines()[:, None], 0.0, 1.0))

    @property
    def _gap(self) -> int:
        """Pixels between two rows, where they are high enough."""
        return int(self.row >= _APART)

    def _lines(self, column: _Ints) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first line of pixels of each column's row, and the one after its last."""
        first, end = (np.floor(self.top + at * self.row).astype(np.int64) for at in (column, column + 1))
        end = np.maximum(first + 1, end - self._gap)
        return np.clip(first, 0, self.size[0]), np.clip(end, 0, self.size[0])

    def _ops_of_lines(self) -> NDArray[np.float64]:
        """How many ops share each line of pixels, one at least."""
        first = max(0, math.floor(-self.top / self.row) - 1)
        column = np.arange(first, first + math.ceil(self.size[0] / self.row) + 3)
        begun, ended = (np.bincount(line, minlength=self.size[0] + 1) for line in self._lines(column))
        return np.asarray(np.maximum(1.0, np.cumsum(begun - ended)[:-1]))


def _pixels(
    begin: NDArray[np.floating[Any]], end: NDArray[np.floating[Any]], least: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Round each stretch to pixels [first, end) of an image of ``most`` pixels. A stretch shorter than
    ``least`` is widened around its middle; one outside the image is empty."""
    middle = (begin + end) / 2
    seen = ((end > 0) | (middle >= 0)) & ((begin < most) | (middle <= most))
    first = np.clip(np.rint(np.minimum(begin, middle - least / 2)), 0, max(0, most - least))
    last = np.clip(np.maximum(first + least, np.rint(end)), 0, most)
    return np.where(seen, first, 0).astype(np.int64), np.where(seen, last, 0).astype(np.int64)


def _half(dot: int) -> int:
    return (dot + 1) // 2


def computed_picture(graph: Graph, matrices: StageMatrices, raster: Raster) -> NDArray[np.uint8]:
    """R as palette indices, each step a dot at least. A recomputation is larger, and above all others."""
    column = matrices.column_of_step
    # A stage ends with the first computation of its op.
    first, late = matrices.stage_of_step == column, graph.late[matrices.order][column]
    image = np.zeros(raster.size, np.uint8)
    for chosen, index in ((first & ~late, FORWARD), (first & late, BACKWARD), (~first, RECOMPUTED)):
        steps = np.flatnonzero(chosen)
        least = raster.dot if index == RECOMPUTED else _half(raster.dot)
        image[raster.boxes(steps, steps + 1, column[steps], least)] = index
    return image


def held_strength(graph: Graph, matrices: StageMatrices, raster: Raster) -> NDArray[np.float64]:
    """How strongly each pixel of S is drawn, from 0 to 1: as strong as many of its cells are held. Those of
    checkpointed columns count most. What is held anywhere in a pixel stays visible."""
    column, begin, end = held_spans(matrices)
    crosses, starts = checkpointed(graph, matrices)[column], stage_edges(matrices)
    strength = np.zeros(raster.size)
    for chosen, share in ((crosses, 1.0), (~crosses, _HELD_SHARE)):
        strength += share * raster.density(starts[begin[chosen]], starts[end[chosen]], column[chosen])
    return np.where(strength > 1e-9, np.maximum(np.minimum(strength, 1.0), _FAINTEST), 0.0)


def computed_image(graph: Graph, matrices: StageMatrices, most: int) -> NDArray[np.uint8]:
    """R as palette indices; rows are stages, with at most ``most`` cells on a side. A set cell stays visible
    at any size, a recomputation above all. No array is made that is larger than the image."""
    bins, late = bins_of(matrices.n, most), graph.late[matrices.order]
    image = np.zeros((bins[-1] + 1, bins[-1] + 1), np.uint8)
    rows, columns = bins[matrices.stage_of_step], bins[matrices.column_of_step]
    first = matrices.stage_of_step == matrices.column_of_step
    image[rows[first], columns[first]] = np.where(late[matrices.column_of_step[first]], BACKWARD, FORWARD)
    image[rows[~first], columns[~first]] = RECOMPUTED
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


NEITHER, BOTH, ONLY_A, ONLY_B, STRIPE_A, STRIPE_B = range(6)
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


def compared_picture(a: StageMatrices, b: StageMatrices, which: str, raster: Raster) -> NDArray[np.uint8]:
    """Which schedule computes (``R``) or holds (``S``) each cell: NEITHER, BOTH, ONLY_A or ONLY_B, on A's
    axes. Stages of A and B that end with the same op correspond. A pixel of S that covers many cells says
    which schedules hold any of them."""
    place = np.argsort(a.order)[b.order]  # B's column (and stage) → A's
    if which == "S":
        first, second = _held_at(a, a, np.arange(a.n), raster), _held_at(b, a, place, raster)
        cases = np.array([NEITHER, ONLY_A, ONLY_B, BOTH], np.uint8)
        return np.asarray(cases[first.view(np.uint8) + 2 * second.view(np.uint8)])
    image, starts = np.zeros(raster.size, np.uint8), stage_edges(a)
    own = a.stage_of_step.astype(np.int64) * a.n + a.column_of_step
    others = place[b.stage_of_step] * a.n + place[b.column_of_step]
    shared, steps = np.isin(own, others), np.arange(len(own))
    for chosen, index, least in (
        (steps[shared], BOTH, _half(raster.dot)),
        (steps[~shared], ONLY_A, raster.dot),
    ):
        image[raster.boxes(chosen, chosen + 1, a.column_of_step[chosen], least)] = index
    # A has no step for these: they are as wide as its stage.
    stage, column = np.divmod(others[~np.isin(others, own)], a.n)
    image[raster.boxes(starts[stage], starts[stage + 1], column, raster.dot)] = ONLY_B
    return image


def _held_at(
    matrices: StageMatrices, a: StageMatrices, place: NDArray[np.int64], raster: Raster
) -> NDArray[np.bool_]:
    """Mask of the pixels in which any cell of S is held, on A's axes. ``place``: column (and stage) → A's."""
    (height, width), n = raster.size, a.n
    by_stage = replace(raster, edges=np.arange(n + 1.0), size=(height, n))
    held = by_stage.boxes(matrices.held_from, matrices.held_to, place[matrices.held_column])
    before = np.zeros((height, n + 1), np.int32)  # by row: how many of A's first stages hold a cell
    np.cumsum(held[:, np.argsort(place)], axis=1, out=before[:, 1:])
    borders, pixels = raster.edges[stage_edges(a)], np.arange(width)
    first = np.searchsorted(borders[1:], pixels, side="right")
    end = np.searchsorted(borders[:-1], pixels + 1, side="left")
    return np.asarray(before[:, end] > before[:, np.minimum(first, end)])


def hatched(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The image with rising stripes for A and falling ones for B."""
    found = image.copy()
    y, x = np.ogrid[: image.shape[0], : image.shape[1]]
    found[(image == ONLY_A) & ((x + y) % _STRIPE == 0)] = STRIPE_A
    found[(image == ONLY_B) & ((x - y) % _STRIPE == 0)] = STRIPE_B
    return found


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
