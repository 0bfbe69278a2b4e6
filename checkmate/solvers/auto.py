"""The default: keep everything where that fits, otherwise the fast heuristics; never a claim without a proof."""

from __future__ import annotations

from dataclasses import replace

from checkmate.ir.result import SolveResult
from checkmate.solvers.greedy import GreedySolver
from checkmate.solvers.keep_all import KeepAllSolver
from checkmate.solvers.problem import Listener, Problem, SolveOptions


class AutoSolver:
    """Keep-all where it fits (optimal), else greedy."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The best schedule found within the time limit."""
        plain = KeepAllSolver().solve(problem, options, listener)
        if plain.status.has_schedule:
            return replace(plain, solver="auto")
        return replace(GreedySolver().solve(problem, options, listener), solver="auto")
