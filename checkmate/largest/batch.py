"""The largest batch whose schedule fits a budget at a limited extra cost.

Sizes grow with the batch (``checkmate.largest.scaling``). So a schedule that fits at one batch fits at every
smaller one, and a proof that none fits at one batch holds for every larger one. Baselines and greedy come
first, then the solver ``auto`` in between. Every schedule is tried at all batches, and is where later
questions start from. The default extra cost is the paper's: one extra forward pass (Jain et al. 2020, section
6.4).
"""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import (
    BudgetBelowMinimumError,
    InfeasibleError,
    NoScheduleError,
    SolveCancelledError,
    UsageError,
)
from checkmate.ir import Graph, Phase, Schedule, SolveResult
from checkmate.largest.scaling import BatchScaling
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, never, silent
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.listeners import CostCapListener
from checkmate.solvers.portfolio.least_memory import LEAST_SLICE_S, narrow, probe, require_overhead
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.registry import BASELINES, find_solver
from checkmate.solvers.tolerances import ROUNDING
from checkmate.units import format_bytes


@dataclass(frozen=True, eq=False)
class MaxBatch:
    """The largest batch that was found, and what is proved about it, all of it of extrapolated graphs.

    ``graph`` is at that batch; ``result`` is its schedule. No schedule of any order within the cost fits at a
    batch larger than ``upper_batch``. ``cost_limit`` is in the unit of ``graph``. ``max_overhead``: a
    fraction of computing everything once; None: one forward pass. ``plain_batch``: the largest without
    recomputation, in the given order (0: none). ``baselines``: the largest found for each; None where none
    above ``plain_batch`` was. ``unfinished``: those of them whose search was cut by its time. ``choices``:
    pairs of a batch and the extra cost (a fraction) of the cheapest schedule found for it; both rise.
    """

    graph: Graph
    scaling: BatchScaling
    batch: int
    upper_batch: int
    result: SolveResult
    cost_limit: float
    max_overhead: float | None
    plain_batch: int
    baselines: Mapping[str, int | None]
    unfinished: frozenset[str]
    seconds: float
    cancelled: bool = False
    probes: int = 0
    choices: tuple[tuple[int, float], ...] = ()

    @property
    def proved(self) -> bool:
        return self.batch >= self.upper_batch


def forward_cost(graph: Graph) -> float:
    return math.fsum(op.cost for op in graph.ops if op.phase is Phase.FORWARD)


def cost_limit(graph: Graph, max_overhead: float | None) -> float:
    """The default: the cost of computing everything once, and the forward ops once more."""
    if max_overhead is None:
        return graph.base_cost + forward_cost(graph)
    return math.inf if math.isinf(max_overhead) else graph.base_cost * (1 + max_overhead)


