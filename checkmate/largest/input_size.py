"""The largest input whose training step fits a budget at a limited extra cost.

The graph is made at every size asked. Sizes are levels of ``STEP`` pixels of height, with the width in
proportion. What an op needs grows with the size, so a size at which one op alone needs more than the budget
rules out all larger ones. That no schedule is cheap enough is proved size by size: costs grow nearly, not
exactly, in proportion, so for larger sizes it is taken, not proved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from checkmate.errors import BudgetBelowMinimumError, NoScheduleError, UsageError
from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.ir.arrays import Steps
from checkmate.largest.batch import cost_limit
from checkmate.largest.sized_steps import STEP, Size, SizedStep, size_at
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, never, silent, stop_if
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.listeners import CostCapListener
from checkmate.solvers.portfolio.least_memory import narrow, probe, require_overhead
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.tolerances import ROUNDING
from checkmate.units import format_bytes

_LARGEST = 2**15  # pixels of height
_GUESSES = 5  # of a size, from how need grows


@dataclass(frozen=True, eq=False)
class MaxInput:
    """The largest size that was found; sizes are (height, width) in pixels.

    ``plain_size`` is the largest without recomputation; None: none fits. Above ``memory_size`` some op alone
    needs more than the budget. ``refuted_size`` is the next size up, where it is proved that no schedule fits
    at the cost; None where that is not known. ``result`` is of ``graph``, at ``size``.
    """

    graph: Graph
    size: Size
    plain_size: Size | None
    memory_size: Size
    refuted_size: Size | None
    result: SolveResult
    cost_limit: float
    max_overhead: float | None
    seconds: float
    sizes_made: int
    cancelled: bool

    @property
    def proved(self) -> bool:
        """The proof is for any order and any cost."""
        return self.size == self.memory_size


def max_input(
    step: SizedStep,
    budget_bytes: int,
    *,
    max_overhead: float | None = None,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> MaxInput:
    """Return the largest input size whose step fits ``budget_bytes``, which include fixed bytes.

    ``max_overhead`` is as for ``max_batch``. The options' time limit is for the solves; making graphs is not
    counted. When cancelled during those, the best so far is returned.

    Raises:
        UsageError: the extra cost is negative, or every size fits. BudgetBelowMinimumError: the smallest does
        not fit, proved. NoScheduleError: no schedule was found at any size. CancelledError: cancelled before
        the first solve.
    """
    require_overhead(max_overhead)
    begun = time.perf_counter()
    search = _InputSizeSearch(step, budget_bytes, max_overhead, options or SolveOptions(), report, cancelled)
    search.run()
    graph, seconds = search.graph(search.low), time.perf_counter() - begun
    result = with_schedule(
        Problem(graph, budget_bytes), "auto", search.steps, lower_bound=graph.base_cost, seconds=seconds
    )
    plain = search.size(search.plain) if search.plain else None
    refuted = search.size(search.low + 1) if search.low == search.high else None
    return MaxInput(
        graph, search.size(search.low), plain, search.size(search.memory), refuted, result,
        cost_limit(graph, max_overhead), max_overhead, seconds, len(search.made), cancelled(),
    )  # fmt: skip


@dataclass
class _InputSizeSearch:
    """``low``: the largest level with a schedule; levels above ``high`` have none."""

    step: SizedStep
    budget: int
    max_overhead: float | None
    options: SolveOptions
    report: Report
    cancelled: Cancelled
    low: int = 0
    high: int = 0
    plain: int = 0
    memory: int = 0
    spent: float = 0.0  # seconds of solving
    steps: Steps = field(default_factory=lambda: np.zeros(0, np.int32))
    made: dict[int, Graph] = field(default_factory=dict)

    def size(self, level: int) -> Size:
        return size_at(level, self.step.aspect)

    def graph(self, level: int) -> Graph:
        if level not in self.made:
            height, width = size = self.size(level)
            self.report(Progress("input", message=f"the step at {height} x {width}"))
            self.made[level] = self.step.at(size)
        return self.made[level]

    def run(self) -> None:
        self._most_by_need()
        self.plain = self._largest(self._plain_peak, self.memory)
        if self.plain:
            self._take(self.plain, np.arange(self.graph(self.plain).n, dtype=np.int32))
        if self.low < self.high and not self.cancelled():
            load_kernels(self.cancelled, lambda sentence: self.report(Progress("prepare", message=sentence)))
            limit = self.options.time_limit_s
            narrow(
                lambda: (-self.high, -self.low),
                lambda level, seconds: self._solve(-level, min(seconds, limit - self.spent)),
                limit_s=limit,
                until=math.inf,  # a trace may take longer than all solves
                over=lambda: self.low >= self.high or self.spent >= limit or self.cancelled(),
            )
        if not self.low:
            raise NoScheduleError(
                f"no schedule was found at any size within {format_bytes(self.budget)}",
                hint="give more memory or time, or a smaller batch",
            )

    def _most_by_need(self) -> None:
        self.memory = self.high = self._largest(
            lambda level: run_once_bound(self.graph(level)).bytes, _LARGEST // STEP
        )
        if not self.memory:
            least = run_once_bound(self.graph(1))
            op = self.graph(1).ops[least.op].name
            names = tuple(self.graph(1).values[value].name for value in least.values)
            raise BudgetBelowMinimumError(budget=self.budget, needed=least.bytes, op=op, values=names)
        if self.memory == _LARGEST // STEP:
            raise UsageError(f"within {format_bytes(self.budget)} inputs beyond {_LARGEST} pixels fit")

    def _plain_peak(self, level: int) -> int:
        graph = self.graph(level)
        return simulate(graph, Schedule.plain(graph)).peak_bytes

    def _largest(self, need: Callable[[int], int], top: int) -> int:
        """Return the largest level up to ``top`` whose need is within the budget; 0 for none.

        Each level may cost a trace, so few are tried: need is guessed to grow as the area does. If some
        guesses fail, the range is halved.
        """
        low, level, tries = 0, max(1, min(top, round(self.step.aspect[0] / STEP))), 0
        while low < top:
            stop_if(self.cancelled)
            fixed, bytes_, tries = self.graph(level).fixed_bytes, need(level), tries + 1
            low, top = (max(low, level), top) if bytes_ <= self.budget else (low, min(top, level - 1))
            guess = level * math.sqrt(max(0, self.budget - fixed) / max(1, bytes_ - fixed))
            level = (low + top + 1) // 2 if tries > _GUESSES else max(low + 1, min(top, int(guess)))
        return low

    def _limit(self, level: int) -> float:
        return cost_limit(self.graph(level), self.max_overhead)

    def _take(self, level: int, steps: Steps) -> bool:
        """Keep the schedule if it fits a larger level; return whether one that fits ``level`` is known."""
        graph = self.graph(level)
        fits = simulate(graph, Schedule.of(graph, steps)).peak_bytes <= self.budget
        if fits and graph.cost[steps].sum() <= self._limit(level) * (1 + ROUNDING) and level > self.low:
            self.low, self.steps = level, np.asarray(steps, np.int32)
            height, width = self.size(level)
            self.report(Progress("solve", message=f"largest input so far {height} x {width}"))
        return self.low >= level

    def _solve(self, level: int, seconds: float) -> bool:
        """Solve at ``level``; move ``low`` or ``high``. Return whether it is settled if a schedule fits."""
        graph, limit = self.graph(level), self._limit(level) * (1 + ROUNDING)
        start = self.steps if self.low and alike(graph, self.graph(self.low)) else None
        if start is not None and self._take(level, start):
            return True
        ear, begun = CostCapListener(limit, self.cancelled), time.perf_counter()
        result, bound = probe(Problem(graph, self.budget), self.options, seconds, None, ear)
        self.spent += time.perf_counter() - begun
        if result.schedule is not None and self._take(level, result.schedule.steps):
            return True
        if bound > limit or math.isinf(bound):
            self.high = min(self.high, level - 1)
            return True
        return False


def alike(one: Graph, other: Graph) -> bool:
    """Return whether the same ops read and write the same values, so that schedules are of both."""
    return one.n == other.n and all(
        (a.inputs, a.outputs, a.recomputable) == (b.inputs, b.outputs, b.recomputable)
        for a, b in zip(one.ops, other.ops, strict=True)
    )
