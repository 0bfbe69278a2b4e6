"""The paper's MILP as a solver: the reference for all others."""

from __future__ import annotations

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
from checkmate.solvers.milp.paper_model import PaperModel, assumptions_of, model_size, paper_model
from checkmate.solvers.milp.pulp_engine import EngineOutcome, Hooks, run_engine
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.shared.retention import steps_from_stages, without_useless

VARIABLES_PER_SECOND = 30_000  # the variables that PuLP adds per second (measured, one core at 2.5 GHz)
_PROVED = 1 - 1e-6  # the engines' own tolerance on a proof
_TRIES = 3  # the most solves if the engine's tolerances let a schedule over the budget


class MilpSolver:
    """Find the optimum in the given order, if it ends within the limit.

    The model is in ``checkmate.solvers.milp.paper_model``.
    """

    name = "milp"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return OPTIMAL, or FEASIBLE with a bound, or LIMIT without a schedule.

        Both claims hold under the model's assumptions. A budget that has no schedule under the assumptions is
        LIMIT too, because another order may have one. INFEASIBLE is only said of a budget below some op's own
        need.
        """
        return below_working_set(problem, self.name) or _Run(problem, options, listener).result()


def too_large(problem: Problem, solver: str, time_limit_s: float) -> SolveResult | None:
    """Return LIMIT if the model cannot even be built in time, else None."""
    size = model_size(problem.graph)
    if size <= VARIABLES_PER_SECOND * time_limit_s:
        return None
    sentence = (
        f"the paper's program for {problem.graph.name!r} has some {size:,} variables, "
        f"too many to build within {time_limit_s:g} s; "
        f"give it {size / VARIABLES_PER_SECOND:.0f} s or more, or choose another solver"
    )
    return without_schedule(problem, solver, SolveStatus.LIMIT, sentence, seconds=0.0)


class _Run:
    """One solve."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        self._problem, self._options, self._listener = problem, options, listener
        self._graph = problem.graph
        self._begun = time.perf_counter()
        self._assumptions = assumptions_of(problem.graph, recompute_gradients=options.recompute_gradients)
        self._best: list[int] | None = None
        self._cost = np.inf
        self._told_bound = -np.inf

    def result(self) -> SolveResult:
        """Build the model, solve it and decode the solution.

        If the engine's tolerances let a schedule over the budget, this is repeated with a little less of the
        budget.
        """
        refused = too_large(self._problem, MilpSolver.name, self._options.time_limit_s)
        if refused is not None:
            return refused
        model = paper_model(
            self._graph,
            self._problem.budget_bytes,
            recompute_gradients=self._options.recompute_gradients,
            relaxed=False,
            stop=lambda: self._left() <= 0 or self._listener.cancelled(),
        )
        if model is None:
            outcome = EngineOutcome(SolveStatus.LIMIT, None, "not stated")
            return self._without_schedule(
                outcome, "the time limit was reached while the program was being built"
            )
        bound: float | None = None
        budget = self._problem.budget_bytes
        for _ in range(_TRIES):
            outcome = self._run_engine(model)
            if bound is None and outcome.bound is not None:
                bound = outcome.bound * model.cost_unit  # of the true budget, of which later tries have less
            if outcome.status not in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE):
                break
            over = self._take(model.shares()) - self._problem.budget_bytes
            if over <= 0:
                break
            budget -= over
            model.set_budget(budget)
        if self._best is None:
            return self._without_schedule(outcome, "the time limit was reached without a schedule")
        return self._with_schedule(self._best, bound, outcome)

    def _left(self) -> float:
        """Return the seconds that are left."""
        return self._options.time_limit_s - (time.perf_counter() - self._begun)

    def _run_engine(self, model: PaperModel) -> EngineOutcome:
        """Solve the model, and report what the engine finds."""

        def report_solution(columns: Sequence[float], objective: float) -> None:
            self._take(model.shares(columns))

        def report_bound(bound: float) -> None:
            if bound * model.cost_unit > self._told_bound:
                self._told_bound = bound * model.cost_unit
                self._listener.bound(self._told_bound, self._assumptions)

        hooks = Hooks(self._listener.cancelled, report_solution, report_bound)
        start = self._start(model)
        return run_engine(
            model.problem, self._options, seconds=self._left(), relaxed=False, hooks=hooks, start=start
        )

    def _start(self, model: PaperModel) -> dict[Any, float]:
        """Return the start schedule as values of R, if it has such a form.

        It must keep the given order and run no op twice in a stage.
        """
        start = self._options.start
        if start is None or not self._graph.accepts_fingerprint(start.graph_fingerprint):
            return {}
        steps = start.steps.tolist()
        if not check(self._graph, steps, budget_bytes=self._problem.budget_bytes).ok:
            return {}
        matrices = Schedule.of(self._graph, steps).matrices(self._graph)
        if matrices.order.tolist() != list(range(self._graph.n)) or int(matrices.R.sum()) != len(steps):
            return {}
        return {variable: float(matrices.R[place]) for place, variable in model.R.items()}

    def _take(self, shares: NDArray[np.float64]) -> int:
        """Decode S; return the peak of its schedule in bytes.

        The schedule is reported if it is the best so far.
        """
        steps = without_useless(self._graph, steps_from_stages(self._graph, shares > 0.5))
        report = check(self._graph, steps, budget_bytes=self._problem.budget_bytes)
        if report.ok and report.cost < self._cost:
            self._best, self._cost = steps, report.cost
            self._listener.incumbent(steps, report.cost)
        return report.peak_bytes

    def _with_schedule(self, steps: list[int], bound: float | None, outcome: EngineOutcome) -> SolveResult:
        """Return the result with the best schedule."""
        result = with_schedule(
            self._problem,
            MilpSolver.name,
            steps,
            lower_bound=bound,
            seconds=time.perf_counter() - self._begun,
            assumptions=self._assumptions,
            statistics={"engine": self._options.engine, "engine_status": outcome.engine_status},
        )
        proved = bound is not None and result.cost is not None and bound >= result.cost * _PROVED
        return replace(result, status=SolveStatus.OPTIMAL) if proved else result

    def _without_schedule(self, outcome: EngineOutcome, sentence: str) -> SolveResult:
        """Return a result without a schedule."""
        status = outcome.status
        if status is SolveStatus.INFEASIBLE:
            held = ", ".join(self._assumptions)
            sentence = f"no schedule fits the budget, assuming {held}; another order may have one"
        if status is SolveStatus.CANCELLED or self._listener.cancelled():
            status, sentence = SolveStatus.CANCELLED, "cancelled before a schedule was found"
        elif status is not SolveStatus.LIMIT:
            status = SolveStatus.LIMIT
        return without_schedule(
            self._problem,
            MilpSolver.name,
            status,
            sentence,
            seconds=time.perf_counter() - self._begun,
            statistics={"engine": self._options.engine, "engine_status": outcome.engine_status},
        )
