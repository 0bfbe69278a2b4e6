"""The tight program as a solver.

It is optimal in the given order on networks of some hundred ops, and gives a strong bound on larger ones.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.progress import Cancelled
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.certify import GivenOrderRun
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.highs import silent_highs, start_highs
from checkmate.solvers.milp.paper_model import assumptions_of
from checkmate.solvers.milp.tight_model import TightModel, model_size, tight_model
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import retained_into_stages, steps_from_stages
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import first_search
from checkmate.solvers.tolerances import HIGHS_GAP, HIGHS_INFINITY, HIGHS_RISE, round_up_if_whole

_POLL_S = 0.01
_GRACE_S = 0.01  # after it was told to stop; then it is left to end on its own
_LEAVE_S = 0.1  # beyond the time limit, before it is told to stop
_LP_TOLERANCE = 1e-7  # the relaxation's value may be too high by this
# Beyond the known cost, so that rounding fixes nothing that an equally good solution needs.
_FIX_MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class TightOutcome:
    """How HiGHS ended.

    ``infeasible``: proved, within the solver's tolerances.
    ``bound``: in the model's unit, like the objective.
    ``solution``: the best columns found, None without any.
    ``engine_status``: HiGHS's own word for how it ended.
    """

    infeasible: bool
    bound: float
    solution: NDArray[np.float64] | None
    engine_status: str


@dataclass(frozen=True, eq=False)
class TightLimits:
    """When to stop, and how many ``workers`` to use.

    It stops at ``until`` (``time.perf_counter``), at the relative ``gap``, or when ``cancelled`` says so.
    """

    until: float
    gap: float
    workers: int
    cancelled: Cancelled


def solve_tight(
    model: TightModel,
    limits: TightLimits,
    *,
    start: NDArray[np.float64] | None,
    on_solution: Callable[[NDArray[np.float64]], None],
    on_bound: Callable[[float], None],
) -> TightOutcome:
    """Minimize: first the relaxation, then the program it leaves open.

    ``start``: the binary columns of a known solution. HiGHS solves the relaxation alone in a fraction of the
    time that it takes inside the integer program. With a start, most columns are then fixed, because moving
    them would cost more than the start does. HiGHS's thread calls the hooks.
    """
    import highspy

    lower, upper = np.zeros(model.columns), model.upper.copy()
    relaxation = _Program(highspy, model, lower, upper, relaxed=True)
    if not relaxation.run(limits):
        return TightOutcome(False, -math.inf, None, "left behind")
    if not relaxation.solved:
        return TightOutcome(relaxation.infeasible, -math.inf, None, relaxation.engine_status)
    bound = relaxation.objective - _LP_TOLERANCE * max(1.0, abs(relaxation.objective))
    on_bound(bound)
    known = math.inf
    if start is not None:
        known = float(model.cost[: model.whole] @ start) + model.offset
        _fix(model, relaxation, known, lower, upper)
    callbacks = _Callbacks(on_solution, lambda found: on_bound(min(found, known)))
    program = _Program(highspy, model, lower, upper, relaxed=False)
    if not program.run(limits, start, callbacks):
        return TightOutcome(False, max(bound, min(callbacks.bound, known)), None, "left behind")
    # but for the fixed columns: nothing is cheaper than the start
    if program.infeasible and start is not None:
        return TightOutcome(False, known, None, program.engine_status)
    found = math.inf if program.infeasible else max(callbacks.bound, program.bound)
    return TightOutcome(
        program.infeasible, max(bound, min(found, known)), program.solution, program.engine_status
    )


def _fix(
    model: TightModel,
    relaxation: _Program,
    known: float,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Fix binary columns that would cost too much to move.

    A column stays at the bound that it has in the relaxation if leaving it would cost more than what is
    known.
    """
    price = relaxation.reduced_costs[: model.whole]
    too_costly = np.abs(price) > known - relaxation.objective + _FIX_MARGIN * max(1.0, known)
    upper[: model.whole][too_costly & (price > 0)] = 0.0
    lower[: model.whole][too_costly & (price < 0)] = 1.0


