"""Raise the path-cut bound until it meets the cost: which cuts to take, and in which order.

First comes the single cut that forces the most bytes, as an integer program: it takes milliseconds and is
often within a percent. If it shows next to nothing, the relaxations of other single cuts tell which is
better, and the path leads through that one. Then the linear relaxation with many cuts along a heaviest path
shows by its prices at which cuts the budget matters; those few make a small integer program. HiGHS solves
what it can in a moment, CP-SAT the others. Each further round looks at the schedule that the program's
solution describes, and adds the cuts at which it is most over the budget. If a described schedule fits, it is
optimal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.ir.arrays import Steps
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
from checkmate.solvers.certify import concluded
from checkmate.solvers.listeners import CancelListener, ForwardingListener
from checkmate.solvers.pathcut.cut_program import Relaxation, relax_program, steps_from
from checkmate.solvers.pathcut.cuts import CutProgram, Reach, build_program, heaviest_path, own_bytes
from checkmate.solvers.pathcut.sat import Engines
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.tolerances import PROVED

_LARGEST = 40_000  # ops times cuts of the relaxation that chooses the cuts
_FIRST_S, _FIRST_SHARE = 1.0, 0.15  # time for the single cut: seconds, or a share of the remaining time
_SHARE = 0.5  # of the time left, for a program of several cuts
_APART = 3  # the least distance on the path of cuts added in one round
_ADDED = 2  # cuts per round
_ROUNDED = (0.5, 0.2)  # an op runs in a schedule read from the relaxation if its share is above this
# How many second cuts to try; and the time, in seconds or as a share, for relaxations of one or two cuts.
_HEAVY, _SCAN_S, _SCAN_SHARE = 24, 0.5, 0.05
_SLOW = 5000  # ops of a graph whose integer program of one cut may take seconds
_PRICED = 24  # the most cuts that are taken from the relaxation
# A single cut that raises the bound by less than this share of the cost is poor: others may raise it more.
_POOR = 1e-4


class PathCutSolver:
    """Prove lower bounds for any order; optimal if a solution of the program is a schedule that fits."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        started = time.perf_counter()
        heard = _BestDescribed(problem, options, listener)
        prover = Prover(problem.graph, problem.budget_bytes, workers=options.workers)
        prover.run(heard, until=started + options.time_limit_s)
        return concluded(
            problem,
            "path-cut",
            heard.best,
            listener,
            nothing="the prover found a bound but no schedule",
            seconds=time.perf_counter() - started,
            lower_bound=prover.bound,
            statistics={"cuts": prover.cuts, "rounds": prover.rounds},
        )


class ProofListener(Listener):
    """Hears what a prover proves, and the schedules that its programs describe."""

    def described(self, steps: Steps) -> None:
        """Take a schedule; it may not fit the budget, or leave an op out."""

    def enough(self, bound: float) -> bool:
        return False

    def known(self) -> Steps | None:
        """A schedule within the budget, for programs to start from."""
        return None


class CancelledProof(ProofListener, CancelListener):
    """Ignores what is found, until a function cancels or the bound reaches ``target``."""

    def __init__(self, cancelled: Cancelled, target: float = math.inf) -> None:
        super().__init__(cancelled)
        self._target = target

    def enough(self, bound: float) -> bool:
        return bound >= self._target


