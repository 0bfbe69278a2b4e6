"""Trace a known strategy's schedules, from keep-everything down."""

from __future__ import annotations

import time
from dataclasses import replace

from checkmate import planning
from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled, stop_if
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.listeners import CancelListener
from checkmate.solvers.problem import SolveOptions, SolverFeature
from checkmate.solvers.registry import find_solver

SHORTEST_S = 0.02  # a shorter solve finds nothing


def trace(
    graph: Graph,
    name: str,
    points: list[FrontierPoint],
    options: SolveOptions,
    *,
    until: float,
    cancelled: Cancelled,
) -> str:
    """Add the schedules of solver ``name`` to ``points``.

    They come by falling peak and rising cost. Return why it ended early, or "". Each solve asks for less than
    the last one's peak, until ``until`` (``time.perf_counter``).

    Raises:
        CancelledError: the user cancelled; ``points`` has what was found. SolveError: the solver cannot be
        run.
    """
    once = SolverFeature.IGNORES_BUDGET in find_solver(name).features
    budget = planning.keep_everything_peak(graph)
    while True:
        stop_if(cancelled)
        left = until - time.perf_counter()
        if left < SHORTEST_S:
            return "not finished in the time given"
        asked = replace(options, time_limit_s=left, start=None)
        result = planning.solve(graph, budget, solver=name, options=asked, listener=CancelListener(cancelled))
        stop_if(cancelled)
        if result.schedule is None or result.peak_bytes is None or result.cost is None:
            return "" if points else result.message
        if points and result.cost <= points[-1].cost:
            points.pop()  # the new one is as cheap and smaller
        made = (result.schedule, result.peak_bytes, result.cost, budget, name, result.solve_seconds)
        points.append(FrontierPoint(*made))
        if once:
            return ""
        budget = result.peak_bytes - 1
