"""Turn steps into a result, after a replay by ``checkmate.memory.check``."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import SolverCrashedError
from checkmate.ir import CheckReport, Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.graph_sets import take_over_groups
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import retained_into_stages, steps_from_stages, without_useless
from checkmate.solvers.tolerances import FALSE, PROVED, PROVED_BY_LIBRARY

NOTHING_FITS = "no schedule fits the budget, in any order of execution"
NOTHING_YET = "cancelled before a schedule was found"


def with_schedule(
    problem: Problem,
    solver: str,
    steps: Sequence[int] | NDArray[np.integer[Any]],
    *,
    lower_bound: float | None,
    seconds: float,
    assumptions: tuple[str, ...] = (),
    statistics: Mapping[str, Any] | None = None,
) -> SolveResult:
    """OPTIMAL if ``lower_bound`` reaches the cost under no assumptions, else FEASIBLE.

    Raises SolverCrashedError if the schedule does not hold, or the bound contradicts it: a fault of the
    solver.
    """
    plan = [int(step) for step in steps]
    report = check(problem.graph, plan, budget_bytes=problem.budget_bytes)
    if not report.ok:
        raise SolverCrashedError(f"solver {solver!r} made a schedule that does not hold: {report.problem}")
    if not assumptions:
        require_true_bound(solver, lower_bound, report.cost)
    proved = lower_bound is not None and lower_bound >= report.cost * PROVED and not assumptions
    return SolveResult(
        status=SolveStatus.OPTIMAL if proved else SolveStatus.FEASIBLE,
        solver=solver,
        budget_bytes=problem.budget_bytes,
        base_cost=problem.graph.base_cost,
        schedule=Schedule.of(problem.graph, plan),
        cost=report.cost,
        peak_bytes=report.peak_bytes,
        lower_bound=None if lower_bound is None else min(lower_bound, report.cost),
        solve_seconds=seconds,
        assumptions=assumptions,
        statistics=statistics or {},
    )


def require_true_bound(solver: str, lower_bound: float | None, cost: float) -> None:
    """Raise SolverCrashedError if a bound, without assumptions, is above a replayed schedule's cost."""
    if lower_bound is not None and lower_bound > cost * (1 + FALSE) + FALSE:
        raise SolverCrashedError(
            f"solver {solver!r} proved that no schedule costs less than {lower_bound:g}, and one that was "
            f"replayed costs {cost:g}: the proof is false",
            hint="choose another solver, and please report the graph",
        )


def shows_optimal(lower_bound: float | None, cost: float) -> bool:
    return lower_bound is not None and lower_bound >= cost * (1 - FALSE) - FALSE


def concluded(
    problem: Problem,
    solver: str,
    steps: Sequence[int] | NDArray[np.integer[Any]] | None,
    listener: Listener,
    *,
    nothing: str,
    seconds: float,
    lower_bound: float | None = None,
    statistics: Mapping[str, Any] | None = None,
) -> SolveResult:
    """FEASIBLE or OPTIMAL with ``steps``; else INFEASIBLE at an infinite bound, CANCELLED or LIMIT."""
    if steps is not None:
        return with_schedule(
            problem, solver, steps, lower_bound=lower_bound, seconds=seconds, statistics=statistics
        )
    status, sentence = SolveStatus.LIMIT, nothing
    if lower_bound == math.inf:
        status, sentence, lower_bound = SolveStatus.INFEASIBLE, NOTHING_FITS, None
    elif listener.cancelled():
        status, sentence = SolveStatus.CANCELLED, NOTHING_YET
    return without_schedule(
        problem, solver, status, sentence, seconds=seconds, lower_bound=lower_bound, statistics=statistics
    )


def cancelled_before(problem: Problem, solver: str, seconds: float = 0.0) -> SolveResult:
    return without_schedule(problem, solver, SolveStatus.CANCELLED, NOTHING_YET, seconds=seconds)


def without_schedule(
    problem: Problem,
    solver: str,
    status: SolveStatus,
    message: str,
    *,
    seconds: float,
    lower_bound: float | None = None,
    statistics: Mapping[str, Any] | None = None,
) -> SolveResult:
    return SolveResult(
        status=status,
        solver=solver,
        budget_bytes=problem.budget_bytes,
        base_cost=problem.graph.base_cost,
        lower_bound=lower_bound,
        solve_seconds=seconds,
        message=message,
        statistics=statistics or {},
    )


def stage_assumptions(graph: Graph, *further: str, recompute_gradients: bool) -> tuple[str, ...]:
    """The assumptions of a claim about stages, those ``further`` ones among them.

    "The paper's stages": one stage per op, which ends with that op. An op runs at most once in a stage, and
    nothing runs after the last op.
    """
    found = ["given order", "the paper's stages", *further]
    if any(group.tangled for op in range(graph.n) for group in take_over_groups(graph, op)):
        found.append("one take-over where several are tangled")
    return tuple(found if recompute_gradients else [*found, "no gradient recompute"])


