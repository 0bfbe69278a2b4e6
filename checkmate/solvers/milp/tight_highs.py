"""Running a tight model in HiGHS: from arrays, from a start, streaming, and interruptible within some 10 ms."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.progress import Cancelled
from checkmate.solvers.milp.tight_model import TightModel
from checkmate.solvers.shared.highs_thread import start_highs

_POLL_S = 0.01
_GRACE_S = 0.01  # after it was told to stop; then it is left to end by itself
_LEAVE_S = 0.1  # past the time limit
_NO_BOUND = 1e30  # larger figures are HiGHS's infinities
_LP_TOLERANCE = 1e-7  # by which the relaxation's value may be too high
_FIX_MARGIN = 1e-6  # beyond what is known, so that rounding fixes nothing that an equally good solution needs


@dataclass(frozen=True, eq=False)
class TightOutcome:
    """How HiGHS ended. ``bound`` and objective are in the model's unit; ``solution``: the best columns found, None without any.

    ``infeasible``: proved, within the solver's tolerances. ``said``: its own word for how it ended.
    """

    infeasible: bool
    bound: float
    solution: NDArray[np.float64] | None
    said: str


@dataclass(frozen=True, eq=False)
class TightLimits:
    """When to stop: ``until`` (``time.perf_counter``), the relative ``gap``, a listener's word; and how many ``workers`` to use."""

    until: float
    gap: float
    workers: int
    cancelled: Cancelled


def solve_tight(
    model: TightModel,
    limits: TightLimits,
    *,
    start: NDArray[np.float64] | None,
    on_solution: Callable[[NDArray[np.float64]], None],
    on_bound: Callable[[float], None],
) -> TightOutcome:
    """Minimise: the relaxation, then what it leaves open. ``start``: the binary columns of a known solution.

    The relaxation by itself takes HiGHS a fraction of the time that it takes inside the integer program; with a start, most
    columns are then fixed because moving them would cost more than the start does. Hooks are called from HiGHS's thread.
    """
    import highspy

    lower, upper = np.zeros(model.columns), model.upper.copy()
    relaxation = _Program(highspy, model, lower, upper, relaxed=True)
    if not relaxation.run(limits):
        return TightOutcome(False, -math.inf, None, "left behind")
    if not relaxation.solved:
        return TightOutcome(relaxation.infeasible, -math.inf, None, relaxation.said)
    bound = relaxation.objective - _LP_TOLERANCE * max(1.0, abs(relaxation.objective))
    on_bound(bound)
    known = math.inf
    if start is not None:
        known = float(model.cost[: model.whole] @ start) + model.offset
        _fix(model, relaxation, known, lower, upper)
    ears = _Ears(on_solution, lambda found: on_bound(min(found, known)))
    program = _Program(highspy, model, lower, upper, relaxed=False)
    if not program.run(limits, start, ears):
        return TightOutcome(False, max(bound, min(ears.bound, known)), None, "left behind")
    if program.infeasible and start is not None:  # but for what was fixed: nothing is cheaper than the start
        return TightOutcome(False, known, None, program.said)
    found = math.inf if program.infeasible else max(ears.bound, program.bound)
    return TightOutcome(program.infeasible, max(bound, min(found, known)), program.solution, program.said)


