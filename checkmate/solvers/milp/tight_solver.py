"""The tight program as a solver.

It is optimal in the given order on networks of some hundred ops, and gives a strong bound on larger ones.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.certify import with_schedule, without_schedule
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.milp.paper_model import assumptions_of
from checkmate.solvers.milp.tight_highs import TightLimits, TightOutcome, solve_tight
from checkmate.solvers.milp.tight_model import TightModel, model_size, tight_model
from checkmate.solvers.problem import Listener, Problem, SilentListener, SolveOptions
from checkmate.solvers.sequence.local_search import first_search, warm_up
from checkmate.solvers.sequence.model import build_model
from checkmate.solvers.shared.retention import retained_into_stages, steps_from_stages, without_useless

# With more, not even the first relaxation is solved in time (measured, one core at 2.5 GHz).
ENTRIES_PER_SECOND = 100_000
MOST_ENTRIES = 12_000_000  # some gigabytes
_SEARCH_S, _SEARCH_SHARE = 1.0, 0.1  # local search for a start: seconds, share of the limit
_SEARCH_MOVES = 60  # moves per pair of ops; the least of the three ends the search
_PROVED = 1 - 1e-6  # the solver's own tolerance on a proof
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
        return below_working_set(problem, self.name) or _Run(problem, options, listener).result()


class _Run:
    """One solve."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        self._problem, self._options, self._listener = problem, options, listener
        self._graph = problem.graph
        self._begun = time.perf_counter()
        self._until = self._begun + options.time_limit_s
        self._given_order = _GivenOrder(self)
        self._assumptions = assumptions_of(problem.graph, recompute_gradients=options.recompute_gradients)
        self._best: list[int] | None = None
        self._cost = math.inf
        self._bound = problem.graph.base_cost
        self._peak = 0  # the peak of the schedule decoded last
        self._size = 0

    def result(self) -> SolveResult:
        """Find a start, build the model, solve it and decode the solution.

        If tolerances let a schedule over the budget, this is repeated with a little less of the budget.
        """
        refusal = self._too_large()
        if refusal:
            return self._without_schedule(SolveStatus.LIMIT, refusal)
        self._take_start()
        budget, outcome = self._problem.budget_bytes, None
        for attempt in range(_TRIES):
            if self._is_proved() or self._over():
                break
            outcome = self._attempt(budget, true_budget=attempt == 0)
            if outcome is None or outcome.solution is None:
                break
            over = self._peak - self._problem.budget_bytes
            if over <= 0:
                break
            budget -= over
        engine_status = "not started" if outcome is None else outcome.engine_status
        if self._best is not None:
            return self._with_schedule(self._best, engine_status)
        return self._nothing_found(outcome is not None and outcome.infeasible, engine_status)

    def _too_large(self) -> str:
        """Return why the model is too large, or an empty string."""
        size = model_size(self._graph, recompute_gradients=self._options.recompute_gradients)
        self._size = size
        seconds = size / ENTRIES_PER_SECOND
        sentence = f"the tight program for {self._graph.name!r} has some {size:,} entries, too many"
        if size > MOST_ENTRIES:
            return f"{sentence} to be built ({MOST_ENTRIES:,} at most); choose another solver"
        if seconds > self._options.time_limit_s:
            limit = self._options.time_limit_s
            return f"{sentence} for {limit:g} s; give it {seconds:.0f} s or more, or choose another solver"
        return ""

    def _left(self) -> float:
        """Return the seconds that are left."""
        return self._until - time.perf_counter()

    def _over(self) -> bool:
        """Return whether to stop."""
        return self._left() <= 0 or self._listener.cancelled()

    def _is_proved(self) -> bool:
        """Return whether the bound proves the best, or to the gap asked for."""
        return (
            self._cost * _PROVED <= self._bound or self._cost - self._bound <= self._options.gap * self._cost
        )

    def _take_start(self) -> None:
        """Take the caller's schedule, else what a short local search finds.

        The local search begins with greedy's schedule. Schedules count in the stages of the given order.
        """
        given = self._options.start
        if given is not None and self._graph.accepts_fingerprint(given.graph_fingerprint):
            self.take_steps(given.steps.tolist())
        if self._best is not None or not is_compiled():
            return
        loading = time.perf_counter()
        warm_up()
        self._begun += time.perf_counter() - loading  # loading does not count as the user's time
        self._until = time.perf_counter() + self._options.time_limit_s
        until = time.perf_counter() + min(_SEARCH_S, _SEARCH_SHARE * self._options.time_limit_s)
        search = first_search(
            self._problem, build_model(self._graph), self._options, self._given_order, until=until
        )
        search.run(
            until=until,
            cancelled=self._listener.cancelled,
            incumbent=self._given_order.incumbent,
            enough=lambda cost: self._is_proved(),
            moves=_SEARCH_MOVES * self._graph.n**2,
        )

    def _attempt(self, budget: int, *, true_budget: bool) -> TightOutcome | None:
        """Solve once; return None if building the model used up the time.

        ``true_budget``: what the solve proves holds for the problem.
        """
        model = tight_model(
            self._graph, budget, recompute_gradients=self._options.recompute_gradients, stop=self._over
        )
        if model is None:
            return None

        def report_bound(bound: float) -> None:
            if true_budget:
                self._raise_bound(bound * model.cost_unit)

        limits = TightLimits(self._until, self._options.gap, self._options.workers, self._listener.cancelled)
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
        if self._best is None:
            return None
        retained = retained_into_stages(self._graph, np.array(self._best))
        runs = Schedule.of(self._graph, self._best).matrices(self._graph).R
        return None if retained is None else model.choices(runs, retained)

    def take_steps(self, steps: Sequence[int]) -> None:
        """Take what a schedule retains, if it keeps the given order."""
        retained = retained_into_stages(self._graph, np.asarray(steps))
        if retained is not None:
            self._take_retention(retained)

    def _take_retention(self, retained: NDArray[np.bool_]) -> None:
        """Take the least schedule of a retention, and note its peak.

        The schedule is reported if it is the best so far.
        """
        steps = without_useless(self._graph, steps_from_stages(self._graph, retained[: self._graph.n]))
        report = check(self._graph, steps, budget_bytes=self._problem.budget_bytes)
        self._peak = report.peak_bytes
        if report.ok and report.cost < self._cost:
            self._best, self._cost = steps, report.cost
            self._listener.incumbent(steps, report.cost)

    def _raise_bound(self, bound: float) -> None:
        """Take the bound if it is better.

        If all costs are whole numbers, the bound is rounded up to one.
        """
        cost = self._graph.cost
        if float(cost.sum()) < 2**50 and bool((cost == np.floor(cost)).all()):
            bound = math.ceil(bound - 1e-6 * max(1.0, 1e-6 * bound))
        if bound > self._bound:
            self._bound = bound
            self._listener.bound(bound, self._assumptions)

    def _statistics(self, engine_status: str) -> dict[str, Any]:
        """Return the statistics of the result."""
        return {"entries": self._size, "engine_status": engine_status}

    def _with_schedule(self, steps: list[int], engine_status: str) -> SolveResult:
        """Return the result with the best schedule."""
        anyway = self._bound <= self._graph.base_cost  # every schedule computes each op once, in any order
        result = with_schedule(
            self._problem,
            TightMilpSolver.name,
            steps,
            lower_bound=self._bound,
            seconds=time.perf_counter() - self._begun,
            assumptions=() if anyway else self._assumptions,
            statistics=self._statistics(engine_status),
        )
        proved = result.cost is not None and self._bound >= result.cost * _PROVED
        return replace(result, status=SolveStatus.OPTIMAL) if proved else result

    def _nothing_found(self, infeasible: bool, engine_status: str) -> SolveResult:
        """Return the result if no schedule was found."""
        if self._listener.cancelled():
            return self._without_schedule(
                SolveStatus.CANCELLED, "cancelled before a schedule was found", engine_status
            )
        sentence = "the time limit was reached without a schedule"
        if infeasible:
            held = ", ".join(self._assumptions)
            sentence = f"no schedule fits the budget, assuming {held}; another order may have one"
        return self._without_schedule(SolveStatus.LIMIT, sentence, engine_status)

    def _without_schedule(
        self, status: SolveStatus, sentence: str, engine_status: str = "not started"
    ) -> SolveResult:
        """Return a result without a schedule."""
        return without_schedule(
            self._problem,
            TightMilpSolver.name,
            status,
            sentence,
            seconds=time.perf_counter() - self._begun,
            statistics=self._statistics(engine_status),
        )


class _GivenOrder(SilentListener):
    """Take from the order-free search what keeps the given order."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def incumbent(self, steps: Sequence[int], cost: float) -> None:
        """Take the schedule if it can be stated in stages."""
        self._run.take_steps(steps)
