"""Griewank & Walther's binomial checkpointing (*revolve*, ACM TOMS 26(1), 2000), for chains of equal steps.

``c`` snapshots are placed so that a chain of length ``n`` is reversed with the fewest forward steps: with
β(c, r) = C(c + r, c), a chain of at most β(c, r) steps needs no step more than r times. Other graphs are linearized: the forward
ops in their given order are taken for a chain, which costs more than it should where the graph branches.
"""

from __future__ import annotations

import math
import time
from functools import cache

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.simulate import simulate
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import forward_end, op_sources, steps_with_checkpoints
from checkmate.solvers.verdict import with_schedule, without_schedule
from checkmate.units import format_bytes

_MOST_STEPS = 400  # per op; beyond this a linearized branchy graph is hopeless, and building its schedule slow


@cache
def beta(snapshots: int, repeats: int) -> int:
    """C(snapshots + repeats, snapshots); 0 where either is negative."""
    return math.comb(snapshots + repeats, snapshots) if snapshots >= 0 and repeats >= 0 else 0


def snapshot_position(length: int, snapshots: int) -> int:
    """Where in a chain of ``length`` > 1 the next of ``snapshots`` free ones goes, so that the steps are fewest."""
    if snapshots <= 1:
        return length - 1 if snapshots == 1 else 0
    repeats = next(r for r in range(1, length + 1) if beta(snapshots, r) >= length)
    low = max(beta(snapshots, repeats - 2), length - beta(snapshots - 1, repeats), 1)
    high = min(beta(snapshots, repeats - 1), length - beta(snapshots - 1, repeats - 1), length - 1)
    return min(low, high) if high >= 1 else 1


def held_snapshots(length: int, snapshots: int) -> list[frozenset[int]]:
    """Per position of the chain, the positions whose outputs are held when it is reversed."""
    held: list[frozenset[int]] = [frozenset()] * length
    stack = [(0, length, snapshots, frozenset[int]())]
    while stack:
        start, end, free, kept = stack.pop()
        while end - start > 1 and free > 0:
            middle = start + snapshot_position(end - start, free)
            # The part before the snapshot is reversed after the part behind it, with the snapshot free again.
            stack.append((start, middle, free, kept))
            kept = kept | {middle - 1}
            start, free = middle, free - 1
        for position in range(start, end):
            held[position] = kept
    return held


class GriewankSolver:
    """The largest number of snapshots whose schedule fits the budget."""

    name = "griewank"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The cheapest of its schedules within the budget, or LIMIT with the least peak among them."""
        started = time.perf_counter()
        graph = problem.graph
        length = forward_end(graph)
        reversed_at = _reversal_positions(graph, length)
        counts = sorted({max(1, round(c)) for c in np.geomspace(1, max(1, length), 24)}, reverse=True)
        best: tuple[float, list[int]] | None = None
        least: int | None = None
        for count in counts:
            if listener.cancelled() or time.perf_counter() - started > options.time_limit_s:
                break
            steps = _reversed_steps(graph, held_snapshots(length, count), reversed_at)
            if len(steps) > _MOST_STEPS * graph.n:
                break
            peak = simulate(graph, Schedule.of(graph, steps)).peak_bytes
            least = peak if least is None else min(least, peak)
            cost = float(graph.cost[steps].sum())
            if peak <= problem.budget_bytes and (best is None or cost < best[0]):
                best = (cost, steps)
        seconds = time.perf_counter() - started
        if best is not None:
            return with_schedule(problem, self.name, best[1], lower_bound=None, seconds=seconds)
        if least is None:
            return without_schedule(problem, self.name, SolveStatus.CANCELLED, "stopped", seconds=seconds)
        sentence = f"the smallest peak of {self.name} is {format_bytes(least)}, over the budget"
        return without_schedule(problem, self.name, SolveStatus.LIMIT, sentence, seconds=seconds)


def _reversed_steps(graph: Graph, held: list[frozenset[int]], reversed_at: list[int]) -> list[int]:
    return steps_with_checkpoints(graph, lambda op: held[reversed_at[op]])


def _reversal_positions(graph: Graph, length: int) -> list[int]:
    """Per op behind the forward pass, the chain position it reverses: the latest forward op it reads, never rising."""
    sources = op_sources(graph)
    positions = [0] * graph.n
    current = max(0, length - 1)
    for op in range(length, graph.n):
        read = [source for source in sources[op] if source < length]
        current = min(current, max(read, default=current))
        positions[op] = current
    return positions
