"""Solve the linear program whose multipliers a certificate holds.

Its rows are those of ``checkmate.certificate.verify``, so what is solved here means what is checked there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.certificate.verify import CutRows, Var
from checkmate.solvers.shared.highs_thread import silent_highs

_COST = 1000.0  # all ops together, in the program
_ROOM = 1000.0  # the budget, in the program


@dataclass(frozen=True)
class CaseResult:
    """Hold what the program says of one case.

    ``bound``: the cost in the graph's unit. ``short``: whether more memory than there is was bought.
    ``multipliers``: rows and their numbers. ``shares``: the unknowns between 0 and 1, and their values.
    """

    bound: float
    short: bool
    multipliers: list[list[Any]]
    shares: dict[Var, float]


class RelaxedProgram:
    """The rows of some cuts as a linear program that is solved case by case.

    Memory beyond the budget can be bought at ``price``, so that every case has a solution. The multipliers
    prove a bound all the same: what holds with more freedom holds with less. ``costs``: of one run of each
    op.
    """

    def __init__(self, rows: CutRows, costs: list[float]) -> None:
        self.rows, self._costs = rows, costs
        self._unit = max(sum(costs), 1e-300) / _COST
        self._names: list[list[Any]] = []
        self._scales: list[float] = []
        self._columns: dict[Var, int] = {}
        self._set: dict[Var, int] = {}
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
            starts.append(len(indices))
            lows.append(low * scale)
            self._names.append(list(name))
            self._scales.append(scale)
        for var in self.rows.sure:
            self._columns.setdefault(var, len(self._columns))
        self._count = len(self._columns)
        self._fits = [place for place, name in enumerate(self._names) if name[0] in ("fits", "end")]
        self._highs = self._engine(starts, indices, entries, lows)

    def _engine(self, starts: list[int], indices: list[int], entries: list[float], lows: list[float]) -> Any:
        import highspy

        boxes = np.array([self.rows.box(var) for var in self._columns], np.float64).reshape(-1, 2)
        bought = len(self._fits)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self._count + bought, len(lows)
        cost = [self._costs[var[1]] / self._unit if var[0] == "y" else 0.0 for var in self._columns]
        lp.col_cost_ = np.append(np.array(cost), np.full(bought, self.price))
        lp.col_lower_ = np.append(boxes[:, 0], np.zeros(bought))
        lp.col_upper_ = np.append(boxes[:, 1], np.full(bought, highspy.kHighsInf))
        lp.row_lower_ = np.array(lows, np.float64)
        lp.row_upper_ = np.full(len(lows), highspy.kHighsInf)
        whole = self._with_bought(starts, indices, entries)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = whole
        highs = silent_highs()
        # What ran in this thread before may have left a scheduler of other threads, with which HiGHS refuses.
        highs.resetGlobalScheduler(True)
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("solver", "simplex")
        highs.setOptionValue("presolve", "off")  # each case starts from the basis of the one before
        highs.passModel(lp)
        return highs

    def _with_bought(
        self, starts: list[int], indices: list[int], entries: list[float]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Add to each row of memory a column that buys more of it."""
        column = {place: self._count + number for number, place in enumerate(self._fits)}
        first, where, values = [0], list[int](), list[float]()
        for place in range(len(starts) - 1):
            where += indices[starts[place] : starts[place + 1]]
            values += entries[starts[place] : starts[place + 1]]
            if place in column:
                where.append(column[place])
                values.append(1.0)
            first.append(len(where))
        return np.array(first, np.int32), np.array(where, np.int32), np.array(values, np.float64)

    def close(self) -> None:
        """Leave this thread to whatever runs HiGHS in it next."""
        self._highs.resetGlobalScheduler(True)

    def raise_price(self, factor: float) -> None:
        """Make memory beyond the budget dearer."""
        self.price *= factor
        for number in range(len(self._fits)):
            self._highs.changeColCost(self._count + number, self.price)

    def solve(self, case: dict[Var, int], seconds: float) -> CaseResult | None:
        """Return what the program says if ``case`` is so; None: time is up."""
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
    """Return the names of all rows that say something."""
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
