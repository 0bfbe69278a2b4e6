"""The default solver: cheap proofs, and heuristics for schedules.

Both work until they meet or time is up. Two cases are settled at once: a budget too small for some op, and a
budget that needs no recomputation. Otherwise greedy gives a first schedule, local search improves it, and the
chain program is asked once if the network is a chain. Path cuts raise a lower bound that holds for any order;
the schedules that the cuts' programs describe are fitted into the budget and given to the search. The prover
has a process of its own. With one worker, the two take turns.
"""

from __future__ import annotations

import time
from dataclasses import replace

from checkmate.ir.result import SolveResult
from checkmate.solvers.baselines.keep_all import KeepAllSolver
from checkmate.solvers.bounds import below_working_set
from checkmate.solvers.compile.cache import is_compiled
from checkmate.solvers.compile.compilation import Compilation
from checkmate.solvers.pathcut.in_process import BackgroundProver
from checkmate.solvers.pathcut.in_thread import background_prover
from checkmate.solvers.portfolio.run import NAME, Run
from checkmate.solvers.portfolio.while_compiling import answer_while_compiling, without_search
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.repeats.start import BlocksOf
from checkmate.solvers.sequence.local_search import warm_up


class AutoSolver:
    """Run greedy, local search and path cuts together.

    OPTIMAL and INFEASIBLE are proofs for any order and recomputation.
    """

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return the best schedule and the best bound within the time limit."""
        started = time.perf_counter()
        settled = _settle(problem, options, listener, started)
        if settled is not None:
            return settled
        if not is_compiled():
            compilation = Compilation()  # once per machine; this does not count as solving
            options = answer_while_compiling(compilation, problem, options, listener)
            if compilation.running:  # it goes on for the next solve
                return without_search(problem, options, NAME, seconds=time.perf_counter() - started)
        with background_prover(problem.graph) as prover:
            return solve_with(problem, options, listener, prover)


def solve_with(
    problem: Problem,
    options: SolveOptions,
    listener: Listener,
    prover: BackgroundProver,
    *,
    bound: float = 0.0,
    blocks: BlocksOf | None = None,
) -> SolveResult:
    """Solve with the caller's prover and a lower bound that is known already.

    The prover stays warm for the next budget. ``blocks``: of the graph, if the caller solves it again.
    """
    started = time.perf_counter()
    settled = _settle(problem, options, listener, started)
    if settled is not None:
        return settled
    warm_up()
    run = Run(problem, options, listener, prover, bound, blocks or BlocksOf(problem.graph))
    try:
        if options.workers > 1:
            run.side_by_side()
        else:
            run.in_turns()
    finally:
        prover.stop()
    return run.result(time.perf_counter() - started)


def _settle(
    problem: Problem, options: SolveOptions, listener: Listener, started: float
) -> SolveResult | None:
    """Return the answer if it takes no search."""
    graph = problem.graph
    infeasible = below_working_set(problem, NAME)
    if infeasible is not None:
        return replace(infeasible, solve_seconds=time.perf_counter() - started)
    plain = KeepAllSolver().solve(problem, options, listener)
    if plain.schedule is None:
        return None
    listener.incumbent(plain.schedule.steps.tolist(), graph.base_cost)
    return replace(plain, solver=NAME, solve_seconds=time.perf_counter() - started)
