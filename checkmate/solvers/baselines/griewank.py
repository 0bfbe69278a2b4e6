"""Griewank & Walther's binomial checkpointing (*revolve*, algorithm 799, ACM TOMS 26(1), 2000), for chains of equal steps.

Slots are filled so that a chain is reversed with the fewest forward steps: with β(c, r) = C(c + r, c), c slots reverse a chain of
β(c, r) steps repeating none more than r times, and the next slot's place has a closed form. The chain's input, which is always
there, is the first slot. Other graphs are linearized: the forward ops in their given order are taken for a chain, which costs more
than it should where the graph branches (Jain et al. compare it on chains only).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.solvers.baselines.cheapest import cheapest_that_fits
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.shared.articulation import forward_end
from checkmate.solvers.shared.retention import steps_with_checkpoints, without_useless

_MOST_COUNTS = 48  # numbers of slots that are tried
_MOST_STEPS = (
    400  # per op; beyond this a linearized branchy graph is hopeless, and building its schedule slow
)


def beta(slots: int, repeats: int) -> int:
    """C(slots + repeats, slots): the longest chain that ``slots`` reverse with no step repeated more than ``repeats`` times."""
    return math.comb(slots + repeats, slots) if slots >= 0 and repeats >= 0 else 0


def repeats_needed(length: int, slots: int) -> int:
    """The least r with β(slots, r) >= ``length``."""
    repeats = 0
    while beta(slots, repeats) < length:
        repeats += 1
    return repeats


def next_slot(length: int, slots: int) -> int:
    """How many steps of a chain of ``length`` > 1 to advance before filling the next slot, when ``slots`` > 1 include its start's."""
    repeats = repeats_needed(length, slots)
    return max(1, beta(slots, repeats - 2), length - beta(slots - 1, repeats))


def held_slots(length: int, slots: int) -> list[frozenset[int]]:
    """Per position of the chain, the positions whose outputs are held when it is reversed; at most ``slots`` - 1 each."""
    held: list[frozenset[int]] = [frozenset()] * length
    stack = [(0, length, slots, frozenset[int]())]
    while stack:
        start, end, free, kept = stack.pop()
        while end - start > 1 and free > 1:
            middle = start + next_slot(end - start, free)
            # The part before the slot is reversed after the part behind it, with the slot free again.
            stack.append((start, middle, free, kept))
            kept = kept | {middle - 1}
            start, free = middle, free - 1
        for position in range(start, end):
            held[position] = kept
    return held


class GriewankSolver:
    """The cheapest number of slots whose schedule fits the budget."""

    name = "griewank"

    def solve(self, problem: Problem, options: SolveOptions, listener: Listener) -> SolveResult:
        """The cheapest of its schedules within the budget, or LIMIT with the least peak among them."""
        return cheapest_that_fits(problem, self.name, _schedules(problem.graph), options, listener)


def _schedules(graph: Graph) -> Iterator[list[int]]:
    """From many slots to few: ever less memory and ever more steps."""
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
    # The position's own output, if a slot has it, is read before its slot is free again; revolve itself evaluates it once more.
    slots = [kept | {position} for position, kept in enumerate(held)]
    return steps_with_checkpoints(graph, lambda op: slots[reversed_at[op]] if slots else None)


def _reversal_positions(graph: Graph, length: int) -> list[int]:
    """Per op behind the forward pass, the chain position it reverses: the latest forward op it reads, never rising."""
    sources = graph.predecessors.lists()
    positions = [0] * graph.n
    current = max(0, length - 1)
    for op in range(length, graph.n):
        read = [source for source in sources[op] if source < length]
        current = min(current, max(read, default=current))
        positions[op] = current
    return positions
