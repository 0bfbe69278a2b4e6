"""Raise the path-cut bound until it meets the cost: which cuts to take, in which order.

First the single cut that forces the most bytes, as an integer program: milliseconds, and often within a percent. Then the
linear relaxation with many cuts along a heaviest path tells by its prices at which cuts the budget matters; those few make a
small integer program. Each further round looks at the schedule that the program's solution describes and adds the cuts at
which it is most over the budget. Where a described schedule fits, it is optimal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled
from checkmate.simulate import simulate
from checkmate.solvers.pathcut import Reach, build_program, heaviest_path, tightest_cut
from checkmate.solvers.pathcut_solve import CutOutcome, solve_program, steps_from
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.verdict import PROVED, with_schedule, without_schedule

_LARGEST = 40_000  # ops x cuts of the relaxation that chooses the cuts
_FIRST_S, _FIRST_SHARE = 1.0, 0.15  # the single cut gets so many seconds, or this share of those left
_APART = 3  # places on the path between cuts added in one round
_ADDED = 2  # cuts per round
_ROUNDED = (0.5, 0.2)  # shares of the relaxation above which an op runs in the schedules read out of it
_PRICED = 24  # cuts taken from the relaxation at most

Steps = NDArray[np.int32]


class PathCutSolver:
    """Proves lower bounds for any order, and optimality where a solution of the program is a schedule that fits."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The bound, and the best schedule that came with it (there may be none: this is a prover)."""
        started = time.perf_counter()
        best: list[Steps] = []
        cost = [math.inf if options.start is None else self._start(problem, options, best)]

        def described(steps: Steps) -> None:
            if len(np.unique(steps)) < problem.graph.n:
                return  # rounded shares may leave an op out; that is no schedule
            timeline = simulate(problem.graph, Schedule.of(problem.graph, steps))
            if timeline.peak_bytes <= problem.budget_bytes and timeline.cost < cost[0]:
                cost[0] = timeline.cost
                best[:] = [steps]
                listener.incumbent(steps.tolist(), timeline.cost)

        prover = Prover(problem.graph, problem.budget_bytes, workers=options.workers)
        prover.run(
            until=started + options.time_limit_s,
            cancelled=listener.cancelled,
            on_bound=lambda bound: listener.bound(bound, ()),
            on_steps=described,
            enough=lambda bound: bound >= cost[0] * PROVED or cost[0] - bound <= options.gap * cost[0],
        )
        seconds = time.perf_counter() - started
        statistics = {"cuts": prover.cuts, "rounds": prover.rounds}
        if best:
            return with_schedule(
                problem, "path-cut", best[0], lower_bound=prover.bound, seconds=seconds, statistics=statistics
            )
        if math.isinf(prover.bound):
            status, message = SolveStatus.INFEASIBLE, "no schedule fits the budget, in any order of execution"
        elif listener.cancelled():
            status, message = SolveStatus.CANCELLED, "cancelled"
        else:
            status, message = SolveStatus.LIMIT, "the prover found a bound but no schedule"
        bound = None if math.isinf(prover.bound) else prover.bound
        return without_schedule(
            problem, "path-cut", status, message, seconds=seconds, lower_bound=bound, statistics=statistics
        )

    @staticmethod
    def _start(problem: Problem, options: SolveOptions, best: list[Steps]) -> float:
        start = options.start
        if start is None or not problem.graph.accepts_fingerprint(start.graph_fingerprint):
            return math.inf
        timeline = simulate(problem.graph, start)
        if timeline.peak_bytes > problem.budget_bytes:
            return math.inf
        best.append(np.array(start.steps, np.int32))
        return timeline.cost


