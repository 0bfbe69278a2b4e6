"""Chen et al.'s checkpoints as schedules for a compiler, several at once."""

from __future__ import annotations

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.baselines.chen import by_segment_size, checkpointed
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.problem import Problem
from checkmate.solvers.shared.articulation import articulation_points


def whole_segments(graph: Graph, budget_bytes: int) -> list[SolveResult]:
    """Return schedules that recompute all between checkpoints.

    They are Chen et al.'s (arXiv 1604.06174, algorithm 3) for articulation points, as ``jax.checkpoint`` and
    ``tf.recompute_grad`` make them around blocks. All request at most ``budget_bytes``; the cheapest is the
    first.
    """
    found = []
    for chosen in by_segment_size(graph, articulation_points(graph)):
        steps = checkpointed(graph, chosen)
        replayed = simulate(graph, Schedule.of(graph, steps))
        if replayed.peak_bytes <= budget_bytes:
            found.append((float(replayed.cost), steps))
    return [_as_result(graph, budget_bytes, steps) for _, steps in sorted(found)]


def _as_result(graph: Graph, budget_bytes: int, steps: list[int]) -> SolveResult:
    problem = Problem(graph, budget_bytes)
    return with_schedule(problem, "chen-greedy-ap", steps, lower_bound=graph.base_cost, seconds=0.0)
