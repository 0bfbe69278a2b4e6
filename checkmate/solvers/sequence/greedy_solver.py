"""A feasible schedule in milliseconds.

Starting from the plain step, drop what saves most for its cost until the schedule fits. At the worst step,
one buffer is dropped and made again before its next read, together with what that needs. The drops are
evaluated exactly, on the step sequence itself, so views, take-overs, workspace and several outputs per op
count as ``check`` counts them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import SolveResult
from checkmate.progress import Cancelled
from checkmate.solvers.certify import cancelled_before, concluded
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.sequence.drops import FITS, MORE, RATE, STUCK, fit, new_scores, trim
from checkmate.solvers.sequence.edit import load
from checkmate.solvers.sequence.kernel_arrays import (
    COST,
    EXCESS,
    ScaledModel,
    build_model,
    new_state,
    steps_of,
)
from checkmate.solvers.tolerances import LEAST_COST, NEGLIGIBLE

CAREFUL, QUICK = 0.03, 0.125
_SLICE_S = 0.005  # seconds between two looks at the clock and at the listener


class GreedySolver:
    """Find a feasible schedule fast, or LIMIT; another solver may still find one."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        scaled = build_model(problem.graph)
        if not load_kernels(listener.cancelled, listener.preparing):
            return cancelled_before(problem, "greedy")
        started = time.perf_counter()  # compiling does not count as the user's time
        until = started + options.time_limit_s
        end = greedy_steps(scaled, problem.budget_bytes, until=until, cancelled=listener.cancelled)
        result = concluded(
            problem,
            "greedy",
            end.steps if end.fits else None,
            listener,
            nothing="the greedy search found no schedule within the budget",
            seconds=time.perf_counter() - started,
            lower_bound=problem.graph.base_cost,
        )
        if result.cost is not None:
            listener.incumbent(end.steps.tolist(), result.cost)
        return result


@dataclass(frozen=True, eq=False)
class GreedyResult:
    """A valid schedule, and whether it fits the budget."""

    steps: NDArray[np.int32]
    fits: bool


def greedy_steps(
    scaled: ScaledModel,
    budget_bytes: int,
    *,
    until: float,
    cancelled: Cancelled,
    start: NDArray[np.int32] | None = None,
    further: float = CAREFUL,
) -> GreedyResult:
    """Return a schedule within the budget, or the best attempt.

    Starts from ``start`` (a valid sequence; default: the given order) and ends at ``until``
    (``time.perf_counter``) or when cancelled. What fits by then is returned even if it could still be
    trimmed. ``further``: how far expensive recomputations are evaluated, ``CAREFUL`` or ``QUICK`` (several
    times faster, usually some percent of the extra cost worse).
    """
    model = scaled.model
    ops = model.price.shape[1] - 1
    budget = scaled.budget(budget_bytes)
    plain = np.arange(ops, dtype=np.int32) if start is None else start
    state = new_state(model, steps=8 * ops + 2 * len(plain) + 1000, seed=0)
    if budget < 0 or not load(model, state, plain, budget):
        return GreedyResult(plain, False)
    base = max(float(state.real[COST]), LEAST_COST)
    state.real[RATE] = 0.1 * base / max(float(state.real[EXCESS]), 1.0)
    scores = new_scores(model)
    trials, outcome = 16, MORE
    while outcome == MORE:
        if cancelled() or time.perf_counter() > until:
            outcome = STUCK
            break
        before = time.perf_counter()
        outcome = fit(model, state, scores, trials, NEGLIGIBLE * base / ops, further, 0.0)
        trials = _next_slice(trials, time.perf_counter() - before)
    if outcome != FITS:
        return GreedyResult(steps_of(state), False)
    outcome = MORE
    while outcome == MORE and not cancelled() and time.perf_counter() < until:
        outcome = trim(model, state, trials)
    return GreedyResult(steps_of(state), True)


def _next_slice(trials: int, seconds: float) -> int:
    if seconds > _SLICE_S:
        return max(1, trials // 2)
    return min(4096, trials * 2) if seconds < _SLICE_S / 3 else trials
