"""Look for a schedule whose compiled step keeps a budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from checkmate.backends.tf.xla.compiled import StepCompilation
from checkmate.backends.tf.xla.fit import (
    Solving,
    XlaAttempt,
    XlaFit,
    fit_compiled,
    none_fits,
    smallest_remedy,
)
from checkmate.backends.xla_policy.waits import ways_to_tie
from checkmate.errors import BudgetBelowMinimumError
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.compiling import Patience, lowered
from checkmate.memory.simulate import simulate
from checkmate.planning.compiled.step import TracedForXla
from checkmate.planning.progress_listener import Following
from checkmate.planning.segments import in_segments
from checkmate.planning.solving import StepSolver, keep_everything_peak, solve
from checkmate.solvers.baselines import whole_segments
from checkmate.units import Budget, plural


@dataclass(frozen=True, eq=False)
class FittedStep:
    """A schedule whose compiled step keeps the budget. ``fit``: how it was found, and what XLA said."""

    result: SolveResult
    fit: XlaFit

    @property
    def note(self) -> str:
        """Return how many schedules were compiled for it."""
        tried = plural(1 + len(self.fit.attempts), "step")
        return f"compiled by XLA: {tried} compiled in {self.fit.compile_seconds:.0f} s"


class CompiledSearch:
    """Look for schedules of one step by compiling them. ``plain``: the plain step."""

    def __init__(self, step: TracedForXla, plain: StepCompilation, solver: StepSolver) -> None:
        self.step, self.plain, self._solver = step, plain, solver
        self._results: list[SolveResult] = []
        self._attempts: list[XlaAttempt] = []
        self._patience = Patience()

    def allowed_bytes(self, budget: Budget) -> int:
        """Return what arguments, results and temporaries may take in all."""
        least = 0
        if budget == Budget():
            least = self.step.compiled(self._least(self.step.graph)).memory.peak_bytes
        return budget.resolve(keep_everything_peak=self.plain.memory.peak_bytes, minimum=least)

    def fitted(self, goal: int) -> FittedStep:
        """Return the cheapest schedule whose compiled step takes ``goal`` bytes.

        Raises:
            NoScheduleError: no schedule that was compiled takes so little.
        """
        found = self.closest(goal)
        if not found.fit.fits:
            what = f"a training step of {self.step.folded.traced.loaded.name!r}"
            remedy = f"{smallest_remedy(found.fit)}, use a smaller batch, or add --target executor"
            raise none_fits(what, found.fit, remedy)
        return found

    def closest(self, goal: int) -> FittedStep:
        """Return what ``fitted`` does, or else the schedule that takes the least.

        It is the plain order where no schedule that was compiled takes less.
        """
        self._patience = Patience()
        fit = fit_compiled(
            self.step.graph,
            self.plain,
            goal,
            compile=self.step.compiled,
            solving=Solving(self._solved, self._least, self._whole),
            report=self.step.report,
            loose=self.step.loose,
        )
        self._attempts += fit.attempts
        known = [each for each in self._attempts if each.memory.peak_bytes <= goal]
        if not fit.fits and known:  # a search for more may have come by what keeps less
            fit = replace(fit, chosen=min(known, key=lambda each: each.overhead))
        return FittedStep(self._result_of(fit.schedule), fit)

    def as_given(self, result: SolveResult, allowed: int) -> FittedStep:
        """Return ``result`` with the ties by which it takes the least.

        All its steps are tied only where it takes more than ``allowed`` bytes otherwise.
        """
        graph, schedule = self.step.graph, result.require_schedule()
        overhead = simulate(graph, schedule).cost / graph.base_cost - 1 if graph.base_cost else 0.0
        tried: list[XlaAttempt] = []
        seconds = self.plain.seconds
        for tied in ways_to_tie(graph):
            made = self.step.compiled(schedule, tied)
            tried.append(XlaAttempt(schedule, tied, len(schedule.steps) - graph.n, overhead, made.memory))
            seconds += made.seconds
            if made.memory.peak_bytes <= allowed:
                break
        best = min(tried, key=lambda attempt: attempt.memory.peak_bytes)
        return FittedStep(result, XlaFit(self.plain.memory, allowed, best, tuple(tried), seconds))

    def _solved(self, graph: Graph, asked: int) -> Schedule | None:
        solver = self._solver.for_a_share(self._patience.share)
        try:
            found = solver.solve_above_minimum(graph, asked)
        except BudgetBelowMinimumError:
            return None
        self._patience.note(found)
        return self._kept(graph, self._in_segments(graph, found))

    def _in_segments(self, graph: Graph, result: SolveResult) -> SolveResult:
        solver = self._solver
        if solver.name != "auto":
            return result
        heard = Following(graph, solver.report, solver.cancelled)
        return in_segments(
            graph, result, options=solver.options, listener=heard, constraints=solver.constraints
        )

    def _whole(self, graph: Graph, asked: int) -> list[Schedule]:
        if self._solver.name != "auto":
            return []
        limits = self._solver.constraints
        if limits is not None and not limits.is_empty:
            return []
        kept = [self._kept(graph, found) for found in whole_segments(graph, asked)]
        return [schedule for schedule in kept if schedule is not None]

    def _least(self, graph: Graph) -> Schedule:
        found = self._kept(graph, self._solver.solve(graph, self._solver.minimum_bytes(graph)))
        known = Schedule.plain(graph) if found is None else found
        return lowered(graph, known, self._solver.bound_bytes(graph), partial(self._solved, graph))

    def _kept(self, graph: Graph, result: SolveResult) -> Schedule | None:
        self._results.append(result if graph is self.step.graph else _of(self.step.graph, result))
        return result.schedule

    def _result_of(self, schedule: Schedule | None) -> SolveResult:
        """Return what solving gave ``schedule``; else it is the plain order."""
        graph = self.step.graph
        for result in self._results:
            if schedule is not None and schedule.same_steps(result.schedule):
                return result
        return solve(graph, keep_everything_peak(graph), solver="keep-all")


def _of(graph: Graph, result: SolveResult) -> SolveResult:
    """Return a result as one of ``graph``, which has the same ops.

    What the solver proved was of a graph that counts less, so only the cost of all ops is a bound.
    """
    if result.schedule is None:
        return result
    schedule = Schedule.of(graph, result.schedule.steps)
    replayed = simulate(graph, schedule)
    return replace(
        result,
        schedule=schedule,
        status=SolveStatus.FEASIBLE,
        budget_bytes=max(result.budget_bytes, replayed.peak_bytes),
        peak_bytes=replayed.peak_bytes,
        lower_bound=graph.base_cost,
        assumptions=(),
    )