class _Callbacks:
    """What HiGHS reported while it ran; nothing more once ``closed``."""

    def __init__(
        self, on_solution: Callable[[NDArray[np.float64]], None], on_bound: Callable[[float], None]
    ) -> None:
        self._on_solution, self._on_bound = on_solution, on_bound
        self.bound = -math.inf
        self.closed = False

    def on_interrupt(self, event: Any) -> None:
        """Take a better bound. HiGHS has no event for that, but it often asks whether to stop."""
        bound = float(event.data_out.mip_dual_bound)
        if not self.closed and abs(bound) < HIGHS_INFINITY and bound > self.bound + HIGHS_RISE:
            self.bound = bound
            self._on_bound(bound)

    def on_solution_event(self, event: Any) -> None:
        """Take a better solution."""
        if not self.closed:
            self._on_solution(np.array(event.data_out.mip_solution, np.float64))


class _Program:
    """The model in HiGHS, between ``lower`` and ``upper``.

    The properties are valid once ``run`` has returned True.
    """

    def __init__(
        self,
        highspy: Any,
        model: TightModel,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        *,
        relaxed: bool,
    ) -> None:
        self._highspy, self._model = highspy, model
        self._highs = silent_highs()
        self._highs.passModel(_as_lp(highspy, model, lower, upper, relaxed=relaxed))

    def run(
        self,
        limits: TightLimits,
        start: NDArray[np.float64] | None = None,
        callbacks: _Callbacks | None = None,
    ) -> bool:
        """Solve; return False if it did not end soon after it was told to stop.

        In that case it ends later, in its own thread.
        """
        highs = self._highs
        seconds = max(0.0, limits.until - time.perf_counter())
        options = {"threads": max(1, limits.workers), "mip_rel_gap": limits.gap, "mip_abs_gap": HIGHS_GAP}
        for name, value in (*options.items(), ("time_limit", seconds), ("mip_detect_symmetry", False)):
            highs.setOptionValue(name, value)
        if start is not None:
            # A start comes from a better search than HiGHS's own. That one would take most of the time.
            highs.setOptionValue("mip_heuristic_effort", 0.0)
            highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        highs.HandleUserInterrupt = True
        if callbacks is not None:
            highs.cbMipInterrupt += callbacks.on_interrupt
            highs.cbMipImprovingSolution += callbacks.on_solution_event
        # a run that is left behind takes about a second
        over = start_highs(highs, "tight-milp", daemon=False)
        ended = _ended(highs, over, limits)
        if not ended and callbacks is not None:
            callbacks.closed = True
        return ended

    @property
    def engine_status(self) -> str:
        """Return HiGHS's own word for how it ended."""
        return str(self._highs.modelStatusToString(self._highs.getModelStatus()))

    @property
    def solved(self) -> bool:
        return bool(self._highs.getModelStatus() == self._highspy.HighsModelStatus.kOptimal)

    @property
    def infeasible(self) -> bool:
        """Return whether the program is proved to be infeasible.

        The objective is at least 0, so the program cannot be unbounded.
        """
        kinds = self._highspy.HighsModelStatus
        return self._highs.getModelStatus() in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible)

    @property
    def objective(self) -> float:
        return float(self._highs.getInfo().objective_function_value)

    @property
    def bound(self) -> float:
        """Return the lower bound that the search proved."""
        bound = float(self._highs.getInfo().mip_dual_bound)
        return bound if abs(bound) < HIGHS_INFINITY else -math.inf

    @property
    def solution(self) -> NDArray[np.float64] | None:
        """Return the best columns found."""
        feasible = self._highspy.SolutionStatus.kSolutionStatusFeasible
        if self._highs.getInfo().primal_solution_status != feasible:
            return None
        return np.asarray(self._highs.getSolution().col_value, np.float64)

    @property
    def reduced_costs(self) -> NDArray[np.float64]:
        """Return what moving a column off its bound costs per unit.

        This is for a relaxation that was solved.
        """
        return np.asarray(self._highs.getSolution().col_dual, np.float64)


