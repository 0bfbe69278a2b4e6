"""The paper's MILP as a solver: the reference that everything else is held against."""

from __future__ import annotations

import time
from dataclasses import replace

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.solvers.engine import run_engine
from checkmate.solvers.paper_model import assumptions_of, model_size, paper_model
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import steps_from_stages
from checkmate.solvers.verdict import with_schedule, without_schedule

_VARIABLES_PER_SECOND = (
    8_000  # how fast PuLP states the model (measured, 2.5 GHz); larger ones would spend the limit on it
)


class MilpSolver:
    """Optimal in the given order, where it ends within the limit; see ``checkmate.solvers.paper_model`` for the model."""

    name = "milp"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """OPTIMAL, FEASIBLE with a bound, INFEASIBLE or LIMIT, each under the model's assumptions."""
        started = time.perf_counter()
        graph = problem.graph
        assumptions = assumptions_of(graph, recompute_gradients=options.recompute_gradients)

        def seconds() -> float:
            return time.perf_counter() - started

        size = model_size(graph)
        if size > _VARIABLES_PER_SECOND * options.time_limit_s:
            sentence = (
                f"the paper's model of {graph.name} has some {size:,} variables, too many to state within the limit"
            )
            return without_schedule(problem, self.name, SolveStatus.LIMIT, sentence, seconds=seconds())
        model = paper_model(problem, recompute_gradients=options.recompute_gradients, relaxed=False)
        outcome = run_engine(model.problem, options, options.time_limit_s - seconds(), listener)
        if outcome.status in (SolveStatus.OPTIMAL, SolveStatus.FEASIBLE):
            steps = steps_from_stages(graph, model.retained())
            result = with_schedule(
                problem, self.name, steps, lower_bound=outcome.bound, seconds=seconds(), assumptions=assumptions
            )
            assert result.cost is not None
            listener.incumbent(steps, result.cost)
            return _proved(result, outcome.status)
        sentence = {
            SolveStatus.INFEASIBLE: f"no schedule fits, assuming {', '.join(assumptions)}; another order may",
            SolveStatus.CANCELLED: "stopped before a schedule was found",
        }.get(outcome.status, "the time limit was reached without a schedule")
        # A proof for the given order is none for all orders, and the status has to hold for all.
        status = SolveStatus.LIMIT if outcome.status is SolveStatus.INFEASIBLE else outcome.status
        return without_schedule(
            problem, self.name, status, sentence, seconds=seconds(), statistics={"engine_status": outcome.status.value}
        )


def _proved(result: SolveResult, status: SolveStatus) -> SolveResult:
    """OPTIMAL where the engine proved it, under the result's assumptions."""
    if status is SolveStatus.OPTIMAL and result.gap is not None and result.gap <= 1e-6:
        return replace(result, status=SolveStatus.OPTIMAL)
    return result
