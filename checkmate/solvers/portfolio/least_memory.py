"""The least memory in which a step can run at a limited extra cost.

This is a bisection over budgets, on the grid that sums of sizes can reach. Later probes start from the
schedules of earlier ones. Bounds are proofs for any order of execution.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from checkmate.errors import ScheduleError, UsageError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.ir.arrays import Steps
from checkmate.ir.shown import Shown
from checkmate.solvers.bounds import run_once_bound
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.known_frontier import Frontier, FrontierPoint
from checkmate.solvers.last_runs import LastRunProver
from checkmate.solvers.listeners import CostCapListener
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.solvers.tolerances import ROUNDING

SOLVER = "auto"
LEAST_SLICE_S = 0.05  # no probe has less time
_FIRST_SHARE = 0.03  # of the time limit, for each of the first probes
# The share of the open range that probes keep away from an undecided one; halved in every round.
_FIRST_PRECISION = 0.06


def probe(
    problem: Problem, options: SolveOptions, seconds: float, start: Steps | None, listener: CostCapListener
) -> tuple[SolveResult, float]:
    """Solve for ``seconds``; return the result and a bound on the cost, infinite if nothing fits."""
    options = replace(
        options,
        time_limit_s=max(LEAST_SLICE_S, seconds),
        gap=0.0,
        start=None if start is None else Schedule.of(problem.graph, start),
    )
    result = find_solver(SOLVER).load().solve(problem, options, listener)
    bound = listener.lower_bound
    if not result.assumptions:
        bound = math.inf if result.status is SolveStatus.INFEASIBLE else max(bound, result.lower_bound or 0.0)
    return result, bound


def narrow(
    limits: Callable[[], tuple[int, int]],
    ask: Callable[[int, float], bool],
    *,
    limit_s: float,
    until: float,
    over: Callable[[], bool],
) -> None:
    """Ask for levels until ``limits`` meet, ``over``, or ``until`` (``time.perf_counter``).

    ``limits`` returns (low, top) as of now: no level below ``low`` has what is looked for, ``top`` does.
    ``ask`` takes a level in between and seconds. It moves the limits if it finds the answer, and returns
    whether it did.
    """
    low, top = limits()
    nearest = max(1, int((top - low) * _FIRST_PRECISION))
    share = limit_s * _FIRST_SHARE
    doubtful: list[int] = []
    while not over() and time.perf_counter() < until:
        low, top = limits()
        doubtful = [level for level in doubtful if low <= level < top]
        level = between(low, top, doubtful, nearest)
        if level is None:
            doubtful, share, nearest = [], 2 * share, max(1, nearest // 2)
            continue
        if not ask(level, min(max(share, LEAST_SLICE_S), until - time.perf_counter())):
            doubtful = sorted([*doubtful, level])


def between(low: int, top: int, doubtful: Sequence[int], nearest: int) -> int | None:
    """Return the next level to ask for in [low, top); None if all left are ``nearest`` to a doubtful one.

    Levels above the doubtful ones come first, where a schedule is most likely; then those below, where a
    proof is.
    """
    floor = doubtful[-1] + 1 if doubtful else low
    if top - floor >= (nearest if doubtful else 1):
        return (floor + top - 1) // 2
    if doubtful and doubtful[0] - low >= nearest:
        return (low + doubtful[0] - 1) // 2
    return None


_PRECISION = 0.004  # of the range of budgets: how near greedy's probes come to each other
_DESCEND_SHARE = 0.25  # of the time limit, the most for the first range by greedy
_LAST_RUNS_SHARE = 0.15  # of the time limit, the most for the bound by last runs
_NEAR = 0.001  # of the peak: a bound that is this near to the best by last runs is good enough
_POLISH_SHARE = 0.15  # of the time limit, for making the schedule cheaper at the memory that was reached


@dataclass(frozen=True, eq=False)
class LeastMemory(Shown):
    """The least peak that was reached within a cost, and what is proved.

    There always is one, since the plain step has one.

    ``result``: the schedule, as a solve whose budget is its own peak. Its ``lower_bound`` is on the cost
    within that peak. Its ``assumptions`` hold for both bounds.
    ``max_overhead``: the extra cost allowed, as a fraction of computing every op once; None: any.
    ``lower_bound_bytes``: no schedule within that cost has a smaller peak (fixed bytes included).

    Raises:
        ValueError: the schedule costs more than allowed, or its peak is below the bound.
    """

    result: SolveResult
    max_overhead: float | None
    lower_bound_bytes: int
    seconds: float
    cancelled: bool = False
    probes: int = 0

    def __post_init__(self) -> None:
        if self.result.cost is None or self.result.peak_bytes is None:
            raise ValueError("the least memory needs a schedule")
        if (
            self.result.cost > self.cost_cap * (1 + 2 * ROUNDING)
            or self.result.peak_bytes < self.lower_bound_bytes
        ):
            raise ValueError(
                f"cost {self.result.cost} of at most {self.cost_cap}, "
                f"peak {self.result.peak_bytes} of at least {self.lower_bound_bytes}: both must hold"
            )

    @property
    def peak_bytes(self) -> int:
        """The least peak reached, fixed bytes included."""
        assert self.result.peak_bytes is not None
        return self.result.peak_bytes

    @property
    def schedule(self) -> Schedule:
        return self.result.require_schedule()

    @property
    def cost_cap(self) -> float:
        """The most that a schedule may cost, in the graph's unit; infinite if any cost is allowed."""
        return _cap(self.result.base_cost, self.max_overhead)

    @property
    def proved(self) -> bool:
        """Whether no schedule within the cost has a smaller peak, under the assumptions."""
        return self.peak_bytes <= self.lower_bound_bytes

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of both bounds; without any, they hold for any order and any recomputation."""
        return self.result.assumptions

    @property
    def gap(self) -> float:
        """(peak - bound) / peak: how much smaller a schedule might still be."""
        return (self.peak_bytes - self.lower_bound_bytes) / max(1, self.peak_bytes)


def least_memory(
    graph: Graph,
    max_overhead: float | None,
    options: SolveOptions,
    listener: Listener,
    known: Frontier | None = None,
) -> LeastMemory:
    """Return the least memory at a cost of at most ``1 + max_overhead`` times the least; None: at any cost.

    ``options.time_limit_s`` is for all probes together; ``options.gap`` is on the memory: stop once (peak -
    bound) / peak is at most this. ``known``: schedules and bounds of the same graph to start from; it is not
    changed.

    Raises:
        UsageError: ``max_overhead`` is negative or not a number, so no schedule could be that cheap.
    """
    require_overhead(max_overhead)
    return _LeastMemorySearch(graph, max_overhead, options, listener, known).result()


def require_overhead(max_overhead: float | None) -> None:
    """Raise UsageError if an extra cost is negative or not a number."""
    if max_overhead is None or max_overhead >= 0:
        return
    raise UsageError(
        f"an extra cost of at most {100 * max_overhead:g} % is impossible: no schedule costs less than "
        "computing everything once",
        hint="give 0 % or more",
        details={"max_overhead": max_overhead},
    )


def _cap(base_cost: float, max_overhead: float | None) -> float:
    return math.inf if max_overhead is None else base_cost * (1 + max_overhead)


@dataclass
class _LeastMemorySearch:
    """Levels are the possible peaks: ``fixed_bytes`` plus a multiple of the sizes' common divisor."""

    graph: Graph
    max_overhead: float | None
    options: SolveOptions
    listener: Listener
    known: Frontier | None = None
    best: FrontierPoint = field(init=False)
    probes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        graph = self.graph
        self._started = time.perf_counter()
        self._unit = max(
            1, int(np.gcd.reduce([0, *graph.value_bytes.tolist(), *graph.workspace_bytes.tolist()]))
        )
        # The same costs summed in another order differ in their last digits.
        self._cap = _cap(graph.base_cost, self.max_overhead) * (1 + ROUNDING)
        self._frontier = Frontier(graph) if self.known is None else self.known.copy()
        self._lowest = -1
        self._frontier.add(range(graph.n), solver=SOLVER)
        self.best = next(point for point in self._frontier if point.cost <= self._cap)
        self._report_best()
        given = self.options.start
        if given is not None and graph.accepts_fingerprint(given.graph_fingerprint):
            with suppress(ScheduleError):
                self.add(given.steps.tolist())
        self._raise_bound(self._level(run_once_bound(graph).bytes + self._unit - 1))
        for budget, bound in self._frontier.bounds:
            if bound > self._cap or math.isinf(bound):
                self._raise_bound(self._level(budget) + 1)

    def result(self) -> LeastMemory:
        if not self._over():
            load_kernels(self.listener.cancelled, self.listener.preparing)
        limit = self.options.time_limit_s
        begun = time.perf_counter()
        self._until = begun + (1 - _POLISH_SHARE) * limit
        self._descend(begun + _DESCEND_SHARE * limit)
        self._prove_by_last_runs(time.perf_counter() + _LAST_RUNS_SHARE * limit)
        self._bisect()
        self._polish(min(begun + limit, time.perf_counter() + _POLISH_SHARE * limit))
        seconds = time.perf_counter() - self._started
        result = with_schedule(
            Problem(self.graph, self.best.peak_bytes),
            SOLVER,
            self.best.schedule.steps,
            lower_bound=self._frontier.bound(self.best.peak_bytes),
            seconds=seconds,
        )
        bytes_ = min(self._bytes(self._lowest), self.best.peak_bytes)
        return LeastMemory(result, self.max_overhead, bytes_, seconds, self.listener.cancelled(), self.probes)

    def add(self, steps: Sequence[int]) -> None:
        found = self._frontier.add(steps, solver=SOLVER)
        smallest = (self.best.peak_bytes, self.best.cost)
        if found is not None and found.cost <= self._cap and (found.peak_bytes, found.cost) < smallest:
            self.best = found
            self._report_best()

    def _report_best(self) -> None:
        best = self.best
        self.listener.smaller(best.schedule.steps.tolist(), best.peak_bytes, best.cost)

    def _level(self, bytes_: int) -> int:
        return (bytes_ - self.graph.fixed_bytes) // self._unit

    def _bytes(self, level: int) -> int:
        return self.graph.fixed_bytes + level * self._unit

    def _raise_bound(self, level: int) -> None:
        if level > self._lowest:
            self._lowest = level
            self.listener.bound_bytes(self._bytes(level), ())

    def _over(self) -> bool:
        room = self.best.peak_bytes - self._bytes(self._lowest)
        return room <= self.options.gap * self.best.peak_bytes or self.listener.cancelled()

    def _descend(self, until: float) -> None:
        low, high = self._lowest, self._level(self.best.peak_bytes)
        nearest = max(1, int((high - low) * _PRECISION))
        # If any cost is allowed, a schedule often reaches the bound itself; otherwise seldom.
        middle = low if math.isinf(self._cap) else (low + high) // 2
        while high > low and not self._over() and time.perf_counter() < until:
            if self._greedy(self._bytes(middle), until):
                high = min(middle, self._level(self.best.peak_bytes))
            else:
                low = middle + 1
            if high - low <= nearest:
                return
            middle = (low + high) // 2

    def _greedy(self, budget_bytes: int, until: float) -> bool:
        options = replace(self.options, time_limit_s=max(0.0, until - time.perf_counter()), start=None)
        problem = Problem(self.graph, budget_bytes)
        result = find_solver("greedy").load().solve(problem, options, _ProbeListener(self, None))
        return result.cost is not None and result.cost <= self._cap

    def _prove_by_last_runs(self, until: float) -> None:
        """Raise the bound as far as last runs prove it, for any cost."""
        prover, top = LastRunProver(self.graph), self._level(self.best.peak_bytes)
        nearest = max(1, int(_NEAR * self.best.peak_bytes) // self._unit)
        while top - self._lowest > nearest and not self._over() and time.perf_counter() < until:
            middle = (self._lowest + top) // 2
            found = prover.proof(self._bytes(middle), lambda: self._over() or time.perf_counter() > until)
            if found is None:
                top = middle
            else:
                self._raise_bound(self._level(found.bytes + self._unit - 1))

    def _bisect(self) -> None:
        narrow(
            lambda: (self._lowest, self._level(self.best.peak_bytes)),
            self._probe,
            limit_s=self.options.time_limit_s,
            until=self._until,
            over=self._over,
        )

    def _probe(self, level: int, seconds: float) -> bool:
        bound = self._solve(self._bytes(level), seconds, _ProbeListener(self, self._cap))
        if self._level(self.best.peak_bytes) <= level:
            return True
        if bound > self._cap or math.isinf(bound):  # if any cost is allowed, only the second can hold
            self._raise_bound(level + 1)
            return True
        return False

    def _solve(self, budget_bytes: int, seconds: float, listener: CostCapListener) -> float:
        self.probes += 1
        start = self._frontier.best(budget_bytes)
        steps = None if start is None else np.asarray(start.schedule.steps, np.int32)
        problem = Problem(self.graph, budget_bytes)
        result, bound = probe(problem, self.options, seconds, steps, listener)
        if result.schedule is not None:
            self.add(result.schedule.steps.tolist())
        if math.isfinite(bound):
            self._frontier.add_bound(budget_bytes, bound)
        return bound

    def _polish(self, until: float) -> None:
        seconds = until - time.perf_counter()
        if (
            seconds > LEAST_SLICE_S
            and self.best.cost > self.graph.base_cost
            and not self.listener.cancelled()
        ):
            self._solve(self.best.peak_bytes, seconds, _ProbeListener(self, None))


class _ProbeListener(CostCapListener):
    def __init__(self, search: _LeastMemorySearch, cap: float | None) -> None:
        super().__init__(cap, search.listener.cancelled)
        self._search = search

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._search.add(steps)
        super().incumbent(steps, cost)