def _ended(highs: Any, over: threading.Event, limits: TightLimits) -> bool:
    """Wait for HiGHS; return whether it ended.

    HiGHS keeps its time limit itself if it looks at the clock often enough.
    """
    told_at: float | None = None
    while not over.wait(_POLL_S):
        now = time.perf_counter()
        if told_at is None and (limits.cancelled() or now > limits.until + _LEAVE_S):
            told_at = now
            highs.cancelSolve()
        if told_at is not None and now - told_at > _GRACE_S:
            return False
    return True


def _as_lp(
    highspy: Any, model: TightModel, lower: NDArray[np.float64], upper: NDArray[np.float64], *, relaxed: bool
) -> Any:
    """Return the model as HiGHS's linear program."""
    lp, rows = highspy.HighsLp(), model.rows
    lp.num_col_, lp.num_row_ = model.columns, len(rows.low)
    lp.col_cost_, lp.offset_ = model.cost, model.offset
    lp.col_lower_, lp.col_upper_ = lower, upper
    lp.row_lower_, lp.row_upper_ = rows.low, rows.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.starts, rows.columns, rows.values
    if not relaxed:
        whole, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [whole] * model.whole + [continuous] * (model.columns - model.whole)
    return lp


# With more, not even the first relaxation is solved in time (measured, one core at 2.5 GHz).
ENTRIES_PER_SECOND = 100_000
MOST_ENTRIES = 12_000_000  # some gigabytes
_SEARCH_S, _SEARCH_SHARE = 1.0, 0.1  # local search for a start: seconds, share of the limit
_SEARCH_MOVES = 60  # moves per pair of ops; the least of the three ends the search
_TRIES = 3  # the most solves if the solver's tolerances let a schedule over the budget


