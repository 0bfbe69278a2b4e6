"""Solve by counted moves instead of the clock.

The same graph and budget then give the same schedule, on a busy machine too.
"""

from __future__ import annotations

from dataclasses import replace

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.planning.solving import solve
from checkmate.solvers.problem import Listener, SolveOptions

_PER_SECOND = 10_000_000  # moves times ops: what a busy machine does in a second at least
_PER_PAIR = 20  # moves for each pair of ops: on small graphs more find nothing more


def solve_counted(
    graph: Graph, budget_bytes: int, *, options: SolveOptions, listener: Listener
) -> SolveResult:
    """Return the schedule that counted moves find within a budget.

    It makes about as many moves as the time limit has room for; only on a machine that is far slower does
    the limit itself end it. Where it finds nothing, ``auto`` is asked, which also proves that there is none.

    Raises:
        As ``solve``.
    """
    counted = replace(options, moves=_moves(graph, options.time_limit_s))
    found = solve(graph, budget_bytes, solver="local-search", options=counted, listener=listener)
    if found.schedule is not None:
        return found
    return solve(graph, budget_bytes, solver="auto", options=options, listener=listener)


def _moves(graph: Graph, seconds: float) -> int:
    return max(1, min(int(seconds * _PER_SECOND / graph.n), _PER_PAIR * graph.n**2))