@dataclass
class Prover:
    """A bound that rises. ``bound``: in the graph's cost unit, any order; infinite once no schedule is proved to exist."""

    graph: Graph
    budget_bytes: int
    workers: int = 1
    bound: float = field(init=False)
    cuts: int = field(init=False, default=0)
    rounds: int = field(init=False, default=0)
    finished: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.bound = self.graph.base_cost
        self._reach = Reach.of(self.graph)
        self._cuts = [tightest_cut(self._reach)]
        self._path: list[int] = []
        self._last: Steps | None = None  # what the last solved program described

    def run(
        self,
        *,
        until: float,
        cancelled: Cancelled,
        on_bound: Callable[[float], None],
        on_steps: Callable[[Steps], None],
        enough: Callable[[float], bool],
        rounds: int | None = None,
    ) -> None:
        """Work until ``until`` (``time.perf_counter``), until the bound is ``enough`` or nothing more can be added.

        ``on_steps`` hears the schedules that solved programs describe; they may not fit the budget. ``rounds``: programs solved
        when it stops (1: the single cut only). Called again, it goes on where it was.
        """
        while not cancelled() and time.perf_counter() < until and (rounds is None or self.rounds < rounds):
            if self.finished or enough(self.bound):
                return
            if self._last is not None and not self._add_cuts(self._last, until, cancelled, on_bound, on_steps):
                self.finished = True
                return
            outcome, self._last = self._solve(until, cancelled, on_bound)
            if self._last is not None:
                on_steps(self._last)
            self.finished = self._last is None and outcome.exact
            if self._last is None:
                return  # infeasible, or out of time

    def _add_cuts(
        self,
        steps: Steps,
        until: float,
        cancelled: Cancelled,
        on_bound: Callable[[float], None],
        on_steps: Callable[[Steps], None],
    ) -> bool:
        """Choose the cuts of the next round; False where there are no more."""
        if not self._path:
            path = heaviest_path(self.graph, self._reach)
            priced = self._priced(path, until, cancelled, on_bound, on_steps)
            self._path = path
            if priced and set(priced) != set(self._cuts):
                self._cuts = priced
                return True
            if self._cuts[0] not in path:
                self._cuts = priced or path[-1:]
        more = self._most_over(steps, self._path, self._cuts)
        self._cuts = sorted([*self._cuts, *more], key=self._path.index)
        return bool(more)

    def _solve(
        self, until: float, cancelled: Cancelled, on_bound: Callable[[float], None]
    ) -> tuple[CutOutcome, Steps | None]:
        program = build_program(self.graph, self._reach, self.budget_bytes, self._cuts)
        left = until - time.perf_counter()
        outcome = solve_program(
            self.graph,
            program,
            # Where even the single cut is hard (thousands of ops), other cuts raise the bound sooner.
            time_limit_s=min(left, max(_FIRST_S, _FIRST_SHARE * left)) if len(self._cuts) == 1 else left,
            gap=0.0,
            workers=self.workers,
            cancelled=cancelled,
            on_bound=lambda bound: self._raise(bound, on_bound),
        )
        self._raise(outcome.bound, on_bound)
        self.rounds += 1
        self.cuts = len(self._cuts)
        return outcome, None if outcome.runs is None else steps_from(self.graph, program, outcome.runs)

    def _priced(
        self,
        path: list[int],
        until: float,
        cancelled: Cancelled,
        on_bound: Callable[[float], None],
        on_steps: Callable[[Steps], None],
    ) -> list[int]:
        """The cuts of the path at which the relaxation pays for memory."""
        chosen = _spread(self.graph, path, max(8, _LARGEST // self.graph.n))
        program = build_program(self.graph, self._reach, self.budget_bytes, chosen)
        limit = until - time.perf_counter()
        outcome = solve_program(
            self.graph, program, time_limit_s=limit, gap=0.0, workers=1, cancelled=cancelled, relaxed=True
        )
        self._raise(outcome.bound, on_bound)
        if outcome.price is None or outcome.shares is None:
            return []
        for share in _ROUNDED:
            on_steps(steps_from(self.graph, program, outcome.shares > share))
        order = [k for k in np.argsort(-outcome.price).tolist() if outcome.price[k] > 1e-7]
        return [chosen[k] for k in sorted(order[:_PRICED])]

    def _most_over(self, steps: Steps, path: list[int], cuts: list[int]) -> list[int]:
        """The ops of the path whose first execution in ``steps`` is most over the budget."""
        live = simulate(self.graph, Schedule.of(self.graph, steps)).live_bytes
        first = np.full(self.graph.n, -1)
        ops, where = np.unique(steps, return_index=True)
        first[ops] = where
        weight = live[first[path]]
        more: list[int] = []
        for place in np.argsort(-weight, kind="stable").tolist():
            if path[place] in cuts or any(abs(place - path.index(op)) <= _APART for op in more):
                continue
            if weight[place] <= self.budget_bytes and more:
                break
            more.append(path[place])
            if len(more) == _ADDED:
                break
        return more

    def _raise(self, bound: float, on_bound: Callable[[float], None]) -> None:
        if bound > self.bound:
            self.bound = bound
            if not math.isinf(bound):
                on_bound(bound)


def _spread(graph: Graph, path: list[int], count: int) -> list[int]:
    """At most ``count`` ops of the path: every other one evenly, the rest those that use the most bytes themselves."""
    if len(path) <= count:
        return path
    even = {path[round(i * (len(path) - 1) / (count // 2 - 1))] for i in range(count // 2)}
    size = graph.value_bytes
    own = {
        op: int(size[graph.op_inputs[op]].sum() + size[graph.op_outputs[op]].sum() + graph.workspace_bytes[op])
        for op in path
    }
    heavy = sorted((op for op in path if op not in even), key=lambda op: -own[op])[: count - len(even)]
    chosen = even.union(heavy)
    return [op for op in path if op in chosen]
