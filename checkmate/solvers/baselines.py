"""Chen et al.'s checkpointing (arXiv 1604.06174) and its generalizations.

Checkpoints are every √n-th op, or the ends of segments of equal memory. The originals are for chains;
Checkmate's comparison generalizes them (Jain et al., table 1 and appendix B):

* *Articulation points*: only forward ops that no dependency reaches over are candidates.
* *Linearized*: every forward op of the given order is a candidate.

The forward pass keeps the chosen ops' outputs only. In the backward pass a segment is recomputed once, by the
least chain that its backward ops need, and held until they have read it. On a chain all three are Chen's own.

What lies behind the last checkpoint would be recomputed as soon as it was dropped. A schedule that keeps it
needs no more memory, so it is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult, SolveStatus
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.certify import concluded, with_schedule, without_schedule
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.retention import (
    articulation_points,
    forward_end,
    is_forward_chain,
    steps_with_checkpoints,
    without_useless,
)
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
    return concluded(
        problem,
        name,
        best,
        listener,
        nothing=f"the smallest peak that {name} reaches is {format_bytes(least)}, over the budget",
        seconds=time.perf_counter() - started,
        statistics=None if best is None else {"schedules_tried": tried},
    )


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


_SEGMENT_SIZES = 24  # how many sizes the greedy variants try ("search over parameter b", table 1)


def all_forward(graph: Graph) -> list[int]:
    """Return the candidates of the linearized variants."""
    return list(range(forward_end(graph)))


def every_sqrt(graph: Graph, candidates: Sequence[int]) -> Iterator[set[int]]:
    """Yield one set: about √n of the candidates, evenly spaced."""
    stride = max(1, round(math.sqrt(len(candidates))))
    yield set(candidates[stride - 1 :: stride])


def by_segment_size(graph: Graph, candidates: Sequence[int]) -> Iterator[set[int]]:
    """Yield the sets of Chen's greedy algorithm for a range of segment sizes.

    This is their algorithm 3: a candidate ends a segment once the segment exceeds the size.
    """
    written = forward_bytes(graph, forward_end(graph))
    total = sum(written)
    allowed = set(candidates)
    tried: set[frozenset[int]] = set()
    for size in np.geomspace(max(1, total // 400), max(1, total), _SEGMENT_SIZES):
        chosen: set[int] = set()
        segment = 0
        for op, bytes_ in enumerate(written):
            segment += bytes_
            if segment > size and op in allowed:
                chosen.add(op)
                segment = 0
        if frozenset(chosen) not in tried:
            tried.add(frozenset(chosen))
            yield chosen


@dataclass(frozen=True)
class ChenSolver:
    """Try sets of checkpoints; keep the cheapest schedule that fits."""

    name: str
    candidates: Callable[[Graph], list[int]]
    choices: Callable[[Graph, Sequence[int]], Iterator[set[int]]]
    chain_only: bool = False

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return its cheapest schedule within the budget.

        If none fits, the result is LIMIT with the least peak among them.
        """
        graph = problem.graph
        if self.chain_only and not is_forward_chain(graph):
            return not_a_chain(problem, self.name, f"{self.name}-ap or {self.name}-linear")
        sets = self.choices(graph, self.candidates(graph))
        schedules = (checkpointed(graph, chosen) for chosen in sets)
        return cheapest_that_fits(problem, self.name, schedules, options, listener)


def checkpointed(graph: Graph, chosen: set[int]) -> list[int]:
    """Return the steps for a set of checkpoints."""
    end = forward_end(graph)
    held = chosen | set(range(max(chosen, default=-1) + 1, end))
    return without_useless(graph, steps_with_checkpoints(graph, lambda op: held if op == end else None))


def chen_sqrt() -> ChenSolver:
    """Return the solver with √n checkpoints, for chains."""
    return ChenSolver("chen-sqrt", all_forward, every_sqrt, chain_only=True)


def chen_sqrt_ap() -> ChenSolver:
    """Return the solver with √n checkpoints among the articulation points."""
    return ChenSolver("chen-sqrt-ap", articulation_points, every_sqrt)


