"""Axes of the memory curve whose ticks are at round steps or round costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyqtgraph as pg
from PySide6.QtGui import QResizeEvent

from app.presenters.step_axis import Tick

_HEIGHT = 20
_PER_TICK = 54  # pixels


class TickAxis(pg.AxisItem):  # type: ignore[misc]
    """A horizontal axis: ``ticks_of`` says what its ticks are.

    It is given the axis' two ends and about how many ticks there is space for. The axis' name is beside it,
    below or above the vertical axis, where it takes no height.
    """

    def __init__(self, side: str, ticks_of: Callable[[float, float, int], list[Tick]]) -> None:
        super().__init__(side)
        self._ticks_of = ticks_of
        self._words: dict[float, str] = {}
        self.setStyle(tickLength=-4)
        self.setHeight(_HEIGHT)
        self.enableAutoSIPrefix(False)

    def tickValues(self, low: float, high: float, size: float) -> list[tuple[float, list[float]]]:
        self._words = dict(self._ticks_of(low, high, max(1, int(size / _PER_TICK))))
        return [(1.0, list(self._words))]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        return [self._words.get(value, "") for value in values]

    def resizeEvent(self, event: QResizeEvent | None = None) -> None:
        words: Any = self.label
        if words is not None:
            box = words.boundingRect()
            words.setPos(-box.width() - 2, 0 if self.orientation == "bottom" else _HEIGHT - box.height())
