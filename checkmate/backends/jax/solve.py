"""Which solver makes the schedules of a JAX step."""

from __future__ import annotations

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.planning.deterministic_solve import solve_counted
from checkmate.planning.segments import in_segments
from checkmate.planning.solving import solve
from checkmate.solvers.problem import Listener, SolveOptions


def solve_for_xla(
    graph: Graph,
    budget_bytes: int,
    *,
    platform: str,
    solver: str,
    options: SolveOptions,
    listener: Listener | None = None,
) -> SolveResult:
    """Return the schedule to compile for a budget of the graph's bytes.

    ``solver``: one that was asked for; ``auto`` leaves the choice to this. It is the same each time, but
    where ``options`` count seconds only and the machine is slow. On a CPU all steps wait, so runs of
    recomputations are nothing special.

    Raises:
        As ``solve``.
    """
    heard = listener or Listener()
    if solver != "auto" or options.moves is not None:
        return solve(graph, budget_bytes, solver=solver, options=options, listener=heard)
    found = solve_counted(graph, budget_bytes, options=options, listener=heard)
    return found if platform == "cpu" else in_segments(graph, found, options=options, listener=heard)
