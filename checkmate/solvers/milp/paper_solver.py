"""The paper's MILP as a solver: the reference for all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.check import check
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.milp.paper_model import PaperModel
from checkmate.solvers.milp.paper_run import PaperRun, too_large
from checkmate.solvers.milp.pulp_engine import EngineOutcome, Hooks, run_engine
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.shared.retention import steps_from_stages

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
        return below_working_set(problem, self.name) or _MilpRun(problem, options, listener).result()


class _MilpRun(PaperRun):
    """One solve."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        super().__init__(MilpSolver.name, problem, options, listener)
        self._told_bound = -np.inf

    def result(self) -> SolveResult:
        """Build the model, solve it and decode the solution.

        If the engine's tolerances let a schedule over the budget, this is repeated with a little less of the
        budget.
        """
        refused = too_large(self.problem, MilpSolver.name, self.options.time_limit_s)
        if refused is not None:
            return refused
        model = self.state(relaxed=False)
        if model is None:
            sentence = "the time limit was reached while the program was being built"
            return self.nothing_found(sentence, self._statistics("not stated"))
        bound: float | None = None
        budget = self.problem.budget_bytes
        for _ in range(_TRIES):
            outcome = self._run_engine(model)
            if bound is None and outcome.bound is not None:
                bound = outcome.bound * model.cost_unit  # of the true budget, of which later tries have less
            if outcome.status not in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE):
                break
            over = self._take_shares(model.shares()) - self.problem.budget_bytes
            if over <= 0:
                break
            budget -= over
            model.set_budget(budget)
        statistics = self._statistics(outcome.engine_status)
        if self.best is not None:
            return self.with_schedule(self.best, bound, statistics)
        return self.nothing_found(
            "the time limit was reached without a schedule",
            statistics,
            infeasible=outcome.status is SolveStatus.INFEASIBLE,
            cancelled=outcome.status is SolveStatus.CANCELLED,
        )

    def _statistics(self, engine_status: str) -> dict[str, Any]:
        return {"engine": self.options.engine, "engine_status": engine_status}

    def _run_engine(self, model: PaperModel) -> EngineOutcome:
        """Solve the model, and report what the engine finds."""

        def report_solution(columns: Sequence[float], objective: float) -> None:
            self._take_shares(model.shares(columns))

        def report_bound(bound: float) -> None:
            if bound * model.cost_unit > self._told_bound:
                self._told_bound = bound * model.cost_unit
                self.listener.bound(self._told_bound, self.assumptions)

        hooks = Hooks(self.listener.cancelled, report_solution, report_bound)
        start = self._start(model)
        return run_engine(
            model.problem, self.options, seconds=self.left(), relaxed=False, hooks=hooks, start=start
        )

    def _start(self, model: PaperModel) -> dict[Any, float]:
        """Return the start schedule as values of R, if it has such a form.

        It must keep the given order and run no op twice in a stage.
        """
        start = self.options.start
        if start is None or not self.graph.accepts_fingerprint(start.graph_fingerprint):
            return {}
        steps = start.steps.tolist()
        if not check(self.graph, steps, budget_bytes=self.problem.budget_bytes).ok:
            return {}
        matrices = Schedule.of(self.graph, steps).matrices(self.graph)
        if matrices.order.tolist() != list(range(self.graph.n)) or int(matrices.R.sum()) != len(steps):
            return {}
        return {variable: float(matrices.R[place]) for place, variable in model.R.items()}

    def _take_shares(self, shares: NDArray[np.float64]) -> int:
        """Decode S; return the peak of its schedule in bytes.

        The schedule is reported if it is the best so far.
        """
        return self.take(steps_from_stages(self.graph, shares > 0.5)).peak_bytes
