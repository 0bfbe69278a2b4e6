"""Anytime search over step sequences, with any order and recomputation.

It is simulated annealing, first from greedy's schedule; ``sequence.restarts`` says from where and how long.
If no schedule is known that fits, the search starts over the budget, with a growing price on what does not
fit. The result depends on the seed and the number of moves only; the clock only decides when to stop.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, field

import numpy as np

from checkmate.errors import SolverCrashedError
from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.ir.arrays import Steps
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, never
from checkmate.solvers.certify import cancelled_before, concluded
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.anneal import BEST, CEILING, FLOOR, anneal, kick
from checkmate.solvers.sequence.drops import RATE, new_scores
from checkmate.solvers.sequence.edit import load
from checkmate.solvers.sequence.greedy_solver import CAREFUL, QUICK, greedy_steps
from checkmate.solvers.sequence.kernel_arrays import (
    BETTER,
    FULL,
    MOST,
    ScaledModel,
    build_model,
    new_state,
    steps_of,
)
from checkmate.solvers.sequence.restarts import (
    SMALL,
    AnnealingRun,
    CostedSteps,
    EndedRun,
    plan_runs,
    with_cost,
)
from checkmate.solvers.tolerances import LEAST_COST, NEGLIGIBLE, PROVED

_SLICE_S = 0.008  # seconds between two looks at the clock and at the listener
_COLD = 0.005  # the heat in mean op costs at the end of each annealing
_FIRST_RATE = 0.3  # the first price of an excess as large as the peak, in mean op costs; it rises later
_SMALL = 400  # up to this many ops the careful greedy search takes a few milliseconds
_GREEDY_SHARE = 0.1  # the most of the time for each of the quick and the careful greedy search
_TURN_MOVES = 20_000  # moves of annealing between two greedy searches, if moves are counted
_KICK_TRIALS = 1000  # drops tried to fit a kicked schedule into the budget; the annealing does the rest
_CHAIN = 60  # the most ops that are recomputed together in one move


class LocalSearchSolver:
    """Find good schedules without a proof; the only lower bound is the cost of computing every op once."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        scaled = build_model(problem.graph)
        if not load_kernels(listener.cancelled, listener.preparing):
            return cancelled_before(problem, "local-search")
        started = time.perf_counter()  # compiling does not count as the user's time
        until = started + options.time_limit_s
        search = first_search(problem, scaled, options, listener, until=until)
        base = problem.graph.base_cost
        search.run(
            listener,
            until=until,
            goal=base / min(PROVED, max(1.0 - options.gap, LEAST_COST)),
            moves=None if options.moves is None else max(0, options.moves - search.moves),
        )
        return concluded(
            problem,
            "local-search",
            search.best,
            listener,
            nothing="the local search found no schedule within the budget",
            seconds=time.perf_counter() - started,
            lower_bound=base,
            statistics={"moves": search.moves},
        )


def close_enough(cost: float, bound: float, gap: float) -> bool:
    """Whether ``bound`` proves ``cost`` optimal, or to within ``gap``, a share of the cost."""
    return cost * PROVED <= bound or cost - bound <= gap * cost


def first_search(
    problem: Problem,
    scaled: ScaledModel,
    options: SolveOptions,
    listener: Listener,
    *,
    until: float,
    known: Steps | None = None,
    hopeless: Cancelled = never,
) -> SequenceSearch:
    """Return a search that begins with ``known``, greedy's schedule, or the caller's if that is cheaper.

    Where none of them fits, ``hopeless`` is asked whether anything can; if not, nothing is searched for.
    """
    budget, cancelled = problem.budget_bytes, listener.cancelled
    begun = time.perf_counter()
    # If moves are counted, only the time limit itself may cut it short.
    share = _GREEDY_SHARE if options.moves is None else 1.0
    patience = share * max(until - begun, 0.0)
    further = QUICK if problem.graph.n > _SMALL else CAREFUL
    steps = known
    if steps is None:
        end = greedy_steps(scaled, budget, until=begun + patience, cancelled=cancelled, further=further)
        steps = end.steps
    search = SequenceSearch(problem.graph, scaled, budget, steps, seed=options.seed)
    given = options.start
    if given is not None and problem.graph.accepts_fingerprint(given.graph_fingerprint):
        search.offer(np.array(given.steps, np.int32))
    if search.best is not None:
        listener.incumbent(search.best.tolist(), search.cost)
    elif hopeless():
        return search
    half = begun + 0.5 * max(until - begun, 0.0) if options.moves is None else until
    while search.best is None and time.perf_counter() < half and not cancelled():
        if options.moves is not None and search.moves >= options.moves:
            break
        # If nothing fits yet, the two help each other: greedy frees memory, annealing lowers the cost.
        end = greedy_steps(
            scaled,
            budget,
            until=time.perf_counter() + patience,
            cancelled=cancelled,
            start=steps,
            further=further,
        )
        steps = end.steps
        if search.offer(end.steps, follow=True):
            listener.incumbent(end.steps.tolist(), search.cost)
            break
        _anneal_a_turn(search, options, listener, until=until, patience=patience)
    return search


def _anneal_a_turn(
    search: SequenceSearch, options: SolveOptions, listener: Listener, *, until: float, patience: float
) -> None:
    if options.moves is not None:
        # A whole turn, even if it finds the first that fits: slices depend on the clock.
        search.run(listener, until=until, moves=min(_TURN_MOVES, options.moves - search.moves))
        return
    search.run(listener, until=time.perf_counter() + 0.5 * patience, goal=sys.float_info.max)


