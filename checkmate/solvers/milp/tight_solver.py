"""The tight program as a solver: optimal in the given order on networks of some hundred ops."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Schedule, SolveResult, SolveStatus
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.certify import GivenOrderRun
from checkmate.solvers.highs import HighsListener, HighsProgram, linear_program
from checkmate.solvers.milp.paper_model import assumptions_of
from checkmate.solvers.milp.tight_model import TightModel, model_size, tight_model
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import retained_into_stages
from checkmate.solvers.sequence.kernel_arrays import build_model
from checkmate.solvers.sequence.local_search import first_search
from checkmate.solvers.tolerances import round_up_if_whole

_GRACE_S = 0.01  # after it was told to stop; then it is left to end on its own
_LP_TOLERANCE = 1e-7  # the relaxation's value may be too high by this
# Beyond the known cost, so that rounding fixes nothing that an equally good solution needs.
_FIX_MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class TightOutcome:
    """How HiGHS ended; ``engine_status`` is its own word for it. ``bound``: in the model's unit.

    ``infeasible``: proved, within the solver's tolerances. ``solution``: the best columns found, None without
    any.
    """

    infeasible: bool
    bound: float
    solution: NDArray[np.float64] | None
    engine_status: str


class TightListener(HighsListener):
    """Gives what HiGHS finds to a run; no bound is above the cost of a ``known`` solution."""

    def __init__(self, run: _TightMilpRun, model: TightModel, *, true_budget: bool) -> None:
        super().__init__()
        self._run, self._model, self._true_budget = run, model, true_budget
        self.known = math.inf

    def solution(self, columns: NDArray[np.float64]) -> None:
        self._run.decode(self._model.retention(columns))

    def bound(self, bound: float) -> None:
        if self._true_budget:
            unit = self._model.cost_unit
            self._run.raise_bound(round_up_if_whole(self._model.graph.cost, min(bound, self.known) * unit))


def solve_tight(
    model: TightModel,
    run: _TightMilpRun,
    listener: TightListener,
    start: NDArray[np.float64] | None,
) -> TightOutcome:
    """Minimize: first the relaxation, then the program it leaves open.

    ``start``: the binary columns of a known solution. HiGHS solves the relaxation alone in a fraction of the
    time that it takes inside the integer program. With a start, most columns are then fixed, because moving
    them would cost more than the start does.
    """
    lower, upper = np.zeros(model.columns), model.upper.copy()
    relaxation = _program(model, run, lower, upper)
    if not _run(relaxation, run):
        return TightOutcome(False, -math.inf, None, "left behind")
    if not relaxation.solved:
        return TightOutcome(relaxation.infeasible, -math.inf, None, relaxation.engine_status)
    bound = relaxation.objective - _LP_TOLERANCE * max(1.0, abs(relaxation.objective))
    listener.bound(bound)
    whole = np.arange(model.columns) < model.whole
    # A start comes from a better search than HiGHS's own. That one would take most of the time.
    effort = {} if start is None else {"mip_heuristic_effort": 0.0}
    if start is not None:
        listener.known = float(model.cost[: model.whole] @ start) + model.offset
        # Leaving the bound that a column has in the relaxation would cost more than what is known.
        price, margin = relaxation.reduced_costs[: model.whole], _FIX_MARGIN * max(1.0, listener.known)
        too_costly = np.abs(price) > listener.known - relaxation.objective + margin
        upper[: model.whole][too_costly & (price > 0)] = 0.0
        lower[: model.whole][too_costly & (price < 0)] = 1.0
    program = _program(model, run, lower, upper, whole=whole, **effort)
    known = listener.known
    if not _run(program, run, start=start, listener=listener):
        return TightOutcome(False, max(bound, min(listener.best_bound, known)), None, "left behind")
    # but for the fixed columns: nothing is cheaper than the start
    if program.infeasible and start is not None:
        return TightOutcome(False, known, None, program.engine_status)
    found = math.inf if program.infeasible else max(listener.best_bound, program.bound)
    return TightOutcome(
        program.infeasible, max(bound, min(found, known)), program.solution, program.engine_status
    )


def _program(
    model: TightModel,
    run: _TightMilpRun,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    *,
    whole: NDArray[np.bool_] | None = None,
    **options: Any,
) -> HighsProgram:
    lp = linear_program(model.rows, model.cost, lower, upper, offset=model.offset, whole=whole)
    return HighsProgram(
        lp, workers=run.options.workers, gap=run.options.gap, mip_detect_symmetry=False, **options
    )


def _run(program: HighsProgram, run: _TightMilpRun, **how: Any) -> bool:
    cancelled = run.listener.cancelled
    return program.run(
        "tight-milp", until=run.until, cancelled=cancelled, daemon=False, grace_s=_GRACE_S, **how
    )


# With more, not even the first relaxation is solved in time (measured, one core at 2.5 GHz).
ENTRIES_PER_SECOND = 100_000
MOST_ENTRIES = 12_000_000  # some gigabytes
_SEARCH_S, _SEARCH_SHARE = 1.0, 0.1  # local search for a start: seconds, share of the limit
_SEARCH_MOVES = 60  # moves per pair of ops; the least of the three ends the search
_TRIES = 3  # the most solves if the solver's tolerances let a schedule over the budget


class TightMilpSolver:
    """Find the optimum of ``tight_model`` in time; what is claimed is as of the paper's program."""

    name = "tight-milp"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        return below_working_set(problem, self.name) or _TightMilpRun(problem, options, listener).result()


