"""The paper's MILP as a solver: the reference that everything else is held against."""

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

VARIABLES_PER_SECOND = 30_000  # that PuLP states (measured, one core at 2.5 GHz)
_PROVED = 1 - 1e-6  # the engines' own tolerance on a proof
_TRIES = 3  # solves before a schedule that the engine's tolerances let over the budget is given up


class MilpSolver:
    """Optimal in the given order, where it ends within the limit; see ``checkmate.solvers.milp.paper_model`` for the model."""

    name = "milp"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """OPTIMAL, or FEASIBLE with a bound, both under the model's assumptions; LIMIT where there is no schedule.

        A budget that has no schedule under the assumptions is LIMIT too: another order may have one. INFEASIBLE is said only
        of a budget below some op's own need.
        """
        return below_working_set(problem, self.name) or _Run(problem, options, listener).result()


def too_large(problem: Problem, solver: str, time_limit_s: float) -> SolveResult | None:
    """LIMIT for a model that could not even be stated within the time limit; else None."""
    size = model_size(problem.graph)
    if size <= VARIABLES_PER_SECOND * time_limit_s:
        return None
    sentence = (
        f"the paper's program for {problem.graph.name!r} has some {size:,} variables, too many to state within "
        f"{time_limit_s:g} s; give it {size / VARIABLES_PER_SECOND:.0f} s or more, or choose another solver"
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
        """State, solve, decode; again with a little less of the budget where the engine's tolerances let a schedule over it."""
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
                outcome, "the time limit was reached while the program was being stated"
            )
        bound: float | None = None
        budget = self._problem.budget_bytes
        for _ in range(_TRIES):
            outcome = self._run_engine(model)
            if bound is None and outcome.bound is not None:
                bound = outcome.bound * model.cost_unit  # of the true budget: later tries have less of it
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
        return self._options.time_limit_s - (time.perf_counter() - self._begun)

    def _run_engine(self, model: PaperModel) -> EngineOutcome:
        def hear_solution(columns: Sequence[float], objective: float) -> None:
            self._take(model.shares(columns))

        def hear_bound(bound: float) -> None:
            if bound * model.cost_unit > self._told_bound:
                self._told_bound = bound * model.cost_unit
                self._listener.bound(self._told_bound, self._assumptions)

        hooks = Hooks(self._listener.cancelled, hear_solution, hear_bound)
        start = self._start(model)
        return run_engine(
            model.problem, self._options, seconds=self._left(), relaxed=False, hooks=hooks, start=start
        )

    def _start(self, model: PaperModel) -> dict[Any, float]:
        """The start schedule as R and S, where it can be said that way: in the given order, no op twice in a stage."""
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
        """Decode S, tell if it is the best so far; the peak of its schedule in bytes."""
        steps = without_useless(self._graph, steps_from_stages(self._graph, shares > 0.5))
        report = check(self._graph, steps, budget_bytes=self._problem.budget_bytes)
        if report.ok and report.cost < self._cost:
            self._best, self._cost = steps, report.cost
            self._listener.incumbent(steps, report.cost)
        return report.peak_bytes

    def _with_schedule(self, steps: list[int], bound: float | None, outcome: EngineOutcome) -> SolveResult:
        result = with_schedule(
            self._problem,
            MilpSolver.name,
            steps,
            lower_bound=bound,
            seconds=time.perf_counter() - self._begun,
            assumptions=self._assumptions,
            statistics={"engine": self._options.engine, "engine_status": outcome.said},
        )
        proved = bound is not None and result.cost is not None and bound >= result.cost * _PROVED
        return replace(result, status=SolveStatus.OPTIMAL) if proved else result

    def _without_schedule(self, outcome: EngineOutcome, sentence: str) -> SolveResult:
        status = outcome.status
        if status is SolveStatus.INFEASIBLE:
            sentence = f"no schedule fits the budget, assuming {', '.join(self._assumptions)}; another order may have one"
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
            statistics={"engine": self._options.engine, "engine_status": outcome.said},
        )
