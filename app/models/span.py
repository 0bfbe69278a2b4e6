"""The part of the step that is shown, the selected range, and what the pointer is on. Memory curve, R and S
share them."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.models.exploration import Exploration
from app.presenters.axes import StepAxis, stage_edges
from app.presenters.bands import Grouping
from app.state.knowledge import ListedSchedule
from checkmate.ir import Graph

_LEAST_STEPS, _LEAST_OPS = 1.0, 4.0
_LEAST_HEIGHT = 1e-5  # of a scale of bytes
_ALL = 0.0, 1.0


class Scale(StrEnum):
    LIVE = "live bytes"
    ADDRESSES = "addresses"
    OPS = "ops"


class StepSpan(QObject):
    """Which steps are on screen, and which of them are selected.

    A position is a number of steps: step ``k`` goes from ``k`` to ``k + 1``. With another schedule, the same
    stages stay on screen, and the selection goes.

    Attributes:
        begin, end: the positions between which the timeline shows the step.
        heights: the ends of each vertical scale on screen, as shares of the whole scale. That of ops, the
            rows of R and S, has the first one at the top.
        with_addresses: whether the allocator's view is below the memory curve.
        chosen: the first and the last selected step; None if none are selected.
        pointed: the step and the op that the pointer is on in any view, each -1 where it is on none.
        grouping: what the memory curve's bands are stacked by; None for a curve without bands.
        by_cost: whether the curve's axis counts costs, such as seconds; else it counts steps.

    Signals: ``changed``: another part is on screen, or it is shown in another way.
    """

    changed = Signal()
    chosen_changed = Signal()
    pointed_changed = Signal()

    def __init__(self, exploration: Exploration, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.begin, self.end = 0.0, 1.0
        self.chosen: tuple[int, int] | None = None
        self.pointed = -1, -1
        self.by_cost = False
        self.grouping: Grouping | None = None
        self.heights = dict.fromkeys(Scale, _ALL)
        self.with_addresses = False
        self._exploration = exploration
        self._graph: Graph | None = None
        self._edges: NDArray[np.int64] = np.arange(2)
        self._numbers = np.arange(2)
        self._axis: tuple[ListedSchedule, bool, StepAxis] | None = None
        exploration.shown_changed.connect(self._on_shown)
        if exploration.shown is not None:
            self._on_shown()

    @property
    def count(self) -> int:
        return int(self._edges[-1])

    @property
    def is_whole(self) -> bool:
        """Whether every step, op and byte is on screen."""
        return (self.begin, self.end) == (0.0, self.count) and set(self.heights.values()) == {_ALL}

    @property
    def pointed_op(self) -> int:
        """The op under the pointer, or the one that the step under it computes; -1 for none."""
        (step, op), shown = self.pointed, self._exploration.shown
        return int(shown.schedule.steps[step]) if op < 0 <= step and shown is not None else op

    @property
    def axis(self) -> StepAxis | None:
        shown = self._exploration.shown
        if shown is None:
            return None
        if self._axis is None or self._axis[0] is not shown or self._axis[1] != self.by_cost:
            axis = StepAxis.of(shown.graph, shown.schedule, by_cost=self.by_cost)
            self._axis = shown, self.by_cost, axis
        return self._axis[2]

    @property
    def stages(self) -> tuple[float, float]:
        """The visible range in stages; a fraction says how far into its stage an end is."""
        begin, end = np.interp((self.begin, self.end), self._edges, self._numbers).tolist()
        return begin, end

    def show(self, begin: float, end: float) -> None:
        found = _within(begin, end, float(self.count), _LEAST_STEPS)
        if found != (self.begin, self.end):
            self.begin, self.end = found
            self.changed.emit()

    def zoom(self, factor: float) -> None:
        self.show(*_zoomed(self.begin, self.end, factor))

    def move(self, share: float) -> None:
        self.show(*_moved(self.begin, self.end, share))

    def show_heights(self, scale: Scale, low: float, high: float) -> None:
        least = _LEAST_OPS / len(self._numbers) if scale is Scale.OPS else _LEAST_HEIGHT
        found = _within(low, high, 1.0, least)
        if found != self.heights[scale]:
            self.heights[scale] = found
            self.changed.emit()

    def zoom_heights(self, scale: Scale, factor: float) -> None:
        self.show_heights(scale, *_zoomed(*self.heights[scale], factor))

    def move_heights(self, scale: Scale, share: float) -> None:
        self.show_heights(scale, *_moved(*self.heights[scale], share))

    def show_whole(self) -> None:
        if not self.is_whole:
            self.begin, self.end = 0.0, float(self.count)
            self.heights = dict.fromkeys(Scale, _ALL)
            self.changed.emit()

    def choose(self, chosen: tuple[int, int] | None) -> None:
        if chosen is not None:
            first, last = sorted(chosen)
            chosen = max(0, first), min(self.count - 1, last)
        if chosen != self.chosen:
            self.chosen = chosen
            self.chosen_changed.emit()

    def point_at(self, step: int = -1, op: int = -1) -> None:
        if (step, op) != self.pointed:
            self.pointed = step, op
            self.pointed_changed.emit()

    def show_chosen(self) -> None:
        if self.chosen is not None:
            first, last = self.chosen
            margin = 0.02 * (last + 1 - first)
            self.show(first - margin, last + 1 + margin)

    def toggle_axis(self) -> None:
        self.by_cost = not self.by_cost
        self.changed.emit()

    def group_by(self, grouping: Grouping | None) -> None:
        if grouping is not self.grouping:
            self.grouping = grouping
            self.changed.emit()

    def toggle_addresses(self) -> None:
        self.with_addresses = not self.with_addresses
        self.changed.emit()

    def next_grouping(self) -> None:
        ways = [None, *Grouping]
        self.group_by(ways[(ways.index(self.grouping) + 1) % len(ways)])

    def _on_shown(self) -> None:
        shown = self._exploration.shown
        if shown is None:
            return
        # A zoomed view of the same graph keeps its stages, although the new schedule has other steps.
        stays, stages = shown.graph is self._graph and not self.is_whole, self.stages
        if shown.graph is not self._graph:
            self.heights = dict.fromkeys(Scale, _ALL)
        self._graph, self._edges = shown.graph, stage_edges(shown.matrices)
        self._numbers = np.arange(len(self._edges))
        every = 0.0, float(self.count)
        begin, end = np.interp(stages, self._numbers, self._edges).tolist() if stays else every
        self.begin, self.end = _within(begin, end, float(self.count), _LEAST_STEPS)
        self.choose(None)
        self.point_at()


def _zoomed(low: float, high: float, factor: float) -> tuple[float, float]:
    middle, half = (low + high) / 2, factor * (high - low) / 2
    return middle - half, middle + half


def _moved(low: float, high: float, share: float) -> tuple[float, float]:
    by = share * (high - low)
    return low + by, high + by


def _within(begin: float, end: float, most: float, least: float) -> tuple[float, float]:
    """Return a stretch inside [0, most], at least ``least`` long, with the same middle if possible."""
    length = min(most, max(least, end - begin))
    begin = min(max(0.0, (begin + end - length) / 2), most - length)
    return begin, begin + length