def chen_sqrt_linear() -> ChenSolver:
    """Return the solver with √n checkpoints, linearized."""
    return ChenSolver("chen-sqrt-linear", all_forward, every_sqrt)


def chen_greedy() -> ChenSolver:
    """Return the solver with segments of equal memory, for chains."""
    return ChenSolver("chen-greedy", all_forward, by_segment_size, chain_only=True)


def chen_greedy_ap() -> ChenSolver:
    """Return the solver with equal segments between articulation points."""
    return ChenSolver("chen-greedy-ap", articulation_points, by_segment_size)


def chen_greedy_linear() -> ChenSolver:
    """Return the solver with segments of equal memory, linearized."""
    return ChenSolver("chen-greedy-linear", all_forward, by_segment_size)


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


_MOST_COUNTS = 48  # the most numbers of slots that are tried
# Per op; beyond this, a linearized graph with branches is hopeless and its schedule is slow to build.
_MOST_STEPS = 400


def beta(slots: int, repeats: int) -> int:
    """Return C(slots + repeats, slots), the length of a chain.

    It is the longest chain that ``slots`` reverse with no step repeated more than ``repeats`` times.
    """
    return math.comb(slots + repeats, slots) if slots >= 0 and repeats >= 0 else 0


def repeats_needed(length: int, slots: int) -> int:
    """Return the least r with β(slots, r) >= ``length``."""
    repeats = 0
    while beta(slots, repeats) < length:
        repeats += 1
    return repeats


def next_slot(length: int, slots: int) -> int:
    """Return how many steps to advance before filling the next slot.

    ``length`` > 1 is the chain's length, and ``slots`` > 1 include the slot of its start.
    """
    repeats = repeats_needed(length, slots)
    return max(1, beta(slots, repeats - 2), length - beta(slots - 1, repeats))


def held_slots(length: int, slots: int) -> list[frozenset[int]]:
    """Return, per position of the chain, the positions whose outputs are held.

    They are held while the position is reversed; there are at most ``slots`` - 1 of them.
    """
    held: list[frozenset[int]] = [frozenset()] * length
    stack = [(0, length, slots, frozenset[int]())]
    while stack:
        start, end, free, kept = stack.pop()
        while end - start > 1 and free > 1:
            middle = start + next_slot(end - start, free)
            # The part before the slot is reversed after the part behind it; the slot is free again then.
            stack.append((start, middle, free, kept))
            kept = kept | {middle - 1}
            start, free = middle, free - 1
        for position in range(start, end):
            held[position] = kept
    return held


class GriewankSolver:
    """Find the cheapest number of slots whose schedule fits the budget."""

    name = "griewank"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """Return its cheapest schedule within the budget.

        If none fits, the result is LIMIT with the least peak among them.
        """
        return cheapest_that_fits(problem, self.name, _schedules(problem.graph), options, listener)


def _schedules(graph: Graph) -> Iterator[list[int]]:
    """Yield schedules from many slots to few: less memory and more steps."""
    length = forward_end(graph)
    reversed_at = _reversal_positions(graph, length)
    most = max(1, length)
    counts = sorted({round(count) for count in np.geomspace(1, most, min(most, _MOST_COUNTS))}, reverse=True)
    for count in counts:
        held = held_slots(length, count)
        steps = _reversed_steps(graph, held, reversed_at)
        yield without_useless(graph, steps)
        if len(steps) > _MOST_STEPS * graph.n:
            return


def _reversed_steps(graph: Graph, held: list[frozenset[int]], reversed_at: list[int]) -> list[int]:
    # If a slot has the position's own output, that is read before the slot is free again. Revolve itself
    # evaluates it once more.
    slots = [kept | {position} for position, kept in enumerate(held)]
    return steps_with_checkpoints(graph, lambda op: slots[reversed_at[op]] if slots else None)


def _reversal_positions(graph: Graph, length: int) -> list[int]:
    """Return, per op behind the forward pass, the chain position it reverses.

    That is the latest forward op it reads; positions never rise.
    """
    sources = graph.predecessors.lists()
    positions = [0] * graph.n
    current = max(0, length - 1)
    for op in range(length, graph.n):
        read = [source for source in sources[op] if source < length]
        current = min(current, max(read, default=current))
        positions[op] = current
    return positions


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
