"""Axes of the memory curve whose ticks are at round steps or round costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyqtgraph as pg
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QResizeEvent

from app.presenters.axes import Tick

_HEIGHT = 20
_PER_TICK = 54  # pixels
_LEAST, _FINER = 3, (1, 1.5, 2, 3, 4)  # ticks, where their words have room; times as many
_BETWEEN = 8  # pixels, at least, between the words of two ticks


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
        per_unit = size / (high - low) if high > low else 0.0
        self._words, most = {}, 0
        # One tick says nothing of a scale: where round numbers leave too few, there are finer ones.
        for times in _FINER:
            ticks = self._ticks_of(low, high, max(1, int(times * size / _PER_TICK)))
            found = dict(_with_room(ticks, per_unit))
            seen = sum(_is_inside(tick, low, high, per_unit) for tick in found.items())
            if not self._words or seen > most:
                self._words, most = found, seen
            if most >= _LEAST:
                break
        return [(1.0, list(self._words))]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        return [self._words.get(value, "") for value in values]

    def resizeEvent(self, event: QResizeEvent | None = None) -> None:
        words: Any = self.label
        if words is not None:
            box = words.boundingRect()
            words.setPos(-box.width() - 2, 0 if self.orientation == "bottom" else _HEIGHT - box.height())


def _is_inside(tick: Tick, low: float, high: float, per_unit: float) -> bool:
    """Return whether the words are wholly between the ends. Others are not drawn."""
    place, words = tick
    half = QFontMetricsF(QGuiApplication.font()).horizontalAdvance(words) / 2
    return low * per_unit <= place * per_unit - half and place * per_unit + half <= high * per_unit


def _with_room(ticks: Iterable[Tick], per_unit: float) -> Iterator[Tick]:
    """Leave out ticks whose words would touch those of the tick before."""
    metrics, free = QFontMetricsF(QGuiApplication.font()), -math.inf
    for place, words in ticks:
        middle, half = place * per_unit, metrics.horizontalAdvance(words) / 2
        if middle - half >= free:
            free = middle + half + _BETWEEN
            yield place, words
