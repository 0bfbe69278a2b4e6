"""Chen et al.'s checkpointing (arXiv 1604.06174): every √n-th op, or segments of equal memory, and their generalizations.

The originals are for chains. *Linearized*: every forward op of the given order is a candidate, whatever the graph looks like.
*Articulation points*: only ops through which everything later must pass are candidates, so a segment never reaches over its
ends. On a chain all of them are Chen's own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.simulate import simulate
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import forward_end, steps_with_checkpoints
from checkmate.solvers.verdict import with_schedule, without_schedule
from checkmate.units import format_bytes

_SEGMENT_SIZES = 24  # segment sizes that the greedy variants try


def all_forward(graph: Graph) -> list[int]:
    """Candidates of the linearized variants."""
    return list(range(forward_end(graph)))


def articulation_points(graph: Graph) -> list[int]:
    """Forward ops that no dependency of the forward pass reaches over: all that follows depends on the past through them."""
    end = forward_end(graph)
    reach = [max((r for r in row if r < end), default=i) for i, row in enumerate(graph.successors.lists()[:end])]
    points = []
    furthest = -1
    for op in range(end):
        if furthest <= op:
            points.append(op)
        furthest = max(furthest, reach[op])
    return points


def every_sqrt(graph: Graph, candidates: Sequence[int]) -> Iterator[set[int]]:
    """One set: about √n of the candidates, evenly spaced."""
    stride = max(1, round(math.sqrt(len(candidates))))
    yield set(candidates[stride - 1 :: stride])


def by_segment_size(graph: Graph, candidates: Sequence[int]) -> Iterator[set[int]]:
    """Chen's greedy for a range of segment sizes: a candidate ends a segment once its bytes exceed the size."""
    written = [sum(graph.values[v].bytes for v in graph.ops[op].outputs) for op in range(forward_end(graph))]
    total = sum(written)
    if total == 0:
        yield set(candidates)
        return
    allowed = set(candidates)
    for size in np.geomspace(max(1, total // 400), total, _SEGMENT_SIZES):
        chosen: set[int] = set()
        segment = 0
        for op, size_of_op in enumerate(written):
            segment += size_of_op
            if segment > size and op in allowed:
                chosen.add(op)
                segment = 0
        yield chosen


def _checkpointed(graph: Graph, chosen: set[int]) -> list[int]:
    """All but ``chosen`` is dropped once, after the forward pass; a recomputed segment stays until it has been read."""
    first = forward_end(graph)
    return steps_with_checkpoints(graph, lambda op: chosen if op == first else None)


@dataclass(frozen=True)
class _ChenSolver:
    """Tries sets of checkpoints and keeps the cheapest schedule that fits."""

    name: str
    candidates: Callable[[Graph], list[int]]
    choices: Callable[[Graph, Sequence[int]], Iterator[set[int]]]

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The cheapest of its schedules within the budget, or LIMIT with the least peak among them."""
        started = time.perf_counter()
        graph = problem.graph
        best: tuple[float, list[int]] | None = None
        least: int | None = None
        for chosen in self.choices(graph, self.candidates(graph)):
            if listener.cancelled() or time.perf_counter() - started > options.time_limit_s:
                break
            steps = _checkpointed(graph, chosen)
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


def chen_sqrt() -> _ChenSolver:
    """√n checkpoints, linearized."""
    return _ChenSolver("chen-sqrt", all_forward, every_sqrt)


def chen_sqrt_ap() -> _ChenSolver:
    """√n checkpoints among the articulation points."""
    return _ChenSolver("chen-sqrt-ap", articulation_points, every_sqrt)


def chen_greedy() -> _ChenSolver:
    """Segments of equal memory, linearized."""
    return _ChenSolver("chen-greedy", all_forward, by_segment_size)


def chen_greedy_ap() -> _ChenSolver:
    """Segments of equal memory between articulation points."""
    return _ChenSolver("chen-greedy-ap", articulation_points, by_segment_size)
