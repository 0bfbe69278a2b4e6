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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.solvers.baselines.candidates import cheapest_that_fits, forward_bytes, not_a_chain
from checkmate.solvers.problem import Listener, Problem, SolveOptions
from checkmate.solvers.shared.articulation import articulation_points, forward_end, is_forward_chain
from checkmate.solvers.shared.retention import steps_with_checkpoints, without_useless

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