class GivenOrderRun:
    """One solve in the given order; its ``bound`` holds under ``assumptions``."""

    def __init__(
        self,
        name: str,
        problem: Problem,
        options: SolveOptions,
        listener: Listener,
        assumptions: tuple[str, ...],
    ) -> None:
        self.name, self.problem, self.options, self.listener = name, problem, options, listener
        self.graph, self.assumptions = problem.graph, assumptions
        self.begun = time.perf_counter()
        self.until = self.begun + options.time_limit_s
        self.best: list[int] | None = None
        self.cost = math.inf
        self.bound = problem.graph.base_cost

    def left(self) -> float:
        return self.until - time.perf_counter()

    def should_stop(self) -> bool:
        return self.left() <= 0 or self.listener.cancelled()

    def exclude(self, seconds: float) -> None:
        """Let ``seconds`` of loading not count as the user's time."""
        self.begun += seconds
        self.until += seconds

    def is_proved(self) -> bool:
        """Whether the bound proves the best, or to the gap asked for."""
        return self.best is not None and (
            self.cost * PROVED_BY_LIBRARY <= self.bound
            or self.cost - self.bound <= self.options.gap * self.cost
        )

    def take(self, steps: Sequence[int]) -> CheckReport:
        """Take a schedule, without recomputations that nobody reads, if it fits and is the best so far."""
        plan = without_useless(self.graph, steps)
        report = check(self.graph, plan, budget_bytes=self.problem.budget_bytes)
        if report.ok and report.cost < self.cost:
            self.best, self.cost = plan, report.cost
            self.listener.incumbent(plan, report.cost)
        return report

    def take_retention(self, retained: NDArray[np.bool_]) -> int:
        """Take the least schedule of what is retained, bool[n or n + 1, m]; return its peak in bytes."""
        return self.take(steps_from_stages(self.graph, retained[: self.graph.n])).peak_bytes

    def take_in_stages(self, steps: Sequence[int]) -> None:
        """Take what a schedule retains, if it keeps the given order."""
        retained = retained_into_stages(self.graph, np.asarray(steps))
        if retained is not None:
            self.take_retention(retained)

    def lacks_start(self) -> bool:
        """Take the caller's schedule; return whether there is none, with the kernels loaded to find one."""
        given = self.options.start
        if given is not None and self.graph.accepts_fingerprint(given.graph_fingerprint):
            self.take_in_stages(given.steps.tolist())
        if self.best is not None or not is_compiled():
            return False
        loading = time.perf_counter()
        load_kernels()
        self.exclude(time.perf_counter() - loading)
        return True

    def raise_bound(self, bound: float) -> None:
        if bound > self.bound:
            self.bound = bound
            self.listener.bound(bound, self.assumptions)

    def with_schedule(
        self,
        steps: Sequence[int],
        bound: float | None,
        statistics: Mapping[str, Any] | None = None,
        *,
        assumptions: tuple[str, ...] | None = None,
        provable: bool = True,
    ) -> SolveResult:
        """OPTIMAL if ``bound`` proves it under ``assumptions`` (else the run's), if ``provable``."""
        result = with_schedule(
            self.problem,
            self.name,
            steps,
            lower_bound=bound,
            seconds=time.perf_counter() - self.begun,
            assumptions=self.assumptions if assumptions is None else assumptions,
            statistics=statistics,
        )
        proved = (
            provable
            and bound is not None
            and result.cost is not None
            and bound >= result.cost * PROVED_BY_LIBRARY
        )
        return replace(result, status=SolveStatus.OPTIMAL) if proved else result

    def nothing_found(
        self,
        sentence: str,
        statistics: Mapping[str, Any] | None = None,
        *,
        infeasible: bool = False,
        instead: str = "another order may have one",
    ) -> SolveResult:
        """CANCELLED or LIMIT; even if ``infeasible`` under the assumptions, as ``instead`` may help."""
        if self.listener.cancelled():
            return self.without_schedule(SolveStatus.CANCELLED, NOTHING_YET, statistics)
        if infeasible:
            held = ", ".join(self.assumptions)
            sentence = f"no schedule fits the budget, assuming {held}; {instead}"
        return self.without_schedule(SolveStatus.LIMIT, sentence, statistics)

    def without_schedule(
        self, status: SolveStatus, sentence: str, statistics: Mapping[str, Any] | None = None
    ) -> SolveResult:
        seconds = time.perf_counter() - self.begun
        return without_schedule(
            self.problem, self.name, status, sentence, seconds=seconds, statistics=statistics
        )
