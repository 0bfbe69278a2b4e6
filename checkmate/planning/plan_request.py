"""What is wanted of a step that trains within a budget."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from checkmate.errors import UsageError
from checkmate.ir import Graph, Schedule, SolveResult
from checkmate.machine.plan_store import PlanStore
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.progress import Cancelled, Report
from checkmate.request import OnMiss, Target
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.registry import find_solver
from checkmate.terminal import progress_line
from checkmate.units import Budget


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """A request for a schedule of at most ``target`` requested bytes. ``seconds``: time limit; None: the
    user's own."""

    graph: Graph
    target: int
    start: Schedule | None = None
    seconds: float | None = None


@dataclass(frozen=True, eq=False)
class PlanRequest:
    """The user's wishes for a training step. ``quiet``: write neither progress nor a line per plan to
    standard error. ``store``: keeps plans for later runs; None: none are kept. ``wait``: training waits until
    the search is over. ``target``: what runs the step; None: as the model is compiled."""

    budget: Budget
    solver: ScheduleSolver
    on_miss: OnMiss = OnMiss.CLOSEST
    quiet: bool = False
    store: PlanStore | None = None
    wait: bool = True
    target: Target | None = None

    def tell(self, sentence: str) -> None:
        if not self.quiet:
            sys.stderr.write(f"checkmate: {sentence}\n")

    def progress(self) -> AbstractContextManager[Report]:
        return progress_line(quiet=self.quiet)

    def solver_for(self, report: Report, cancelled: Cancelled | None = None) -> ScheduleSolver:
        return replace(self.solver, report=report, cancelled=cancelled or self.solver.cancelled)

    def answer(self, asked: SolveRequest, report: Report, cancelled: Cancelled | None = None) -> SolveResult:
        solver = self.solver_for(report, cancelled)
        return solver.solve(asked.graph, asked.target, start=asked.start, seconds=asked.seconds)


def training_solver(name: str, options: SolveOptions | None, seconds: float) -> ScheduleSolver:
    """Return the solver for plans of a training; ``seconds`` for a solve where ``options`` are None."""
    if options is not None and not isinstance(options, SolveOptions):
        raise UsageError(
            f"options={options!r} are no checkmate.SolveOptions",
            hint="write options=checkmate.SolveOptions(time_limit_s=60)",
        )
    find_solver(name).load()  # a wrong name is reported now, not at the first batch
    return ScheduleSolver(name, options or SolveOptions(time_limit_s=seconds), counted=True)
