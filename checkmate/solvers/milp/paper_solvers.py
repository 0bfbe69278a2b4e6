"""The paper's MILP as a solver, the reference for all others, and its rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.bounds import below_working_set, working_set_bound
from checkmate.solvers.certify import GivenOrderRun, without_schedule
from checkmate.solvers.highs import HighsListener
from checkmate.solvers.milp.paper_model import PaperModel, assumptions_of, model_size, paper_model
from checkmate.solvers.milp.pulp_engine import EngineOutcome, run_engine
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import must_run_once, steps_from_stages, without_useless

VARIABLES_PER_SECOND = 30_000  # the variables that PuLP adds per second (measured, one core at 2.5 GHz)


class PaperRun(GivenOrderRun):
    def __init__(self, solver: str, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        assumptions = assumptions_of(problem.graph, recompute_gradients=options.recompute_gradients)
        super().__init__(solver, problem, options, listener, assumptions)

    def state(self, *, relaxed: bool) -> PaperModel | None:
        return paper_model(
            self.graph,
            self.problem.budget_bytes,
            recompute_gradients=self.options.recompute_gradients,
            relaxed=relaxed,
            stop=self.should_stop,
        )


def too_large(problem: Problem, solver: str, time_limit_s: float) -> SolveResult | None:
    """Return LIMIT if the model cannot even be built in time, else None."""
    size = model_size(problem.graph)
    if size <= VARIABLES_PER_SECOND * time_limit_s:
        return None
    sentence = (
        f"the paper's program for {problem.graph.name!r} has about {size:,} variables, "
        f"too many to build within {time_limit_s:g} s; "
        f"give it {size / VARIABLES_PER_SECOND:.0f} s or more, or choose another solver"
    )
    return without_schedule(problem, solver, SolveStatus.LIMIT, sentence, seconds=0.0)


_TRIES = 3  # the most solves if the engine's tolerances let a schedule over the budget


class MilpSolver:
    """Find the optimum of ``paper_model`` in the given order, if it ends within the limit.

    OPTIMAL and the bound hold under the model's assumptions. A budget that has no schedule under them is
    LIMIT, because another order may have one; INFEASIBLE is only said of a budget below some op's own need.
    """

    name = "milp"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        return below_working_set(problem, self.name) or _MilpRun(problem, options, listener).result()


class _PaperListener(HighsListener):
    def __init__(self, run: _MilpRun, model: PaperModel) -> None:
        super().__init__()
        self._run, self._model = run, model

    def solution(self, columns: NDArray[np.float64]) -> None:
        self._run.take_shares(self._model.shares(columns))

    def bound(self, bound: float) -> None:
        self._run.report_bound(bound * self._model.cost_unit)


class _MilpRun(PaperRun):
    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        super().__init__(MilpSolver.name, problem, options, listener)
        self._reported = -math.inf

    def result(self) -> SolveResult:
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
            over = self.take_shares(model.shares()) - self.problem.budget_bytes
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
        )

    def _statistics(self, engine_status: str) -> dict[str, Any]:
        return {"engine": self.options.engine, "engine_status": engine_status}

    def _run_engine(self, model: PaperModel) -> EngineOutcome:
        return run_engine(
            model.problem,
            self.options,
            seconds=self.left(),
            relaxed=False,
            cancelled=self.listener.cancelled,
            listener=_PaperListener(self, model),
            start=self._start(model),
        )

    def report_bound(self, bound: float) -> None:
        """Report a bound of the true budget's program, or of a smaller one, if it is better."""
        if bound > self._reported:
            self._reported = bound
            self.listener.bound(bound, self.assumptions)

    def _start(self, model: PaperModel) -> dict[Any, float]:
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

    def take_shares(self, shares: NDArray[np.float64]) -> int:
        """Take the schedule of S, if it is the best so far; return its peak in bytes."""
        return self.take_retention(shares > 0.5)


# Shares of what the budget leaves above the largest single-op need. The last ones ask for the best that the
# relaxation can do.
_SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.0)
_THRESHOLDS = (0.5, 0.3, 0.7, 0.1, 0.9)
_RANDOM_ROUNDINGS = 12


class LpRoundingSolver:
    """Relax the paper's program, round S, and take the least R for it (Jain et al., section 5).

    The rounded schedule may need more memory than the relaxation; the paper leaves a fixed allowance of the
    budget (section 5.3). Here several thresholds and random roundings are tried, and the relaxation is solved
    again with less of the budget until a rounded schedule fits. The bound is the first relaxation's value.
    """

    name = "lp-rounding"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        return below_working_set(problem, self.name) or _LpRoundingRun(problem, options, listener).result()


class _LpRoundingRun(PaperRun):
    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        super().__init__(LpRoundingSolver.name, problem, options, listener)
        self._random = np.random.default_rng(options.seed)
        self._once = must_run_once(problem.graph, recompute_gradients=options.recompute_gradients)

    def result(self) -> SolveResult:
        refused = too_large(self.problem, LpRoundingSolver.name, self.options.time_limit_s)
        if refused is not None:
            return refused
        model = self.state(relaxed=True)
        if model is None:
            return self.nothing_found("the time limit was reached while the relaxation was being built")
        bound: float | None = None
        least = working_set_bound(self.graph).bytes
        for share in _SHARES:
            model.set_budget(least + share * (self.problem.budget_bytes - least))
            value = self._relaxation(model)
            if value is None:
                break
            bound = value if bound is None else bound
            steps = self._best_rounding(model.shares())
            if steps is not None:
                result = self.with_schedule(steps, bound, provable=False)
                self.listener.incumbent(steps, result.cost or 0.0)
                return result
        if self.should_stop():
            return self.nothing_found("the time limit was reached before a rounding fitted the budget")
        return self.nothing_found(
            "no rounding of the relaxation fits the budget; another solver may find a schedule"
        )

    def _relaxation(self, model: PaperModel) -> float | None:
        """The relaxation's value; None if it has none, or time is up."""
        if self.should_stop():
            return None
        outcome = run_engine(
            model.problem,
            self.options,
            seconds=self.left(),
            relaxed=True,
            cancelled=self.listener.cancelled,
        )
        if outcome.status is not SolveStatus.OPTIMAL or outcome.bound is None:
            return None
        value = outcome.bound * model.cost_unit
        self.listener.bound(value, self.assumptions)
        return value

    def _best_rounding(self, shares: NDArray[np.float64]) -> list[int] | None:
        best: list[int] | None = None
        least = np.inf
        always = np.flatnonzero(self._once[self.graph.producer] & (self.graph.producer >= 0))
        for rounded in _roundings(shares, self._random):
            if self.should_stop() and best is not None:
                break
            rounded[:, always] = True
            steps = without_useless(self.graph, steps_from_stages(self.graph, rounded))
            cost = float(self.graph.cost[steps].sum())
            if cost < least and check(self.graph, steps, budget_bytes=self.problem.budget_bytes).ok:
                best, least = steps, cost
        return best


def _roundings(shares: NDArray[np.float64], random: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    for threshold in _THRESHOLDS:
        yield shares > threshold
    for _ in range(_RANDOM_ROUNDINGS):
        yield random.random(shares.shape) < shares
