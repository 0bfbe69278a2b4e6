"""Share what both solvers of the paper's program need.

That is its size, its assumptions and how it is stated.
"""

from __future__ import annotations

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.solvers.certify import without_schedule
from checkmate.solvers.milp.paper_model import PaperModel, assumptions_of, model_size, paper_model
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.shared.given_order import GivenOrderRun

VARIABLES_PER_SECOND = 30_000  # the variables that PuLP adds per second (measured, one core at 2.5 GHz)


class PaperRun(GivenOrderRun):
    """One solve of the paper's program, or of its relaxation."""

    def __init__(self, solver: str, problem: Problem, options: SolveOptions, listener: Listener) -> None:
        assumptions = assumptions_of(problem.graph, recompute_gradients=options.recompute_gradients)
        super().__init__(solver, problem, options, listener, assumptions)

    def state(self, *, relaxed: bool) -> PaperModel | None:
        """Return the program, or None if it could not be built in time."""
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