def max_batch(
    step: Graph | BatchScaling,
    budget_bytes: int,
    *,
    batch_size: int | None = None,
    max_overhead: float | None = None,
    options: SolveOptions | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> MaxBatch:
    """Return the largest batch whose step fits ``budget_bytes``, which include fixed bytes.

    ``step`` is a graph to extrapolate from, at ``batch_size`` where it does not say, or how it scales.
    ``max_overhead`` is a fraction of computing everything once, infinite for any cost; None: one forward
    pass. ``options.time_limit_s`` is for the whole search; ``options.gap`` stops it once that share of the
    proved limit is reached. When cancelled, the best so far is returned.

    Raises:
        UsageError: no batch size is known, nothing grows with it, or the extra cost is negative.
        BudgetBelowMinimumError: proved that not even one example fits. NoScheduleError: no batch was found;
        CancelledError is not raised.
    """
    require_overhead(max_overhead)
    started = time.perf_counter()
    scaling = step if isinstance(step, BatchScaling) else BatchScaling(step, batch_size or 0)
    limit = cost_limit(scaling.graph, max_overhead)
    search = BatchSearch(scaling, budget_bytes, limit, options or SolveOptions(), report, cancelled)
    search.run()
    if not search.best.batch:
        raise _nothing(search)
    found, factor = scaling.at(search.best.batch), search.best.batch / scaling.batch
    seconds = time.perf_counter() - started
    bound = search.cost_bound() * factor
    # Replays the schedule at this batch against the budget, sharing no code with what found it.
    result = with_schedule(
        Problem(found, budget_bytes), "auto", search.best.steps, lower_bound=bound, seconds=seconds
    )
    return MaxBatch(
        found,
        scaling,
        search.best.batch,
        search.high,
        result,
        limit * factor,
        max_overhead,
        search.plain_batch,
        search.baselines,
        frozenset(search.unfinished.intersection(search.baselines)),
        seconds,
        cancelled(),
        search.probes,
        choices=search.choices(),
    )


def _nothing(search: BatchSearch) -> NoScheduleError:
    budget = format_bytes(search.budget)
    error: NoScheduleError
    if search.high < 1:
        error = InfeasibleError(
            f"not even one example fits {budget} at this extra cost, in any order of execution",
            hint="raise the budget, or allow more extra cost",
        )
    elif search.cancelled():
        error = SolveCancelledError("interrupted before a batch that fits was found")
    else:
        error = NoScheduleError(
            f"no batch with a schedule within {budget} at this extra cost was found in the time given",
            hint="allow more seconds, or raise the budget",
        )
    error.details.update(budget_bytes=search.budget, upper_batch=search.high)
    return error


# The share of the time limit that each baseline gets, and the most seconds for one of its solves.
_BASELINE_SHARE, _BASELINE_S = 0.02, 1.0
_GREEDY_SHARE = 0.1  # of the time limit
_POLISH_SHARE = 0.1  # of the time limit, for a cheaper schedule at the batch reached


@dataclass(frozen=True, eq=False)
class Found:
    """A schedule, its cost at the graph's own batch, and the largest unrefuted batch at which it fits."""

    steps: NDArray[np.int32]
    cost: float
    batch: int


@dataclass
class BatchSearch:
    """Batches up to ``best.batch`` have a schedule; those above ``high`` are proved to have none.

    ``cost_limit`` is at the graph's own batch; every batch's extra cost is the same share of its step.
    """

    scaling: BatchScaling
    budget: int
    cost_limit: float
    options: SolveOptions
    report: Report
    cancelled: Cancelled
    best: Found = field(init=False)
    high: int = field(init=False)
    probes: int = field(init=False, default=0)
    baselines: dict[str, int | None] = field(init=False, default_factory=dict)
    # Solvers whose time was up before their bisection ended.
    unfinished: set[str] = field(init=False, default_factory=set)
    plain_batch: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._cap = self.cost_limit * (1 + ROUNDING)
        self._pool: list[Found] = []
        # By batch: a bound on the cost, at the graph's own batch, of every schedule that fits there.
        self._cost_bounds: dict[int, float] = {}
        self.high = self._most_by_need()
        plain = np.arange(self.scaling.graph.n, dtype=np.int32)
        self.best = Found(plain, math.inf, -1)
        self.take(plain)
        self.plain_batch = self.best.batch

    def run(self) -> None:
        if not self._over():
            load_kernels(self.cancelled, lambda sentence: self.report(Progress("prepare", message=sentence)))
        limit, begun = self.options.time_limit_s, time.perf_counter()
        for name in (name for name in BASELINES if name != "keep-all"):
            self.baselines[name] = self._largest_by(name, _BASELINE_SHARE * limit)
        self._largest_by("greedy", _GREEDY_SHARE * limit)
        self._until = begun + (1 - _POLISH_SHARE) * limit
        self._bisect()
        if self.best.batch:
            self._polish(begun + limit)

    def cost_bound(self) -> float:
        """A proved bound: no schedule that fits at the best batch costs less, at the graph's own batch."""
        # A bound for a smaller batch holds too: what fits at the larger one fits there.
        known = (cost for batch, cost in self._cost_bounds.items() if batch <= self.best.batch)
        return max(known, default=self.scaling.graph.base_cost)

    def choices(self) -> tuple[tuple[int, float], ...]:
        """See ``MaxBatch.choices``."""
        base = self.scaling.graph.base_cost
        found: list[tuple[int, float]] = []
        for entry in sorted([*self._pool, self.best], key=lambda one: (one.cost, -one.batch)):
            batch = min(entry.batch, self.best.batch)
            if batch and entry.cost <= self._cap and (not found or batch > found[-1][0]):
                found.append((batch, entry.cost / base - 1 if base > 0 else 0.0))
        return tuple(found)

    def take(self, steps: Sequence[int] | NDArray[np.int32]) -> Found:
        """Keep a schedule and how large a batch it allows; report the largest yet within the cost."""
        plan = np.asarray(steps, np.int32)
        cost = float(self.scaling.graph.cost[plan].sum())
        found = Found(plan, cost, _largest(lambda batch: self._fits(plan, batch), 0, self.high))
        if not any(entry.batch >= found.batch and entry.cost <= cost for entry in self._pool):
            self._pool = [entry for entry in self._pool if entry.batch > found.batch or entry.cost < cost]
            self._pool.append(found)
        if cost <= self._cap and (found.batch, -cost) > (self.best.batch, -self.best.cost):
            grew = found.batch > self.best.batch
            self.best = found
            if grew:
                self._report_range()
        return found

    def _report_range(self) -> None:
        self.report(
            Progress("solve", message=f"largest batch so far {self.best.batch}; none above {self.high}")
        )

    def _factor(self, batch: int) -> float:
        return batch / self.scaling.batch

    def _fits(self, steps: NDArray[np.int32], batch: int) -> bool:
        graph = self.scaling.at(batch)
        return simulate(graph, Schedule.of(graph, steps)).peak_bytes <= self.budget

    def _most_by_need(self) -> int:
        """Return the largest batch at which no op needs more than the budget by itself.

        Raises:
            BudgetBelowMinimumError: there is none. UsageError: it is larger than can be stated.
        """
        graph, budget = self.scaling.graph, self.budget
        most = self.scaling.largest()
        found = largest_batch_that(lambda batch: run_once_bound(self.scaling.at(batch)).bytes <= budget, most)
        if not found:
            need = run_once_bound(self.scaling.at(1))
            names = tuple(graph.values[value].name for value in need.values)
            raise BudgetBelowMinimumError(
                budget=budget, needed=need.bytes, op=graph.ops[need.op].name, values=names
            )
        if found == most:
            raise UsageError(
                f"a budget of {format_bytes(budget)} has room for more examples than can be counted"
            )
        return found

    def _over(self) -> bool:
        room = self.high - self.best.batch
        return room <= self.options.gap * self.high or self.cancelled()

    def _largest_by(self, name: str, seconds: float) -> int | None:
        """Return the largest batch above the plain step's that one solver reaches, or None."""
        until = time.perf_counter() + seconds
        low, top, found = self.plain_batch, self.high, 0
        while low < top and time.perf_counter() < until and not self.cancelled():
            # Bisect the ratio if it is large: the proved limit may be many times what these methods reach.
            middle = math.isqrt(low * top) if 4 * low < top and low else (low + top + 1) // 2
            options = replace(self.options, time_limit_s=min(_BASELINE_S, seconds), start=None)
            problem = Problem(self.scaling.at(middle), self.budget)
            result = find_solver(name).load().solve(problem, options, CostCapListener(None, self.cancelled))
            taken = None if result.schedule is None else self.take(result.schedule.steps)
            if taken is not None and taken.cost <= self._cap:
                found = max(found, taken.batch)
                low = max(middle, taken.batch)
            else:
                top = middle - 1
        if low < top:
            self.unfinished.add(name)
        return found or None

    def _bisect(self) -> None:
        """Probe downwards between the best and the proved limit: the larger batch is the harder one."""
        narrow(
            lambda: (-self.high, -self.best.batch),
            lambda level, seconds: self._probe(-level, seconds),
            limit_s=self.options.time_limit_s,
            until=self._until,
            over=self._over,
        )

    def _probe(self, batch: int, seconds: float) -> bool:
        """Solve at ``batch``; return whether it is now known if a schedule within the cost fits there."""
        limit = self._cap * self._factor(batch)
        bound = self._solve(batch, seconds, CostCapListener(limit, self.cancelled))
        if self.best.batch >= batch:
            return True
        if bound > limit or math.isinf(bound):  # if any cost is allowed, only the second can hold
            self.high = min(self.high, batch - 1)
            self._report_range()
            return True
        return False

    def _solve(self, batch: int, seconds: float, ear: CostCapListener) -> float:
        """Solve once; return a proved lower bound on the cost at ``batch``, infinite where nothing fits."""
        self.probes += 1
        graph = self.scaling.at(batch)
        start = min(
            (entry for entry in self._pool if entry.batch >= batch),
            key=lambda entry: entry.cost,
            default=None,
        )
        problem = Problem(graph, self.budget)
        result, bound = probe(problem, self.options, seconds, None if start is None else start.steps, ear)
        if result.schedule is not None:
            self.take(result.schedule.steps)
        if math.isfinite(bound):
            self._cost_bounds[batch] = max(self._cost_bounds.get(batch, 0.0), bound / self._factor(batch))
        return bound

    def _polish(self, until: float) -> None:
        """Use the time that is left to look for a cheaper schedule at the batch that was reached."""
        seconds = until - time.perf_counter()
        if seconds > LEAST_SLICE_S and self.best.cost > self.scaling.graph.base_cost and not self.cancelled():
            seconds = min(seconds, _POLISH_SHARE * self.options.time_limit_s)
            self._solve(self.best.batch, seconds, CostCapListener(None, self.cancelled))


def largest_batch_that(holds: Callable[[int], bool], most: int) -> int:
    """Return the largest batch up to ``most`` that ``holds``, as every smaller one then does; 0: none."""
    top = 1
    while holds(top):
        if top == most:
            return most
        top = min(2 * top, most)
    return _largest(holds, top // 2, top - 1)


def _largest(holds: Callable[[int], bool], low: int, top: int) -> int:
    """Return the largest number in [low, top] that ``holds``, as ``low`` and all below it do."""
    return low + bisect_left(range(low + 1, top + 1), True, key=lambda number: not holds(number))