@dataclass
class SequenceSearch:
    """A search that can be run in slices, from ``start``, which may be over the budget."""

    graph: Graph
    scaled: ScaledModel
    budget_bytes: int
    start: Steps
    seed: int = 0
    best: Steps | None = field(init=False, default=None)
    cost: float = field(init=False, default=math.inf)
    moves: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._budget = self.scaled.budget(self.budget_bytes)
        ops = self.graph.n
        room = 12 * ops + 2 * len(self.start) + 1000
        self._state = new_state(self.scaled.model, steps=room, seed=self.seed)
        self._noted = np.zeros(self._state.occ.shape[1] + 1, np.int64)
        self._mean = max(self.graph.base_cost / ops, LEAST_COST)
        known = with_cost(self.graph, self.start, self.budget_bytes)
        if known is not None and known.cost < math.inf:
            self.cost, self.best = known
        self._plan = plan_runs(CostedSteps(self.cost, self.start), small=ops <= SMALL, seed=self.seed)
        self._found: CostedSteps | None = None  # the best of this run
        self._begin_run(next(self._plan))

    def offer(self, steps: Steps, *, follow: bool = False) -> bool:
        """Take ``steps`` as the best if they are; ``follow``: search on from them in any case."""
        given = with_cost(self.graph, steps, self.budget_bytes)
        if given is None:
            return False
        better = given.cost < self.cost
        if better:
            self.cost, self.best = given
        if better or follow:
            self._end_run(given)
        return better

    def note(self, found: CostedSteps) -> bool:
        """Take another search's schedule, which fits, as the best if it costs less; go on from here."""
        better = found.cost < self.cost
        if better:
            self.cost, self.best = found
        return better

    def run(
        self, listener: Listener, *, until: float, goal: float = -math.inf, moves: int | None = None
    ) -> None:
        """Search until ``until`` (``time.perf_counter``), a cost of ``goal``, or ``moves`` more moves."""
        slice_moves = 256
        stop_at = None if moves is None else self.moves + moves
        while self.cost > goal and not listener.cancelled() and self._budget >= 0:
            left = None if stop_at is None else stop_at - self.moves
            before = time.perf_counter()
            if before > until or left == 0:
                return
            if self._slice(slice_moves if left is None else min(left, slice_moves)):
                listener.incumbent(self._checked(), self.cost)
            seconds = time.perf_counter() - before
            slice_moves = max(16, slice_moves // 2) if seconds > _SLICE_S else min(2**16, slice_moves + 64)

    def _slice(self, moves: int) -> bool:
        if not self._loaded:
            self._load_run()
        run = self._run
        before = int(self._state.num[BETTER])
        made = anneal(
            self.scaled.model,
            self._state,
            self._noted,
            self._done,
            min(moves, run.moves - self._done),
            run.moves,
            self._mean * run.hot,
            self._mean * _COLD,
        )
        self.moves += made
        self._done += made
        improved = False
        if int(self._state.num[BETTER]) > before:
            steps = self._noted[1 : 1 + int(self._noted[0])].astype(np.int32)
            self._found = CostedSteps(float(self._state.real[BEST]), steps)
            improved = self._found.cost < self.cost
            if improved:
                self.cost, self.best = self._found
        if self._done >= run.moves:
            self._end_run()
        elif self._state.num[FULL]:
            self._load(steps_of(self._state))
        return improved

    def _end_run(self, given: CostedSteps | None = None) -> None:
        here = steps_of(self._state) if self._loaded else self._run.start
        self._begin_run(self._plan.send(EndedRun(self._found, here, given)))

    def _begin_run(self, run: AnnealingRun) -> None:
        self._run, self._done, self._found = run, 0, None
        self._loaded = False

    def _load_run(self) -> None:
        # Done with its first move: on 10,000 ops it takes some 80 ms, and a run may end before it begins.
        self._loaded = True
        self._state.real[BEST] = self._run.below
        self._load(self._run.start)
        if not self._state.real[RATE]:
            self._set_rates()
        if self._run.kicked:
            self._kick()

    def _set_rates(self) -> None:
        scale = max(float(self._state.mem[0].max()), 1.0)
        self._state.real[RATE] = _FIRST_RATE * self._mean / scale
        self._state.real[FLOOR] = 0.01 * self._mean / scale
        self._state.real[CEILING] = 1e4 * self._mean / scale

    def _kick(self) -> None:
        model = self.scaled.model
        kick(model, self._state, new_scores(model), _KICK_TRIALS, NEGLIGIBLE * self._mean, QUICK)

    def _load(self, steps: Steps) -> None:
        better = int(self._state.num[BETTER])
        room = self._state.occ.shape[1]
        if len(steps) > 0.8 * room or not load(self.scaled.model, self._state, steps, self._budget):
            plain = np.arange(self.graph.n, dtype=np.int32)
            load(self.scaled.model, self._state, plain if self.best is None else self.best, self._budget)
        self._state.num[BETTER], self._state.num[MOST] = better, _CHAIN

    def _checked(self) -> list[int]:
        assert self.best is not None
        peak = simulate(self.graph, Schedule.of(self.graph, self.best)).peak_bytes
        if peak > self.budget_bytes:
            raise SolverCrashedError(f"the local search counted {peak - self.budget_bytes} bytes too few")
        steps: list[int] = self.best.tolist()
        return steps
