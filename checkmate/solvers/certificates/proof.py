"""Prove a bound case by case, so that each case is one sum of rows.

The case that proves least is split on an unknown that the program leaves between 0 and 1. What all cases
prove holds at any moment; with time it rises.
"""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from checkmate.certificate.verify import CutRows, Var, exact, least
from checkmate.progress import Cancelled
from checkmate.solvers.certificates.relaxed import CaseResult, RelaxedProgram

_ENOUGH, _WHOLE = 1 - 1e-8, 1e-6  # of the target, and between whole numbers: the rest is rounding
_DEARER, _DEAREST = 1000.0, 1e13  # the price of memory beyond the budget


@dataclass(frozen=True)
class CaseProof:
    """Hold a proof as a certificate writes it, and what it proves.

    ``cost``: in the graph's unit; None: no schedule fits. ``cases``: how many sums it has.
    """

    nodes: list[dict[str, Any]]
    cost: float | None
    cases: int


@dataclass
class _Case:
    """A case, what its sum proves, and the two that it was split into."""

    known: dict[Var, int]
    result: CaseResult
    split: Var | None = None
    parts: list[_Case] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class CaseProver:
    """Prove that no schedule costs less than ``target``; None: none fits.

    ``graph``: as in its file. ``cuts``: op indices. ``until``: ``time.perf_counter`` at which to stop.
    """

    graph: dict[str, Any]
    budget_bytes: int
    cuts: list[int]
    target: float | None
    until: float
    cancelled: Cancelled

    def prove(self) -> CaseProof | None:
        """Return the best proof that there is time for.

        It may prove less than the target. None: there was no time, or it does not show that none fits.
        """
        rows = CutRows(self.graph, self.budget_bytes, self.cuts)
        costs = [exact(0 if self.target is None else op["cost"]) for op in self.graph["ops"]]
        whole = all(cost.denominator == 1 for cost in costs)
        needed = self._needed(whole)
        program = RelaxedProgram(rows, [float(cost) for cost in costs])
        try:
            first = self._solved(program, {}, needed)
            if first is None:
                return None
            self._split_weakest(program, rows, first, needed)
        finally:
            program.close()
        return self._written(rows, first, costs, whole)

    def _needed(self, whole: bool) -> float:
        """Return what the bound of every case has to exceed."""
        if self.target is None:
            return 0.0
        if whole:  # what is above the last whole number but one is rounded up to the target
            return math.ceil(self.target - _WHOLE) - 1 + _WHOLE
        return self.target * _ENOUGH

    def _split_weakest(self, program: RelaxedProgram, rows: CutRows, first: _Case, needed: float) -> None:
        """Split the case with the least bound until all prove what is needed."""
        heap = [(first.result.bound, 0, first)]
        count = 1
        while heap[0][0] <= needed:
            _, number, case = heapq.heappop(heap)
            var = _unknown(case.result, rows)
            parts = (
                [] if var is None else [self._solved(program, {**case.known, var: x}, needed) for x in (0, 1)]
            )
            found = [part for part in parts if part is not None]
            if len(found) < 2:
                heapq.heappush(heap, (case.result.bound, number, case))
                return
            case.split, case.parts = var, found
            for part in found:
                heapq.heappush(heap, (part.result.bound, count, part))
                count += 1

    def _solved(self, program: RelaxedProgram, known: dict[Var, int], needed: float) -> _Case | None:
        while True:
            left = self.until - time.perf_counter()
            found = None if left <= 0 or self.cancelled() else program.solve(known, left)
            if found is None:
                return None
            if found.bound > needed or not found.short or program.price > _DEAREST:
                return _Case(known, found)
            program.raise_price(_DEARER)

    def _written(self, rows: CutRows, first: _Case, costs: list[Fraction], whole: bool) -> CaseProof | None:
        """Return the proof with the bound that exact sums prove."""
        nodes: list[dict[str, Any]] = []
        bounds: list[Fraction] = []
        waiting = [first]
        while waiting:
            case = waiting.pop()
            if case.split is not None:
                nodes.append({"set": list(case.split)})
                waiting += reversed(case.parts)
                continue
            nodes.append({"sum": case.result.multipliers})
            bounds.append(least(rows, case.result.multipliers, case.known, costs))
        bound = min(bounds)
        if self.target is None:
            return CaseProof(nodes, None, len(bounds)) if bound > 0 else None
        claim = float(math.ceil(bound) if whole else bound)
        return CaseProof(nodes, claim if claim <= bound or whole else math.nextafter(claim, 0.0), len(bounds))


def _unknown(found: CaseResult, rows: CutRows) -> Var | None:
    """Return the unknown to split a case on; None where all are 0 or 1.

    What is in memory decides what runs, so it comes first: the one that moves the most bytes.
    """

    def moved(var: Var) -> tuple[bool, float]:
        kind, index, _ = var
        size = rows.values[rows.owner(index)]["bytes"] if kind != "y" else rows.ops[index]["cost"]
        share = found.shares[var]
        return kind != "y", size * min(share, 1 - share)

    return max(sorted(found.shares), key=moved, default=None)
