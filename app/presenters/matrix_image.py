"""R and S as small images of palette indices; no Qt."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.ir.schedule import StageMatrices

EMPTY, FORWARD, BACKWARD, RECOMPUTED, HELD, CHECKPOINTED = range(6)


def computed_image(graph: Graph, matrices: StageMatrices, most: int) -> NDArray[np.uint8]:
    """Return R as palette indices: first forward, first backward, recomputed.

    The image has at most ``most`` cells on a side. A set cell stays visible at any size, a recomputation
    above all. However many ops there are, no array is made that is larger than the image.
    """
    bins = bins_of(matrices.n, most)
    late = graph.late[matrices.order]
    image = np.zeros((bins[-1] + 1, bins[-1] + 1), np.uint8)
    rows, columns = bins[matrices.stage_of_step], bins[matrices.column_of_step]
    # A stage ends with the first computation of its op.
    first = matrices.stage_of_step == matrices.column_of_step
    image[rows[first], columns[first]] = np.where(late[matrices.column_of_step[first]], BACKWARD, FORWARD)
    image[rows[~first], columns[~first]] = RECOMPUTED
    return image


def held_image(graph: Graph, matrices: StageMatrices, most: int) -> NDArray[np.uint8]:
    """Return S as palette indices: held, or checkpointed.

    A cell is checkpointed if a forward value crosses into the backward pass.
    """
    bins = bins_of(matrices.n, most)
    late = graph.late[matrices.order]
    border = min(int(np.argmax(late)) if late.any() else matrices.n, matrices.n - 1)
    crosses = np.zeros(matrices.n, np.bool_)
    crosses[matrices.held_column[(matrices.held_from <= border) & (border < matrices.held_to)]] = True
    crosses &= ~late
    image = np.zeros((bins[-1] + 1, bins[-1] + 1), np.uint8)
    for mask, index in ((~crosses, HELD), (crosses, CHECKPOINTED)):
        chosen = mask[matrices.held_column]
        first, last = bins[matrices.held_from[chosen]], bins[matrices.held_to[chosen] - 1]
        image[spread(first, last, bins[matrices.held_column[chosen]], image.shape)] = index
    return image


def bins_of(n: int, most: int) -> NDArray[np.int64]:
    """Return the row of the image for each of ``n`` rows, int64[n].

    The image has at most ``most`` rows. Columns are treated alike.
    """
    return np.arange(n) * min(n, most) // n


def spread(
    first: NDArray[np.integer[Any]],
    last: NDArray[np.integer[Any]],
    column: NDArray[np.integer[Any]],
    shape: tuple[int, int],
) -> NDArray[np.bool_]:
    """Return bool[shape] with some cells of ``column`` set.

    These are the rows ``first`` to ``last`` (included).
    """
    cells, width = (shape[0] + 1) * shape[1], shape[1]
    begin, end = (np.bincount(row * width + column, minlength=cells) for row in (first, last + 1))
    return np.cumsum((begin - end).reshape(-1, width), axis=0)[:-1] > 0


def shrink(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return ``image`` at most ``height`` x ``width``.

    Each block becomes its largest index. The largest, not the nearest: a single set cell, a diagonal above
    all, must stay visible at any size.
    """
    rows, columns = min(height, image.shape[0]), min(width, image.shape[1])
    if rows < 1 or columns < 1:
        return image[:1, :1]
    # Along rows both times: rows are contiguous in memory, so this is several times as fast.
    for most in (rows, columns):
        starts = np.linspace(0, image.shape[0], most, endpoint=False).astype(int)
        image = np.ascontiguousarray(np.maximum.reduceat(image, starts, axis=0).T)
    return image


def enlarge(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return ``image`` at ``height`` x ``width``, each cell repeated."""
    rows = np.arange(height) * image.shape[0] // height
    columns = np.arange(width) * image.shape[1] // width
    return image[np.ix_(rows, columns)]


def thicken(image: NDArray[np.uint8], from_index: int) -> NDArray[np.uint8]:
    """Spread every pixel of ``from_index`` or more to its eight neighbours.

    A recomputation is a single cell, and must be visible.
    """
    padded = np.pad(np.where(image >= from_index, image, EMPTY), 1)
    height, width = image.shape
    around = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    spread = np.maximum.reduce(around)
    return np.where(image >= from_index, image, np.where(spread > EMPTY, spread, image)).astype(np.uint8)
