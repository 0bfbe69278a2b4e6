"""Known strategies: keep all, Chen et al., Griewank & Walther; each by a rule, without a bound.

Chen et al. (arXiv 1604.06174): checkpoints are every √n-th op, or the ends of segments of equal memory. The
originals are for chains; Checkmate's comparison generalizes them (Jain et al., table 1 and appendix B). With
*articulation points* only forward ops that no dependency reaches over are candidates; *linearized*, every
forward op of the given order is.

The forward pass keeps the chosen ops' outputs only. In the backward pass a segment is recomputed once, by the
least chain that its backward ops need, and held until they have read it. On a chain all three are Chen's own.
What lies behind the last checkpoint would be recomputed as soon as it was dropped, so it is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
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
    """Return the cheapest of the ``candidates`` (steps) that fits, else LIMIT with their least peak."""
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
    branches = f"{name} is for networks that are one chain of layers, but {problem.graph.name!r} branches"
    sentence = f"{branches}; use {instead}"
    return without_schedule(problem, name, SolveStatus.LIMIT, sentence, seconds=0.0)


def forward_bytes(graph: Graph, end: int) -> list[int]:
    """The bytes that each of the first ``end`` ops writes."""
    owned = graph.owner == range(graph.m)
    return [
        sum(graph.values[value].bytes for value in graph.ops[op].outputs if owned[value]) for op in range(end)
    ]


_SEGMENT_SIZES = 24  # how many sizes the greedy variants try ("search over parameter b", table 1)


def every_sqrt(candidates: Sequence[int]) -> set[int]:
    stride = max(1, round(math.sqrt(len(candidates))))
    return set(candidates[stride - 1 :: stride])


def by_segment_size(graph: Graph, candidates: Sequence[int]) -> Iterator[set[int]]:
    """Yield the sets of Chen's algorithm 3: a candidate ends a segment once it exceeds some size."""
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
    """Try sets of checkpoints; keep the cheapest schedule that fits.

    ``name``: ``chen-sqrt`` or ``chen-greedy``, which are for chains; with ``-ap`` the candidates are the
    articulation points, with ``-linear`` all forward ops of any graph.
    """

    name: str

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        graph, (_, rule, *among) = problem.graph, self.name.split("-")
        if not among and not is_forward_chain(graph):
            return not_a_chain(problem, self.name, f"{self.name}-ap or {self.name}-linear")
        candidates = articulation_points(graph) if among == ["ap"] else list(range(forward_end(graph)))
        sets = [every_sqrt(candidates)] if rule == "sqrt" else by_segment_size(graph, candidates)
        schedules = (checkpointed(graph, chosen) for chosen in sets)
        return cheapest_that_fits(problem, self.name, schedules, options, listener)


def checkpointed(graph: Graph, chosen: set[int]) -> list[int]:
    end = forward_end(graph)
    held = chosen | set(range(max(chosen, default=-1) + 1, end))
    return without_useless(graph, steps_with_checkpoints(graph, {end: held}))


chen_sqrt = partial(ChenSolver, "chen-sqrt")
chen_sqrt_ap = partial(ChenSolver, "chen-sqrt-ap")
chen_sqrt_linear = partial(ChenSolver, "chen-sqrt-linear")
chen_greedy = partial(ChenSolver, "chen-greedy")
chen_greedy_ap = partial(ChenSolver, "chen-greedy-ap")
chen_greedy_linear = partial(ChenSolver, "chen-greedy-linear")


class KeepAllSolver:
    """The plain step, of least cost, or LIMIT, which says nothing about other schedules."""

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        started = time.perf_counter()
        graph = problem.graph
        peak = simulate(graph, Schedule.plain(graph)).peak_bytes
        fits = peak <= problem.budget_bytes
        return SolveResult(
            status=SolveStatus.OPTIMAL if fits else SolveStatus.LIMIT,
            solver="keep-all",
            budget_bytes=problem.budget_bytes,
            base_cost=graph.base_cost,
            schedule=Schedule.plain(graph) if fits else None,
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
    """C(slots + repeats, slots): the longest chain that ``slots`` slots can reverse with each step repeated
    at most ``repeats`` times."""
    return math.comb(slots + repeats, slots) if slots >= 0 and repeats >= 0 else 0


def repeats_needed(length: int, slots: int) -> int:
    repeats = 0
    while beta(slots, repeats) < length:
        repeats += 1
    return repeats


def next_slot(length: int, slots: int) -> int:
    """How far to advance before filling the next slot; ``slots`` > 1 includes the one with the chain's
    start."""
    repeats = repeats_needed(length, slots)
    return max(1, beta(slots, repeats - 2), length - beta(slots - 1, repeats))


def held_slots(length: int, slots: int) -> list[frozenset[int]]:
    """Per position of the chain, the positions that are held while it is reversed: fewer than ``slots``."""
    held: list[frozenset[int]] = [frozenset()] * length
    stack = [(0, length, slots, frozenset[int]())]
    while stack:
        start, end, free, kept = stack.pop()
        while end - start > 1 and free > 1:
            middle = start + next_slot(end - start, free)
            # The part behind the new slot is reversed first; then the slot is free for the part before it.
            stack.append((start, middle, free, kept))
            kept = kept | {middle - 1}
            start, free = middle, free - 1
        for position in range(start, end):
            held[position] = kept
    return held


class GriewankSolver:
    """Binomial checkpointing (*revolve*, algorithm 799, ACM TOMS 26(1), 2000) for chains of equal steps.

    With β(c, r) = C(c + r, c), c slots reverse a chain of β(c, r) steps and repeat none more than r times;
    the place of the next slot has a closed form. The chain's input is always live, and is the first slot.
    Other graphs are linearized: the forward ops in their given order are treated as a chain.
    """

    name = "griewank"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        return cheapest_that_fits(problem, self.name, _schedules(problem.graph), options, listener)


def _schedules(graph: Graph) -> Iterator[list[int]]:
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
    later = range(len(slots), graph.n) if slots else ()
    return steps_with_checkpoints(graph, {op: slots[reversed_at[op]] for op in later})


def _reversal_positions(graph: Graph, length: int) -> list[int]:
    sources = graph.predecessors.lists()
    positions = [0] * graph.n
    current = max(0, length - 1)
    for op in range(length, graph.n):
        read = [source for source in sources[op] if source < length]
        current = min(current, max(read, default=current))
        positions[op] = current
    return positions


def whole_segments(graph: Graph, budget_bytes: int) -> list[SolveResult]:
    """Schedules within the budget, the cheapest first, that recompute all between checkpoints.

    They are Chen et al.'s for articulation points, as ``jax.checkpoint`` and ``tf.recompute_grad`` make them
    around blocks.
    """
    found = []
    for chosen in by_segment_size(graph, articulation_points(graph)):
        steps = checkpointed(graph, chosen)
        replayed = simulate(graph, Schedule.of(graph, steps))
        if replayed.peak_bytes <= budget_bytes:
            found.append((float(replayed.cost), steps))
    problem = Problem(graph, budget_bytes)
    return [
        with_schedule(problem, "chen-greedy-ap", steps, lower_bound=graph.base_cost, seconds=0.0)
        for _, steps in sorted(found)
    ]
