"""R and S as images, at the resolution that they are drawn in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QImage

from app.models.exploration import ListedSchedule
from app.presenters.difference import ONLY_A, compared_image, hatched
from app.presenters.matrix_image import (
    RECOMPUTED,
    Cells,
    computed_image,
    enlarge,
    held_strength,
    thicken,
)
from app.theme import Theme

_ROLES = ("panel", "forward", "backward", "recomputed")
_ALPHA = (0, 255, 255, 255)
# Of a comparison: neither, both, only A, only B, and the stripes of the last two.
_COMPARED_ROLES = ("panel", "freed", "forward", "backward", "forward", "backward")
_COMPARED_ALPHA = (0, 120, 255, 255, 90, 90)
_SHADES = 256
_THIN = 3  # pixels; smaller cells of R are drawn larger


def computed_picture(
    shown: ListedSchedule, cells: Cells, width: int, height: int, ratio: float, theme: Theme
) -> QImage:
    """Return some cells of R at a size in pixels of 1/96 inch.

    ``ratio`` is how many pixels of the screen each of them has.
    """
    most = max(width, height)
    small = computed_image(shown.graph, shown.matrices, most, cells)
    colors = [theme.color(role, a).rgba() for role, a in zip(_ROLES, _ALPHA, strict=True)]
    if cells.bottom - cells.top <= height / _THIN:
        return _indexed(small, colors)
    # Thin cells are enlarged from 96 dots an inch: as thick on a dense screen.
    large = thicken(enlarge(small, height, width), RECOMPUTED)
    return _indexed(enlarge(large, round(ratio * height), round(ratio * width)), colors)


def held_picture(
    shown: ListedSchedule, cells: Cells, width: int, height: int, ratio: float, theme: Theme
) -> QImage:
    """Return some cells of S at a size in pixels.

    A pixel that stands for many cells is as dark as many of them are held.
    """
    rows, columns = round(ratio * height), round(ratio * width)
    strength = held_strength(shown.graph, shown.matrices, cells, rows, columns)
    shades = np.rint(strength * (_SHADES - 1)).astype(np.uint8)
    return _indexed(shades, [theme.color("held", shade).rgba() for shade in range(_SHADES)])


def compared_picture(
    shown: ListedSchedule,
    other: ListedSchedule,
    which: str,
    cells: Cells,
    size: tuple[int, int],
    ratio: float,
    theme: Theme,
) -> QImage:
    """Return some cells of R or S of two schedules, at a size in pixels."""
    width, height = size
    roles = zip(_COMPARED_ROLES, _COMPARED_ALPHA, strict=True)
    colors = [theme.color(role, alpha).rgba() for role, alpha in roles]
    rows, columns = round(ratio * height), round(ratio * width)
    if which == "R" and cells.bottom - cells.top > height / _THIN:
        small = compared_image(shown.matrices, other.matrices, which, max(width, height), cells)
        large = enlarge(thicken(enlarge(small, height, width), ONLY_A), rows, columns)
        return _indexed(large, colors)
    small = compared_image(shown.matrices, other.matrices, which, max(rows, columns), cells)
    return _indexed(hatched(small, rows, columns), colors)


def _indexed(image: NDArray[np.uint8], colors: list[int]) -> QImage:
    height, width = image.shape
    padded = np.zeros((height, -(-width // 4) * 4), np.uint8)
    padded[:, :width] = image
    made = QImage(padded.data, width, height, padded.shape[1], QImage.Format.Format_Indexed8)
    made.setColorTable(colors)
    return made.copy()
