"""Griewank & Walther's binomial checkpointing, for chains of equal steps.

(*Revolve*, algorithm 799, ACM TOMS 26(1), 2000.) Slots are filled so that a chain is reversed with the fewest
forward steps. With β(c, r) = C(c + r, c), c slots reverse a chain of β(c, r) steps and repeat none more than
r times; the place of the next slot has a closed form. The chain's input is always live, and is the first
slot. Other graphs are linearized: the forward ops in their given order are treated as a chain. That costs
more than it should if the graph branches (Jain et al. compare it on chains only).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.solvers.baselines.candidates import cheapest_that_fits
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.shared.articulation import forward_end
from checkmate.solvers.shared.retention import steps_with_checkpoints, without_useless

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
