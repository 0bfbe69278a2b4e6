"""Two-phase LP rounding (Jain et al., section 5): relax the paper's model, round S, take the least R for it.

The rounded schedule may need more memory than the relaxation. Where the paper leaves a fixed allowance, several thresholds and
random roundings are tried, and the relaxation is solved again with less of the budget until a rounded schedule fits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.simulate import simulate
from checkmate.solvers.engine import run_engine
from checkmate.solvers.paper_model import model_size, paper_model
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import steps_from_stages
from checkmate.solvers.verdict import with_schedule, without_schedule

_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
_THRESHOLDS = (0.5, 0.3, 0.7, 0.1, 0.9)
_RANDOM_ROUNDINGS = 12
_VARIABLES_PER_SECOND = 8_000


class LpRoundingSolver:
    """Always ends within the budget, or says that it could not."""

    name = "lp-rounding"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The cheapest rounded schedule of the first relaxation that gives one; the relaxation's value bounds its order."""
        started = time.perf_counter()
        graph = problem.graph

        def left() -> float:
            return options.time_limit_s - (time.perf_counter() - started)

        if model_size(graph) > _VARIABLES_PER_SECOND * options.time_limit_s:
            sentence = f"the relaxation of {graph.name} is too large to state within the limit"
            return without_schedule(problem, self.name, SolveStatus.LIMIT, sentence, seconds=0.0)
        random = np.random.default_rng(options.seed)
        for share in _SHARES:
            if left() <= 0 or listener.cancelled():
                break
            model = paper_model(
                problem, recompute_gradients=options.recompute_gradients, relaxed=True, budget_share=share
            )
            outcome = run_engine(model.problem, options, left(), listener)
            if outcome.status is not SolveStatus.OPTIMAL:
                break
            best = _best_rounding(problem, model.retained_shares(), random)
            if best is not None:
                seconds = time.perf_counter() - started
                return with_schedule(problem, self.name, best, lower_bound=None, seconds=seconds)
        seconds = time.perf_counter() - started
        cancelled = listener.cancelled()
        sentence = "stopped" if cancelled else "no rounding of the relaxation fits the budget"
        status = SolveStatus.CANCELLED if cancelled else SolveStatus.LIMIT
        return without_schedule(problem, self.name, status, sentence, seconds=seconds)


def _best_rounding(problem: Problem, shares: NDArray[np.float64], random: np.random.Generator) -> list[int] | None:
    """The cheapest schedule within the budget among the roundings of ``shares``."""
    graph = problem.graph
    best: tuple[float, list[int]] | None = None
    once = ~graph.recomputable
    for rounded in _roundings(shares, random):
        rounded[:, once] = np.tril(np.ones_like(rounded), -1)[:, once].astype(bool)
        steps = steps_from_stages(graph, rounded)
        cost = float(graph.cost[steps].sum())
        if best is not None and cost >= best[0]:
            continue
        if simulate(graph, Schedule.of(graph, steps)).peak_bytes <= problem.budget_bytes:
            best = (cost, steps)
    return None if best is None else best[1]


def _roundings(shares: NDArray[np.float64], random: np.random.Generator) -> Iterator[NDArray[np.bool_]]:
    for threshold in _THRESHOLDS:
        yield shares > threshold
    for _ in range(_RANDOM_ROUNDINGS):
        yield random.random(shares.shape) < shares