class _TightMilpRun(GivenOrderRun):
    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        assumptions = assumptions_of(problem.graph, recompute_gradients=options.recompute_gradients)
        super().__init__(TightMilpSolver.name, problem, options, listener, assumptions)
        self._given_order = _GivenOrder(self)
        self._peak = 0  # the peak of the schedule decoded last
        self._size = 0

    def result(self) -> SolveResult:
        """If tolerances let a schedule over the budget, solve again with a little less of the budget."""
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
        if not self.lacks_start():
            return
        until = time.perf_counter() + min(_SEARCH_S, _SEARCH_SHARE * self.options.time_limit_s)
        search = first_search(
            self.problem, build_model(self.graph), self.options, self._given_order, until=until
        )
        search.run(self._given_order, until=until, moves=_SEARCH_MOVES * self.graph.n**2)

    def _attempt(self, budget: int, *, true_budget: bool) -> TightOutcome | None:
        model = tight_model(
            self.graph, budget, recompute_gradients=self.options.recompute_gradients, stop=self.should_stop
        )
        if model is None:
            return None
        listener = TightListener(self, model, true_budget=true_budget)
        outcome = solve_tight(model, self, listener, self._start(model))
        if math.isfinite(outcome.bound):
            listener.bound(outcome.bound)
        if outcome.solution is not None:
            listener.solution(outcome.solution)
        return outcome

    def _start(self, model: TightModel) -> NDArray[np.float64] | None:
        if self.best is None:
            return None
        retained = retained_into_stages(self.graph, np.array(self.best))
        runs = Schedule.of(self.graph, self.best).matrices(self.graph).R
        return None if retained is None else model.choices(runs, retained)

    def decode(self, retained: NDArray[np.bool_]) -> None:
        self._peak = self.take_retention(retained)

    def _statistics(self, engine_status: str) -> dict[str, Any]:
        return {"entries": self._size, "engine_status": engine_status}


class _GivenOrder(Listener):
    """Passes on schedules of the order-free search that can be stated in stages of the given order."""

    def __init__(self, run: _TightMilpRun) -> None:
        self._run = run

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        self._run.take_in_stages(steps)

    def cancelled(self) -> bool:
        return self._run.listener.cancelled() or self._run.is_proved()
