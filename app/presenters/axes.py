"""Scales and ticks of plots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import CostUnit, Graph, Schedule, StageMatrices
from checkmate.machine.cost_origin import cost_text
from checkmate.units import byte_unit, round_values

_WIDEST = 200  # the largest ratio of a scale's ends: without a proved bound, the floor may be almost zero
_LOG_FROM = 4.0  # above this ratio of its ends a linear scale would crush the low budgets


def nice_ticks(low: float, high: float, most: int) -> list[float]:
    return round_values(low, high, most) or [low]


@dataclass(frozen=True)
class BudgetScale:
    """Bytes to pixels and back, logarithmic if the range is wide."""

    low: float
    high: float
    left: float
    right: float
    logarithmic: bool

    @classmethod
    def between(cls, floor: int, top: int, left: float, right: float) -> BudgetScale:
        """A scale from a little under ``floor``, which every schedule needs, to a little over ``top``."""
        high, floor = max(2.0, 1.04 * top), max(floor, top // _WIDEST)
        wide = floor > 0 and top / floor > _LOG_FROM
        low = 0.82 * floor if wide else max(0.0, floor - 0.12 * (high - floor))
        return cls(max(low, 1.0 if wide else 0.0), high, left, max(right, left + 1), wide)

    def position(self, count: int) -> float:
        value = min(max(float(count), self.low), self.high)
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)

    def bytes_at(self, x: float) -> int:
        share = min(1.0, max(0.0, (x - self.left) / (self.right - self.left)))
        if self.logarithmic:
            return int(self.low * (self.high / self.low) ** share)
        return int(self.low + share * (self.high - self.low))

    @property
    def unit(self) -> tuple[str, int]:
        return byte_unit(self.high)

    def ticks(self) -> list[float]:
        size = self.unit[1]
        low, high = self.low / size, self.high / size
        if not self.logarithmic:
            return nice_ticks(low, high, 6)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        every = [factor * 10.0**power for power in powers for factor in (1, 2, 3, 4, 6, 8)]
        return [tick for tick in every if low <= tick <= high]


Tick = tuple[float, str]  # place and label
_MOST_DIGITS = 9
_APART = 0.6  # of the average distance between ticks; labels of closer ticks would touch


@dataclass(frozen=True, eq=False)
class StepAxis:
    """An axis along which the steps of a schedule lie. Step ``k`` goes from *position* ``k`` to ``k + 1``.

    ``edges``: float64[steps + 1], where each step begins on the axis, and where the last one ends. ``costs``:
    float64[steps + 1], what was computed before each step, and in all. ``by_cost``: the axis counts costs;
    else steps."""

    graph: Graph
    edges: NDArray[np.float64]
    costs: NDArray[np.float64]
    by_cost: bool

    @classmethod
    def of(cls, graph: Graph, schedule: Schedule, *, by_cost: bool) -> StepAxis:
        """The axis counts steps if nothing costs anything. An axis of steps has the middle of step ``k`` at
        ``k``."""
        costs = np.concatenate([[0.0], np.cumsum(graph.cost[schedule.steps])])
        by_cost = by_cost and bool(costs[-1] > 0)
        steps = np.arange(len(schedule.steps) + 1, dtype=np.float64) - 0.5
        edges = costs if by_cost else steps
        return cls(graph, edges, costs, by_cost)

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    @property
    def cost_word(self) -> str:
        return {CostUnit.SECONDS: "time", CostUnit.FLOP: "work"}.get(self.graph.cost_unit, "cost")

    def place(self, position: Any) -> Any:
        return np.interp(position, np.arange(self.count + 1), self.edges)

    def position(self, place: float) -> float:
        return _position_among(self.edges, min(max(place, self.edges[0]), self.edges[-1]))

    def step_at(self, place: float) -> int:
        return min(self.count - 1, int(self.position(place)))

    def columns(self, first: int, last: int, most: int) -> NDArray[np.int64]:
        """Where at most ``most`` columns of the steps from ``first`` to before ``last`` begin. They are about
        equally wide on the axis."""
        if last - first <= most:
            return np.arange(first, last)
        places = np.linspace(self.edges[first], self.edges[last], most, endpoint=False)
        starts = np.searchsorted(self.edges, places, side="right") - 1
        starts = np.clip(starts, first, last - 1)
        # They ascend. ``np.unique`` would import a module of its own first.
        return np.asarray(starts[np.diff(starts, prepend=-1) > 0], np.int64)

    def step_ticks(self, low: float, high: float, most: int) -> list[Tick]:
        """About ``most`` ticks at round numbers of steps, counted from one."""
        first, last = self.position(low), self.position(high)
        numbers = (int(value) for value in round_values(first + 1, last + 1, most) if value == int(value))
        ticks = ((float(self.place(number - 0.5)), f"{number:,}") for number in numbers if number > 0)
        middle = (low + high) / 2  # zoomed into one step, no tick may be visible: label the middle
        return list(_apart(ticks, low, high, most)) or [(middle, f"{self.step_at(middle) + 1:,}")]

    def cost_ticks(self, low: float, high: float, most: int) -> list[Tick]:
        positions = np.arange(self.count + 1)
        first, last = (float(np.interp(self.position(x), positions, self.costs)) for x in (low, high))
        if last <= first:
            return []
        costs = round_values(first, last, most)
        words = self._words_of_costs(costs)
        if self.by_cost:
            return list(zip(costs, words, strict=True))
        places = (float(self.place(_position_among(self.costs, cost))) for cost in costs)
        return list(_apart(zip(places, words, strict=True), low, high, most))

    def _words_of_costs(self, costs: list[float]) -> list[str]:
        words: list[str] = []
        for digits in range(3, _MOST_DIGITS + 1):
            words = [self._cost_words(cost, digits) for cost in costs]
            if len(set(words)) == len(words):
                break
        return words

    def _cost_words(self, cost: float, digits: int) -> str:
        if self.graph.cost_unit is CostUnit.UNIT:
            return f"{cost:,.{digits + 1}g}" if cost < 10_000 else f"{cost:,.0f}"
        return cost_text(self.graph, cost, digits) if cost else "0"


def stage_edges(matrices: StageMatrices) -> NDArray[np.int64]:
    """The step with which each stage begins, and how many steps there are, int64[stages + 1]."""
    return np.searchsorted(matrices.stage_of_step, np.arange(matrices.n + 1)).astype(np.int64)


def _position_among(edges: NDArray[np.float64], value: float) -> float:
    """Return the position of ``value``; among steps without width, the beginning of the last one."""
    step = int(np.clip(np.searchsorted(edges, value, side="right") - 1, 0, len(edges) - 2))
    width = edges[step + 1] - edges[step]
    return step + (float((value - edges[step]) / width) if width > 0 else 0.0)


def _apart(ticks: Iterator[Tick], low: float, high: float, most: int) -> Iterator[Tick]:
    least, before = _APART * (high - low) / max(1, most), -np.inf
    for place, words in ticks:
        if low <= place <= high and place - before >= least:
            before = place
            yield place, words