def _fix(
    model: TightModel,
    relaxation: _Program,
    known: float,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Fix binary columns at the bound they have in the relaxation where leaving it would cost more than what is known."""
    price = relaxation.reduced_costs[: model.whole]
    dear = np.abs(price) > known - relaxation.objective + _FIX_MARGIN * max(1.0, known)
    upper[: model.whole][dear & (price > 0)] = 0.0
    lower[: model.whole][dear & (price < 0)] = 1.0


class _Ears:
    """What HiGHS told while it ran; deaf once ``closed``."""

    def __init__(
        self, on_solution: Callable[[NDArray[np.float64]], None], on_bound: Callable[[float], None]
    ) -> None:
        self._on_solution, self._on_bound = on_solution, on_bound
        self.bound = -math.inf
        self.closed = False

    def hear_interrupt(self, event: Any) -> None:
        """HiGHS has no event for a better bound, but asks often whether to stop."""
        bound = float(event.data_out.mip_dual_bound)
        if not self.closed and abs(bound) < _NO_BOUND and bound > self.bound + 1e-9:
            self.bound = bound
            self._on_bound(bound)

    def hear_solution(self, event: Any) -> None:
        """A better solution."""
        if not self.closed:
            self._on_solution(np.array(event.data_out.mip_solution, np.float64))


class _Program:
    """The model in HiGHS, between ``lower`` and ``upper``; what is asked of it holds once ``run`` returned True."""

    def __init__(
        self,
        highspy: Any,
        model: TightModel,
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
        *,
        relaxed: bool,
    ) -> None:
        self._highspy, self._model = highspy, model
        self._highs = highspy.Highs()
        self._highs.silent()
        self._highs.passModel(_as_lp(highspy, model, lower, upper, relaxed=relaxed))

    def run(
        self, limits: TightLimits, start: NDArray[np.float64] | None = None, ears: _Ears | None = None
    ) -> bool:
        """Solve; False where it did not end soon after it was told to: it then ends by itself, in its own thread."""
        highs = self._highs
        seconds = max(0.0, limits.until - time.perf_counter())
        options = {"threads": max(1, limits.workers), "mip_rel_gap": limits.gap, "mip_abs_gap": 1e-7}
        for name, value in (*options.items(), ("time_limit", seconds), ("mip_detect_symmetry", False)):
            highs.setOptionValue(name, value)
        if start is not None:
            # A start comes from a better search than HiGHS's own, which would take most of the time.
            highs.setOptionValue("mip_heuristic_effort", 0.0)
            highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        highs.HandleUserInterrupt = True
        if ears is not None:
            highs.cbMipInterrupt += ears.hear_interrupt
            highs.cbMipImprovingSolution += ears.hear_solution
        over = start_highs(highs, "tight-milp", daemon=False)  # one left behind takes a second or so
        ended = _ended(highs, over, limits)
        if not ended and ears is not None:
            ears.closed = True
        return ended

    @property
    def said(self) -> str:
        """HiGHS's own word for how it ended."""
        return str(self._highs.modelStatusToString(self._highs.getModelStatus()))

    @property
    def solved(self) -> bool:
        """To the end."""
        return bool(self._highs.getModelStatus() == self._highspy.HighsModelStatus.kOptimal)

    @property
    def infeasible(self) -> bool:
        """Proved; the objective is at least 0, so it cannot be unbounded."""
        kinds = self._highspy.HighsModelStatus
        return self._highs.getModelStatus() in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible)

    @property
    def objective(self) -> float:
        """Of the best solution."""
        return float(self._highs.getInfo().objective_function_value)

    @property
    def bound(self) -> float:
        """What the search proved."""
        bound = float(self._highs.getInfo().mip_dual_bound)
        return bound if abs(bound) < _NO_BOUND else -math.inf

    @property
    def solution(self) -> NDArray[np.float64] | None:
        """The best columns found."""
        feasible = self._highspy.SolutionStatus.kSolutionStatusFeasible
        if self._highs.getInfo().primal_solution_status != feasible:
            return None
        return np.asarray(self._highs.getSolution().col_value, np.float64)

    @property
    def reduced_costs(self) -> NDArray[np.float64]:
        """Of a relaxation that was solved: what moving a column off its bound costs per unit."""
        return np.asarray(self._highs.getSolution().col_dual, np.float64)


def _ended(highs: Any, over: threading.Event, limits: TightLimits) -> bool:
    """Wait for HiGHS, which keeps its time limit by itself where it looks at the clock often enough."""
    told: float | None = None
    while not over.wait(_POLL_S):
        now = time.perf_counter()
        if told is None and (limits.cancelled() or now > limits.until + _LEAVE_S):
            told = now
            highs.cancelSolve()
        if told is not None and now - told > _GRACE_S:
            return False
    return True


def _as_lp(
    highspy: Any, model: TightModel, lower: NDArray[np.float64], upper: NDArray[np.float64], *, relaxed: bool
) -> Any:
    lp, rows = highspy.HighsLp(), model.rows
    lp.num_col_, lp.num_row_ = model.columns, len(rows.low)
    lp.col_cost_, lp.offset_ = model.cost, model.offset
    lp.col_lower_, lp.col_upper_ = lower, upper
    lp.row_lower_, lp.row_upper_ = rows.low, rows.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.starts, rows.columns, rows.values
    if not relaxed:
        whole, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [whole] * model.whole + [continuous] * (model.columns - model.whole)
    return lp
