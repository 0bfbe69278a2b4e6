"""R and S as small images of palette indices; no Qt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph, Phase
from checkmate.ir.schedule import StageMatrices

EMPTY, FORWARD, BACKWARD, RECOMPUTED, HELD, CHECKPOINTED = range(6)


def computed_image(graph: Graph, matrices: StageMatrices) -> NDArray[np.uint8]:
    """R as uint8[n, n] palette indices: first forward, first backward, recomputed."""
    n = len(matrices.order)
    late = np.array([graph.ops[op].phase in (Phase.BACKWARD, Phase.UPDATE) for op in matrices.order.tolist()])
    image = matrices.R.view(np.uint8) * np.uint8(RECOMPUTED)
    diagonal = np.arange(n)
    image[diagonal, diagonal] = np.where(late, BACKWARD, FORWARD)
    return image


def held_image(graph: Graph, matrices: StageMatrices) -> NDArray[np.uint8]:
    """S as uint8[n, n]: held, or checkpointed where a forward value crosses into the backward pass."""
    late = np.array([graph.ops[op].phase in (Phase.BACKWARD, Phase.UPDATE) for op in matrices.order.tolist()])
    border = int(np.argmax(late)) if late.any() else len(late)
    crosses = matrices.S[min(border, len(late) - 1)] & ~late
    return matrices.S.view(np.uint8) * np.where(crosses, CHECKPOINTED, HELD).astype(np.uint8)


def shrink(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """``image`` at most ``height`` x ``width`` by taking the largest index of each block.

    The largest, not the nearest: a single set cell, a diagonal above all, must stay visible at any size.
    """
    rows, columns = min(height, image.shape[0]), min(width, image.shape[1])
    if rows < 1 or columns < 1:
        return image[:1, :1]
    # Along rows both times: memory lies that way, and it is several times as fast.
    for most in (rows, columns):
        starts = np.linspace(0, image.shape[0], most, endpoint=False).astype(int)
        image = np.ascontiguousarray(np.maximum.reduceat(image, starts, axis=0).T)
    return image


def enlarge(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """``image`` at ``height`` x ``width``, each cell repeated."""
    rows = np.arange(height) * image.shape[0] // height
    columns = np.arange(width) * image.shape[1] // width
    return image[np.ix_(rows, columns)]


def thicken(image: NDArray[np.uint8], from_index: int) -> NDArray[np.uint8]:
    """Every pixel of ``from_index`` or more also on its eight neighbours: a recomputation is one cell, and must be seen."""
    padded = np.pad(np.where(image >= from_index, image, EMPTY), 1)
    height, width = image.shape
    around = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    spread = np.maximum.reduce(around)
    return np.where(image >= from_index, image, np.where(spread > EMPTY, spread, image)).astype(np.uint8)
