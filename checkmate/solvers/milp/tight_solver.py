"""The tight program as a solver.

It is optimal in the given order on networks of some hundred ops, and gives a strong bound on larger ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.listeners import SilentListener
from checkmate.solvers.milp.paper_model import assumptions_of
from checkmate.solvers.milp.tight_highs import TightLimits, TightOutcome, solve_tight
from checkmate.solvers.milp.tight_model import TightModel, model_size, tight_model
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.local_search import first_search, warm_up
from checkmate.solvers.sequence.model import build_model
from checkmate.solvers.shared.given_order import GivenOrderRun
from checkmate.solvers.shared.retention import retained_into_stages, steps_from_stages
from checkmate.solvers.tolerances import round_up_if_whole

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
        warm_up()
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


class _GivenOrder(SilentListener):
    """Take from the order-free search what keeps the given order."""

    def __init__(self, run: _TightMilpRun) -> None:
        self._run = run

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Take the schedule if it can be stated in stages."""
        self._run.take_steps(steps)
