"""Two-phase LP rounding (Jain et al., section 5).

Relax the paper's program, round S, and take the least R for it. The rounded schedule may need more memory
than the relaxation. The paper leaves a fixed allowance ε of the budget (section 5.3). Here several thresholds
and random roundings are tried, and the relaxation is solved again with less of the budget until a rounded
schedule fits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.bounds import below_working_set, working_set_bound
from checkmate.solvers.milp.paper_model import PaperModel
from checkmate.solvers.milp.paper_run import PaperRun, too_large
from checkmate.solvers.milp.pulp_engine import Hooks, run_engine
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.shared.retention import must_run_once, steps_from_stages, without_useless

# Shares of what the budget leaves above the largest single-op need. The last ones ask for the best that the
# relaxation can do.
_SHARES = (1.0, 0.9, 0.75, 0.5, 0.25, 0.0)
_THRESHOLDS = (0.5, 0.3, 0.7, 0.1, 0.9)
_RANDOM_ROUNDINGS = 12


class LpRoundingSolver:
    """Round the relaxation to a schedule within the budget."""

    name = "lp-rounding"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return the cheapest rounding that fits the budget.

        It is of the first relaxation that has one. The bound is the first relaxation's value. LIMIT if no
        rounding fits.
        """
        return below_working_set(problem, self.name) or _LpRoundingRun(problem, options, listener).result()


class _LpRoundingRun(PaperRun):
    """One solve."""

    def __init__(self, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        super().__init__(LpRoundingSolver.name, problem, options, listener)
        self._random = np.random.default_rng(options.seed)
        self._once = must_run_once(problem.graph, recompute_gradients=options.recompute_gradients)

    def result(self) -> SolveResult:
        """Solve the relaxation for shrinking budgets until a rounding fits."""
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
        """Return the relaxation's value; None if it has none, or time is up."""
        if self.should_stop():
            return None
        hooks = Hooks(self.listener.cancelled)
        outcome = run_engine(model.problem, self.options, seconds=self.left(), relaxed=True, hooks=hooks)
        if outcome.status is not SolveStatus.OPTIMAL or outcome.bound is None:
            return None
        value = outcome.bound * model.cost_unit
        self.listener.bound(value, self.assumptions)
        return value

    def _best_rounding(self, shares: NDArray[np.float64]) -> list[int] | None:
        """Return the cheapest rounding of ``shares`` within the budget."""
        best: list[int] | None = None
        least = np.inf
        always = np.flatnonzero(self._once[self.graph.producer] & (self.graph.producer >= 0))
        for rounded in _roundings(shares, self._random):
            if self.should_stop() and best is not None:
                break
            rounded[:, always] = True
            steps = without_useless(self.graph, steps_from_stages(self.graph, rounded))
            cost = float(self.graph.cost[steps].sum())
            if cost < least and _peak(self.graph, steps) <= self.problem.budget_bytes:
                best, least = steps, cost
        return best


def _roundings(shares: NDArray[np.float64], random: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    """Yield the roundings: with thresholds first, then at random.

    The thresholds are algorithm 2 and others; random rounding is in section 5.1.
    """
    for threshold in _THRESHOLDS:
        yield shares > threshold
    for _ in range(_RANDOM_ROUNDINGS):
        yield random.random(shares.shape) < shares


def _peak(graph: Graph, steps: list[int]) -> int:
    """Return the peak of ``steps`` in bytes."""
    return simulate(graph, Schedule.of(graph, steps)).peak_bytes
