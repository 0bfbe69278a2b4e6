"""Make a certificate of a graph and a budget, and check it.

A bound is proved case by case, so that each case is one sum of rows, those of
``checkmate.certificate.verify``. The case that proves least is split on an unknown that its linear program
leaves between 0 and 1. What all cases prove holds at any moment; with time it rises.
"""

from __future__ import annotations

import heapq
import json
import math
import time
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from checkmate.certificate.verify import CutRows, InvalidCertificateError, Var, exact, least, verify
from checkmate.errors import SolverCrashedError
from checkmate.ir import Graph
from checkmate.progress import Cancelled, Progress, Report
from checkmate.solvers.bounds import below_minimum, working_set_bound
from checkmate.solvers.highs import PackedRows, linear_program, silent_highs
from checkmate.solvers.pathcut.prover import CancelledProof, Prover
from checkmate.solvers.tolerances import PROVED

_COST = 1000.0  # all ops together, in the program
_ROOM = 1000.0  # the budget, in the program


@dataclass(frozen=True)
class CaseResult:
    """What the program says of one case.

    ``short``: whether memory beyond the budget was bought. ``shares``: the fractional unknowns.
    """

    bound: float
    short: bool
    multipliers: list[list[Any]]
    shares: dict[Var, float]


class RelaxedProgram:
    """The rows of some cuts as a linear program that is solved case by case.

    Memory beyond the budget can be bought at ``price``, so that every case has a solution. The multipliers
    still prove a bound, because a bound of the relaxed program also holds for the original one. ``costs``: of
    one run of each op.
    """

    def __init__(self, rows: CutRows, costs: list[float]) -> None:
        self.rows, self._costs = rows, costs
        self._unit = max(sum(costs), 1e-300) / _COST
        self._names: list[list[Any]] = []
        self._scales: list[float] = []
        self._columns: dict[Var, int] = {}
        self._set: dict[Var, int] = {}
        self._bought = 0  # columns of memory beyond the budget
        self.price = 10.0 * _COST
        self._build()

    def _build(self) -> None:
        starts, indices, entries, lows = [0], [], [], []
        room = max(float(self.rows.room), 1.0)
        for name in row_names(self.rows):
            low, terms = self.rows.row(*name)
            scale = _ROOM / room if name[0] in ("fits", "end") else 1.0
            for var, entry in terms:
                indices.append(self._columns.setdefault(var, len(self._columns)))
                entries.append(entry * scale)
            if name[0] in ("fits", "end"):
                self._bought += 1
                indices.append(-self._bought)  # replaced by the column's index once all others are known
                entries.append(1.0)
            starts.append(len(indices))
            lows.append(low * scale)
            self._names.append(list(name))
            self._scales.append(scale)
        for var in self.rows.sure:
            self._columns.setdefault(var, len(self._columns))
        self._count = len(self._columns)
        columns = np.array(indices, np.int32)
        columns = np.where(columns < 0, self._count - 1 - columns, columns).astype(np.int32)
        self._highs = self._engine(
            PackedRows(
                np.array(starts, np.int32),
                columns,
                np.array(entries, np.float64),
                np.array(lows, np.float64),
                np.full(len(lows), np.inf),
            )
        )

    def _engine(self, packed: PackedRows) -> Any:
        boxes = np.array([self.rows.box(var) for var in self._columns], np.float64).reshape(-1, 2)
        bought = self._bought
        cost = [self._costs[var[1]] / self._unit if var[0] == "y" else 0.0 for var in self._columns]
        lp = linear_program(
            packed,
            np.append(np.array(cost), np.full(bought, self.price)),
            np.append(boxes[:, 0], np.zeros(bought)),
            np.append(boxes[:, 1], np.full(bought, np.inf)),
        )
        highs = silent_highs()
        # What ran in this thread before may have left a scheduler of other threads, with which HiGHS refuses.
        highs.resetGlobalScheduler(True)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("solver", "simplex")
        highs.setOptionValue("presolve", "off")  # each case starts from the basis of the one before
        highs.passModel(lp)
        return highs

    def close(self) -> None:
        """Leave this thread to whatever runs HiGHS in it next."""
        self._highs.resetGlobalScheduler(True)

    def raise_price(self, factor: float) -> None:
        self.price *= factor
        for number in range(self._bought):
            self._highs.changeColCost(self._count + number, self.price)

    def solve(self, case: dict[Var, int], seconds: float) -> CaseResult | None:
        """What the program says if ``case`` is so; None: time is up."""
        import highspy

        for var in self._set.keys() | case.keys():
            low, high = (case[var], case[var]) if var in case else self.rows.box(var)
            self._highs.changeColBounds(self._columns[var], float(low), float(high))
        self._set = dict(case)
        self._highs.setOptionValue("time_limit", self._highs.getRunTime() + max(0.01, seconds))
        self._highs.run()
        if self._highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = self._highs.getSolution()
        values = np.asarray(solution.col_value)
        duals = np.maximum(np.asarray(solution.row_dual), 0.0)
        used = np.flatnonzero(duals > 1e-12).tolist()
        multipliers = [
            [*self._names[row], float(duals[row] * self._scales[row] * self._unit)] for row in used
        ]
        open_ = np.flatnonzero((values > 1e-6) & (values < 1 - 1e-6)).tolist()
        variables = list(self._columns)
        shares = {variables[column]: float(values[column]) for column in open_ if column < self._count}
        bound = float(self._highs.getInfo().objective_function_value) * self._unit
        return CaseResult(bound, bool((values[self._count :] > 1e-9).any()), multipliers, shares)


