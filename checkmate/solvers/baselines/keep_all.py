"""The plain step: compute every op once, in the given order."""

from __future__ import annotations

import time

from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.units import format_bytes


class KeepAllSolver:
    """Keep every value until its last use.

    The cost is optimal, but the schedule is feasible only if the plain step fits.
    """

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return the plain step, or LIMIT if it does not fit. LIMIT says nothing about other schedules."""
        started = time.perf_counter()
        graph = problem.graph
        schedule = Schedule.plain(graph)
        peak = simulate(graph, schedule).peak_bytes
        fits = peak <= problem.budget_bytes
        return SolveResult(
            status=SolveStatus.OPTIMAL if fits else SolveStatus.LIMIT,
            solver="keep-all",
            budget_bytes=problem.budget_bytes,
            base_cost=graph.base_cost,
            schedule=schedule if fits else None,
            cost=graph.base_cost if fits else None,
            peak_bytes=peak if fits else None,
            lower_bound=graph.base_cost,
            solve_seconds=time.perf_counter() - started,
            message="" if fits else f"keeping everything needs {format_bytes(peak)}",
        )
