"""Running a tight model in HiGHS: from arrays, from a start, streaming, and interruptible within some 10 ms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.progress import Cancelled
from checkmate.solvers.tight_model import TightModel

_POLL_S = 0.01
_LEAVE_S = 0.1  # past the time limit, which HiGHS keeps by itself where it looks at the clock often enough


@dataclass(frozen=True, eq=False)
class TightOutcome:
    """How HiGHS ended. ``bound`` and objective are in the model's unit; ``solution``: the best columns found, None without any.

    ``infeasible``: proved, within the solver's tolerances. ``said``: its own word for how it ended.
    """

    infeasible: bool
    bound: float
    solution: NDArray[np.float64] | None
    said: str


def solve_tight(
    model: TightModel,
    *,
    seconds: float,
    gap: float,
    workers: int,
    start: NDArray[np.float64] | None,
    cancelled: Cancelled,
    on_solution: Callable[[NDArray[np.float64]], None],
    on_bound: Callable[[float], None],
) -> TightOutcome:
    """Minimise. ``start``: the binary columns of a known solution; the hooks are called from HiGHS's thread."""
    import highspy

    highs = highspy.Highs()
    highs.silent()
    options = {"threads": max(1, workers), "mip_rel_gap": gap, "mip_abs_gap": 1e-7, "time_limit": max(0.0, seconds)}
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(_as_lp(highspy, model))
    if start is not None:
        highs.setSolution(model.whole, np.arange(model.whole, dtype=np.int32), start)
    bounds = [-math.inf]

    def hear_interrupt(event: Any) -> None:
        bound = float(event.data_out.mip_dual_bound)
        if bounds[0] + 1e-9 < bound < highspy.kHighsInf:
            bounds[0] = bound
            on_bound(bound)

    def hear_solution(event: Any) -> None:
        on_solution(np.array(event.data_out.mip_solution, np.float64))

    highs.HandleUserInterrupt = True
    highs.cbMipInterrupt += hear_interrupt
    highs.cbMipImprovingSolution += hear_solution
    highs.startSolve()
    _wait(highs, time.perf_counter() + seconds + _LEAVE_S, cancelled)
    return _outcome(highspy, highs, bounds[0])


def _wait(highs: Any, until: float, cancelled: Cancelled) -> None:
    stopping = False
    while not highs.wait(_POLL_S)[0]:
        if not stopping and (cancelled() or time.perf_counter() > until):
            stopping = True
            highs.cancelSolve()


def _outcome(highspy: Any, highs: Any, heard: float) -> TightOutcome:
    status, info = highs.getModelStatus(), highs.getInfo()
    said = str(highs.modelStatusToString(status))
    nothing = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)
    if status in nothing:  # the objective is at least 0, so it is not unbounded
        return TightOutcome(True, math.inf, None, said)
    bound = float(info.mip_dual_bound)
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return TightOutcome(
        False,
        max(heard, bound if abs(bound) < highspy.kHighsInf else -math.inf),
        np.asarray(highs.getSolution().col_value, np.float64) if feasible else None,
        said,
    )


def _as_lp(highspy: Any, model: TightModel) -> Any:
    lp, rows = highspy.HighsLp(), model.rows
    lp.num_col_, lp.num_row_ = model.columns, len(rows.low)
    lp.col_cost_, lp.offset_ = model.cost, model.offset
    lp.col_lower_, lp.col_upper_ = np.zeros(model.columns), model.upper
    lp.row_lower_, lp.row_upper_ = rows.low, rows.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.starts, rows.columns, rows.values
    whole, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    lp.integrality_ = [whole] * model.whole + [continuous] * (model.columns - model.whole)
    return lp