def row_names(rows: CutRows) -> list[tuple[Any, ...]]:
    """The names of all rows that say something."""
    last, names = len(rows.cuts), list[tuple[Any, ...]]()
    for op, facts in enumerate(rows.ops):
        intervals = [k for k in range(last + 1) if rows.box(("y", op, k))[1]]
        read = [value for value in dict.fromkeys(facts["inputs"]) if value in rows.producer]
        names += [("read", op, k, value) for k in intervals for value in read]
        if not any(rows.box(("y", op, k))[0] for k in intervals):
            names.append(("runs", op))
        if not facts.get("recomputable", True) and len(intervals) > 1:
            names.append(("once", op))
    for value in rows.producer:
        there = [k for k in range(last) if rows.box(("a", value, k))[1]]
        names += [("held", value, k) for k in there]
        if rows.values[value].get("keep"):
            names.append(("kept", value))
        if len(rows.sharing.get(rows.owner(value), ())) > 1:
            names += [("owns", value, k) for k in there]
    return [*names, *(("fits", k) for k in range(last)), ("end",)]


_ENOUGH, _WHOLE = 1 - 1e-8, 1e-6  # of the target, and between whole numbers: the rest is rounding
_DEARER, _DEAREST = 1000.0, 1e13  # the price of memory beyond the budget


@dataclass(frozen=True)
class CaseProof:
    """A proof as a certificate writes it. ``cost``: in the graph's unit; None: no schedule fits."""

    nodes: list[dict[str, Any]]
    cost: float | None
    cases: int


@dataclass
class _Case:
    """A case of the proof, the bound that it proves, and the two cases that it was split into."""

    known: dict[Var, int]
    result: CaseResult
    split: Var | None = None
    parts: list[_Case] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class CaseProver:
    """Proves that no schedule costs less than ``target``; None: none fits. ``graph``: as in its file."""

    graph: dict[str, Any]
    budget_bytes: int
    cuts: list[int]
    target: float | None
    until: float
    cancelled: Cancelled

    def prove(self) -> CaseProof | None:
        """Return the best proof that there is time for, maybe of less than the target."""
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
        if self.target is None:
            return 0.0
        if whole:  # what is above the last whole number but one is rounded up to the target
            return math.ceil(self.target - _WHOLE) - 1 + _WHOLE
        return self.target * _ENOUGH

    def _split_weakest(self, program: RelaxedProgram, rows: CutRows, first: _Case, needed: float) -> None:
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
    # Split on a memory variable first, since these decide what runs: the one that moves the most bytes.
    def moved(var: Var) -> tuple[bool, float]:
        kind, index, _ = var
        size = rows.values[rows.owner(index)]["bytes"] if kind != "y" else rows.ops[index]["cost"]
        share = found.shares[var]
        return kind != "y", size * min(share, 1 - share)

    return max(sorted(found.shares), key=moved, default=None)


_LOOKING = 0.3  # the share of the time that is spent on finding cuts


@dataclass(frozen=True, eq=False)
class Certificate:
    """A certificate that was checked; ``data`` is the file's content.

    ``cost``: no schedule within ``budget_bytes`` costs less, in the graph's unit; None: no schedule fits.
    ``bound``: the best bound that was known without a certificate; infinite where none fits. ``cases``: how
    many sums it has.
    """

    budget_bytes: int
    cost: float | None
    bound: float
    cases: int
    data: dict[str, Any]


def certificate_of(
    graph: Graph,
    content: dict[str, Any],
    budget_bytes: int,
    *,
    known_cost: float = math.inf,
    seconds: float,
    report: Report,
    cancelled: Cancelled,
) -> Certificate | None:
    """Return the best certificate that there is time for; None: there is none.

    ``content``: the graph as in its file. ``known_cost``: of a schedule within the budget; nothing above it
    is tried. Raises SolverCrashedError if what was made does not hold, which is a fault of this program.
    """
    started = time.perf_counter()
    if below_minimum(graph, budget_bytes) is not None:
        need = working_set_bound(graph)
        cuts = [] if need.at_end else [need.op]
        alone = CaseProver(content, budget_bytes, cuts, None, started + seconds, cancelled).prove()
        return None if alone is None else _checked(content, budget_bytes, cuts, alone, math.inf)
    # CP-SAT gets through programs of more cuts than can be proved case by case.
    prover = Prover(graph, budget_bytes, with_sat=False)
    report(Progress("certify", message="looking for the ops that decide the bound"))
    prover.run(CancelledProof(cancelled, known_cost * PROVED), until=started + _LOOKING * seconds)
    target = None if math.isinf(prover.bound) else min(prover.bound, known_cost)
    report(Progress("certify", message="proving the bound case by case"))
    cuts = list(prover.best_cuts)
    made = CaseProver(content, budget_bytes, cuts, target, started + seconds, cancelled).prove()
    return None if made is None else _checked(content, budget_bytes, cuts, made, prover.bound)


def _checked(
    content: dict[str, Any], budget_bytes: int, cuts: list[int], proof: CaseProof, bound: float
) -> Certificate:
    data = {
        "graph": content.get("name", ""),
        "graph_fingerprint": content.get("fingerprint", ""),
        "budget_bytes": budget_bytes,
        "claim": "infeasible" if proof.cost is None else "cost",
        "cost": proof.cost,
        "cuts": cuts,
        "proof": proof.nodes,
    }
    data = json.loads(json.dumps(data))
    try:
        verify(content, data)
    except InvalidCertificateError as error:
        raise SolverCrashedError(f"the certificate that was made does not hold: {error}") from error
    return Certificate(budget_bytes, proof.cost, bound, proof.cases, data)