class TightMilpSolver:
    """Find the optimum in the given order, if it ends within the limit.

    The model is in ``checkmate.solvers.milp.tight_model``.
    """

    name = "tight-milp"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return OPTIMAL, or FEASIBLE with a bound, or LIMIT without a schedule.

        Both claims hold under the model's assumptions. A budget that has no schedule under the assumptions is
        LIMIT too, because another order may have one. INFEASIBLE is only said of a budget below some op's own
        need.
        """
        return below_working_set(problem, self.name) or _TightMilpRun(problem, options, listener).result()


class _TightMilpRun(GivenOrderRun):
    """One solve."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        assumptions = assumptions_of(problem.graph, recompute_gradients=options.recompute_gradients)
        super().__init__(TightMilpSolver.name, problem, options, listener, assumptions)
        self._given_order = _GivenOrder(self)
        self._peak = 0  # the peak of the schedule decoded last
        self._size = 0

    def result(self) -> SolveResult:
        """Find a start, build the model, solve it and decode the solution.

        If tolerances let a schedule over the budget, this is repeated with a little less of the budget.
        """
        refusal = self._too_large()
        if refusal:
            return self.without_schedule(SolveStatus.LIMIT, refusal, self._statistics("not started"))
        self._take_start()
        budget, outcome = self.problem.budget_bytes, None
        for attempt in range(_TRIES):
            if self.is_proved() or self.should_stop():
                break
            outcome = self._attempt(budget, true_budget=attempt == 0)
            if outcome is None or outcome.solution is None:
                break
            over = self._peak - self.problem.budget_bytes
            if over <= 0:
                break
            budget -= over
        statistics = self._statistics("not started" if outcome is None else outcome.engine_status)
        if self.best is None:
            infeasible = outcome is not None and outcome.infeasible
            sentence = "the time limit was reached without a schedule"
            return self.nothing_found(sentence, statistics, infeasible=infeasible)
        # Every schedule computes each op once, in any order.
        assumptions = () if self.bound <= self.graph.base_cost else self.assumptions
        return self.with_schedule(self.best, self.bound, statistics, assumptions=assumptions)

    def _too_large(self) -> str:
        """Return why the model is too large, or an empty string."""
        size = model_size(self.graph, recompute_gradients=self.options.recompute_gradients)
        self._size = size
        seconds = size / ENTRIES_PER_SECOND
        sentence = f"the tight program for {self.graph.name!r} has about {size:,} entries, too many"
        if size > MOST_ENTRIES:
            return f"{sentence} to be built ({MOST_ENTRIES:,} at most); choose another solver"
        if seconds > self.options.time_limit_s:
            limit = self.options.time_limit_s
            return f"{sentence} for {limit:g} s; give it {seconds:.0f} s or more, or choose another solver"
        return ""

    def _take_start(self) -> None:
        """Take the caller's schedule, else what a short local search finds.

        The local search begins with greedy's schedule. Schedules count in the stages of the given order.
        """
        given = self.options.start
        if given is not None and self.graph.accepts_fingerprint(given.graph_fingerprint):
            self.take_steps(given.steps.tolist())
        if self.best is not None or not is_compiled():
            return
        loading = time.perf_counter()
        load_kernels()
        self.begun += time.perf_counter() - loading  # loading does not count as the user's time
        self.until = time.perf_counter() + self.options.time_limit_s
        until = time.perf_counter() + min(_SEARCH_S, _SEARCH_SHARE * self.options.time_limit_s)
        search = first_search(
            self.problem, build_model(self.graph), self.options, self._given_order, until=until
        )
        search.run(
            until=until,
            cancelled=self.listener.cancelled,
            incumbent=self._given_order.incumbent,
            enough=lambda cost: self.is_proved(),
            moves=_SEARCH_MOVES * self.graph.n**2,
        )

    def _attempt(self, budget: int, *, true_budget: bool) -> TightOutcome | None:
        """Solve once; return None if building the model used up the time.

        ``true_budget``: what the solve proves holds for the problem.
        """
        model = tight_model(
            self.graph, budget, recompute_gradients=self.options.recompute_gradients, stop=self.should_stop
        )
        if model is None:
            return None

        def report_bound(bound: float) -> None:
            if true_budget:
                self.raise_bound(round_up_if_whole(self.graph.cost, bound * model.cost_unit))

        limits = TightLimits(self.until, self.options.gap, self.options.workers, self.listener.cancelled)
        outcome = solve_tight(
            model,
            limits,
            start=self._start(model),
            on_solution=lambda columns: self._take_retention(model.retention(columns)),
            on_bound=report_bound,
        )
        if math.isfinite(outcome.bound):
            report_bound(outcome.bound)
        if outcome.solution is not None:
            self._take_retention(model.retention(outcome.solution))
        return outcome

    def _start(self, model: TightModel) -> NDArray[np.float64] | None:
        """Return the best schedule as binary columns, or None."""
        if self.best is None:
            return None
        retained = retained_into_stages(self.graph, np.array(self.best))
        runs = Schedule.of(self.graph, self.best).matrices(self.graph).R
        return None if retained is None else model.choices(runs, retained)

    def take_steps(self, steps: Sequence[int]) -> None:
        """Take what a schedule retains, if it keeps the given order."""
        retained = retained_into_stages(self.graph, np.asarray(steps))
        if retained is not None:
            self._take_retention(retained)

    def _take_retention(self, retained: NDArray[np.bool_]) -> None:
        """Take the least schedule of a retention, and note its peak.

        The schedule is reported if it is the best so far.
        """
        self._peak = self.take(steps_from_stages(self.graph, retained[: self.graph.n])).peak_bytes

    def _statistics(self, engine_status: str) -> dict[str, Any]:
        return {"entries": self._size, "engine_status": engine_status}


class _GivenOrder(Listener):
    """Take from the order-free search what keeps the given order."""

    def __init__(self, run: _TightMilpRun) -> None:
        self._run = run

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Take the schedule if it can be stated in stages."""
        self._run.take_steps(steps)
