"""Choose the cheapest schedule that fits, for checkpointing baselines."""

from __future__ import annotations

import time
from collections.abc import Iterable

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.certify import cancelled_before, with_schedule, without_schedule
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.units import format_bytes


def cheapest_that_fits(
    problem: Problem, name: str, candidates: Iterable[list[int]], options: SolveOptions, listener: Listener
) -> SolveResult:
    """Return the cheapest of the ``candidates`` (steps) within the budget.

    If none fits, the result is LIMIT with the least peak among them. The candidates are tried until the time
    limit or until cancelled. They say nothing about other schedules, so there is no bound.
    """
    started = time.perf_counter()
    graph = problem.graph
    best: list[int] | None = None
    cost, least, tried = 0.0, 0, 0
    for steps in candidates:
        tried += 1
        peak = simulate(graph, Schedule.of(graph, steps)).peak_bytes
        least = peak if tried == 1 else min(least, peak)
        its_cost = float(graph.cost[steps].sum())
        if peak <= problem.budget_bytes and (best is None or its_cost < cost):
            best, cost = steps, its_cost
            listener.incumbent(steps, cost)
        if listener.cancelled() or time.perf_counter() - started > options.time_limit_s:
            break
    seconds = time.perf_counter() - started
    if best is not None:
        statistics = {"schedules_tried": tried}
        return with_schedule(problem, name, best, lower_bound=None, seconds=seconds, statistics=statistics)
    if listener.cancelled():
        return cancelled_before(problem, name, seconds)
    sentence = f"the smallest peak that {name} reaches is {format_bytes(least)}, over the budget"
    return without_schedule(problem, name, SolveStatus.LIMIT, sentence, seconds=seconds)


def not_a_chain(problem: Problem, name: str, instead: str) -> SolveResult:
    """Return LIMIT, for a method that is defined for chains only."""
    branches = f"{name} is for networks that are one chain of layers, but {problem.graph.name!r} branches"
    sentence = f"{branches}; use {instead}"
    return without_schedule(problem, name, SolveStatus.LIMIT, sentence, seconds=0.0)


def forward_bytes(graph: Graph, end: int) -> list[int]:
    """Return the bytes that each of the first ``end`` ops writes."""
    owned = graph.owner == range(graph.m)
    return [
        sum(graph.values[value].bytes for value in graph.ops[op].outputs if owned[value]) for op in range(end)
    ]