class _BestDescribed(ProofListener, ForwardingListener):
    """Keeps the best schedule; ends when the bound proves it to the gap."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        super().__init__(listener)
        self._problem, self._gap = problem, options.gap
        self.best: Steps | None = None
        self._cost = math.inf
        start = options.start
        if start is not None and problem.graph.accepts_fingerprint(start.graph_fingerprint):
            self._keep_if_better(np.array(start.steps, np.int32))

    def described(self, steps: Steps) -> None:
        if len(np.unique(steps)) == self._problem.graph.n and self._keep_if_better(steps):
            self.incumbent(steps.tolist(), self._cost)

    def _keep_if_better(self, steps: Steps) -> bool:
        timeline = simulate(self._problem.graph, Schedule.of(self._problem.graph, steps))
        better = timeline.peak_bytes <= self._problem.budget_bytes and timeline.cost < self._cost
        if better:
            self.best, self._cost = steps, timeline.cost
        return better

    def enough(self, bound: float) -> bool:
        return bound >= self._cost * PROVED or self._cost - bound <= self._gap * self._cost


@dataclass(frozen=True)
class _Task:
    listener: ProofListener
    until: float

    def over(self) -> bool:
        return self.listener.cancelled() or time.perf_counter() >= self.until


class _CutsListener(CancelListener):
    def __init__(self, prover: Prover, cuts: Sequence[int], listener: ProofListener) -> None:
        super().__init__(listener.cancelled)
        self._prover, self._cuts, self._listener = prover, cuts, listener

    def bound(self, lower_bound: float, assumptions: tuple[str, ...]) -> None:
        self._prover.raise_bound(lower_bound, self._cuts, self._listener)


@dataclass(frozen=True, eq=False)
class _Attempt:
    """A solved program, and the schedule that its solution describes. ``exact``: it was solved to the end."""

    cuts: tuple[int, ...]
    bound: float
    exact: bool
    steps: Steps | None


@dataclass
class Prover:
    """A lower bound that rises.

    ``bound``: in the graph's cost unit, for any order; infinite once it is proved that no schedule exists.
    ``best_cuts``: the cuts whose program gave it; none where it is the base cost. ``reach``: the graph's, if
    the caller has it already. ``with_sat``: whether CP-SAT may solve programs.
    """

    graph: Graph
    budget_bytes: int
    workers: int = 1
    reach: Reach | None = None
    with_sat: bool = True
    bound: float = field(init=False)
    cuts: int = field(init=False, default=0)
    rounds: int = field(init=False, default=0)
    finished: bool = field(init=False, default=False)
    best_cuts: tuple[int, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.bound = self.graph.base_cost
        self._reach = self.reach or Reach.of(self.graph)
        self._single = int(np.argmax(self._reach.forced))  # the op that forces the most bytes
        self._begin_again()
        self._engines = Engines(self.graph, self.budget_bytes, self.workers, self.with_sat)

    def _begin_again(self) -> None:
        """Forget what was tried, but not what was proved."""
        self._first_round, self._scanned, self._cut_short = True, False, False
        self._path: list[int] = []
        self._first: list[list[int]] = []  # sets of cuts to try before cuts are added to any
        self._base: _Attempt | None = None  # the attempt that cuts are added to
        self._failed: set[int] = set()  # the cuts that made the base too hard

    def run(self, listener: ProofListener, *, until: float, rounds: int | None = None) -> None:
        """Work until ``until`` (``time.perf_counter``), or the listener has enough, or no cut is left.

        ``rounds``: the number of programs solved when it stops (1: the single cut only). A second call goes
        on where the first ended.
        """
        task = _Task(listener, until)
        try:
            self._rounds(task, rounds)
        finally:
            self._engines.stop()

    def _rounds(self, task: _Task, rounds: int | None) -> None:
        while not task.over() and not self.finished and not task.listener.enough(self.bound):
            if rounds is not None and self.rounds >= rounds:
                return
            early = len(self._path) == 0
            cuts = self._next_cuts(task)
            if task.over():
                self._cut_short = True
                return
            if not cuts:
                if not self._cut_short:
                    self.finished = True
                    return
                self._begin_again()  # solve programs again that were cut short
                continue
            attempt = self._solve(cuts, task, share=_FIRST_SHARE if early or self._first else _SHARE)
            if attempt.steps is not None:
                task.listener.described(attempt.steps)
            self.finished = attempt.steps is None and attempt.exact  # infeasible, which is a proof
            self._cut_short |= task.over() and not attempt.exact
            self._judge(attempt)

    def _next_cuts(self, task: _Task) -> list[int]:
        if self._first_round:
            self._first_round = False
            return [self._single]
        if not self._path:
            other = None if self._scanned else self._better_single(task)
            self._scanned = True
            if other is not None:
                self._single = other
                return [other]
            self._path = heaviest_path(self.graph, self._reach, through=self._single)
            self._first = self._first_sets(task)
        if self._first:
            return self._first.pop()
        base = self._base
        if base is None or base.steps is None or base.cuts[0] not in self._path:
            return []
        more = self._most_over(base.steps, self._path, base.cuts)
        return sorted([*base.cuts, *more], key=self._path.index) if more else []

    def _judge(self, attempt: _Attempt) -> None:
        base = self._base
        grown = base is not None and set(attempt.cuts) > set(base.cuts)
        if base is None or attempt.bound > base.bound or (grown and attempt.exact):
            self._base = attempt
        elif grown:
            self._failed |= set(attempt.cuts) - set(base.cuts)

    def _first_sets(self, task: _Task) -> list[list[int]]:
        """Return sets of cuts to try after the single one, the last one first.

        The first set has the cuts whose memory rows have a price in the relaxation with many cuts. Also,
        memory may be short at one place for kept values and at another for running an op; for that case the
        second set has the single cut and the one other with the best relaxation.
        """
        sets = [self._priced(task)]
        if self._single in self._path:
            sets.append(self._with_second(task))
        unlike = [cuts for cuts in sets if cuts and cuts != [self._single]]
        if not unlike and self._single not in self._path:
            return [self._path[-1:]]
        return unlike

    def _better_single(self, task: _Task) -> int | None:
        """Return a better single cut than the first one; None: none is known.

        If ops may run in many orders, few bytes are forced, and the cut that forces most may prove nothing.
        So the relaxations of other single cuts are tried, in the order of forced bytes.
        """
        if self.bound > (1 + _POOR) * self.graph.base_cost or self.graph.n > _SLOW:
            return None
        ops = np.argsort(-self._reach.forced, kind="stable").tolist()
        found = self._best_relaxed(([op] for op in ops), self.bound, task)
        return found[0] if found else None

    def _with_second(self, task: _Task) -> list[int]:
        first = self._single
        heavy = sorted(self._path, key=lambda op: -own_bytes(self.graph, op))[:_HEAVY]
        pairs = (sorted([first, op], key=self._path.index) for op in heavy if op != first)
        return self._best_relaxed(pairs, self.graph.base_cost, task)

    def _best_relaxed(self, sets: Iterable[list[int]], best: float, task: _Task) -> list[int]:
        """Return the set of cuts whose relaxation has the best bound above ``best``; empty: none has."""
        now, found = time.perf_counter(), list[int]()
        end = min(task.until, now + max(_SCAN_S, _SCAN_SHARE * (task.until - now)))
        for cuts in sets:
            left = end - time.perf_counter()
            if left <= 0 or task.listener.cancelled():
                break
            bound = self._relaxed(self._program(cuts), cuts, task, left).bound
            if bound > best:
                best, found = bound, cuts
        return found

    def _program(self, cuts: list[int]) -> CutProgram:
        return build_program(self.graph, self._reach, self.budget_bytes, cuts)

    def _relaxed(self, program: CutProgram, cuts: list[int], task: _Task, seconds: float) -> Relaxation:
        cancelled = task.listener.cancelled
        found = relax_program(self.graph, program, time_limit_s=seconds, cancelled=cancelled)
        self.raise_bound(found.bound, cuts, task.listener)
        return found

    def _solve(self, cuts: list[int], task: _Task, *, share: float) -> _Attempt:
        program = self._program(cuts)
        left = task.until - time.perf_counter()
        if self.rounds == 0 and self.graph.n > _SLOW:
            self._relaxed(program, cuts, task, left)
            left = task.until - time.perf_counter()
        outcome = self._engines.solve(
            program,
            _CutsListener(self, cuts, task.listener),
            seconds=min(left, max(_FIRST_S, share * left)),
            start=task.listener.known(),
        )
        self.raise_bound(outcome.bound, cuts, task.listener)
        self.rounds += 1
        self.cuts = len(cuts)
        described = None if outcome.runs is None else steps_from(self.graph, program, outcome.runs)
        return _Attempt(tuple(cuts), outcome.bound, outcome.exact, described)

    def _priced(self, task: _Task) -> list[int]:
        chosen = _spread(self.graph, self._path, max(8, _LARGEST // self.graph.n))
        program = self._program(chosen)
        outcome = self._relaxed(program, chosen, task, task.until - time.perf_counter())
        if outcome.price is None or outcome.shares is None:
            return []
        for share in _ROUNDED:
            task.listener.described(steps_from(self.graph, program, outcome.shares > share))
        order = [k for k in np.argsort(-outcome.price).tolist() if outcome.price[k] > 1e-7]
        return [chosen[k] for k in sorted(order[:_PRICED])]

    def _most_over(self, steps: Steps, path: list[int], cuts: tuple[int, ...]) -> list[int]:
        live = simulate(self.graph, Schedule.of(self.graph, steps)).live_bytes
        first = np.full(self.graph.n, -1)
        ops, where = np.unique(steps, return_index=True)
        first[ops] = where
        weight = live[first[path]]
        more: list[int] = []
        for place in np.argsort(-weight, kind="stable").tolist():
            if (
                path[place] in cuts
                or path[place] in self._failed
                or any(abs(place - path.index(op)) <= _APART for op in more)
            ):
                continue
            if weight[place] <= self.budget_bytes and more:
                break
            more.append(path[place])
            if len(more) == (1 if self._failed else _ADDED):
                break
        return more

    def raise_bound(self, bound: float, cuts: Sequence[int], listener: ProofListener) -> None:
        if bound > self.bound:
            self.bound, self.best_cuts = bound, tuple(cuts)
            if not math.isinf(bound):
                listener.bound(bound, ())


def _spread(graph: Graph, path: list[int], count: int) -> list[int]:
    if len(path) <= count:
        return path
    even = {path[round(i * (len(path) - 1) / (count // 2 - 1))] for i in range(count // 2)}
    heavy = sorted((op for op in path if op not in even), key=lambda op: -own_bytes(graph, op))[
        : count - len(even)
    ]
    chosen = even.union(heavy)
    return [op for op in path if op in chosen]
