"""Run a tight model in HiGHS, from arrays and from a known start.

Solutions and bounds are streamed, and a solve can be interrupted within some 10 ms.
"""

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
from checkmate.solvers.shared.highs_thread import silent_highs, start_highs
from checkmate.solvers.tolerances import HIGHS_GAP, HIGHS_INFINITY, HIGHS_RISE

_POLL_S = 0.01
_GRACE_S = 0.01  # after it was told to stop; then it is left to end on its own
_LEAVE_S = 0.1  # beyond the time limit, before it is told to stop
_LP_TOLERANCE = 1e-7  # the relaxation's value may be too high by this
# Beyond the known cost, so that rounding fixes nothing that an equally good solution needs.
_FIX_MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class TightOutcome:
    """How HiGHS ended.

    ``infeasible``: proved, within the solver's tolerances.
    ``bound``: in the model's unit, like the objective.
    ``solution``: the best columns found, None without any.
    ``engine_status``: HiGHS's own word for how it ended.
    """

    infeasible: bool
    bound: float
    solution: NDArray[np.float64] | None
    engine_status: str


@dataclass(frozen=True, eq=False)
class TightLimits:
    """When to stop, and how many ``workers`` to use.

    It stops at ``until`` (``time.perf_counter``), at the relative ``gap``, or when ``cancelled`` says so.
    """

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
    """Minimize: first the relaxation, then the program it leaves open.

    ``start``: the binary columns of a known solution. HiGHS solves the relaxation alone in a fraction of the
    time that it takes inside the integer program. With a start, most columns are then fixed, because moving
    them would cost more than the start does. HiGHS's thread calls the hooks.
    """
    import highspy

    lower, upper = np.zeros(model.columns), model.upper.copy()
    relaxation = _Program(highspy, model, lower, upper, relaxed=True)
    if not relaxation.run(limits):
        return TightOutcome(False, -math.inf, None, "left behind")
    if not relaxation.solved:
        return TightOutcome(relaxation.infeasible, -math.inf, None, relaxation.engine_status)
    bound = relaxation.objective - _LP_TOLERANCE * max(1.0, abs(relaxation.objective))
    on_bound(bound)
    known = math.inf
    if start is not None:
        known = float(model.cost[: model.whole] @ start) + model.offset
        _fix(model, relaxation, known, lower, upper)
    callbacks = _Callbacks(on_solution, lambda found: on_bound(min(found, known)))
    program = _Program(highspy, model, lower, upper, relaxed=False)
    if not program.run(limits, start, callbacks):
        return TightOutcome(False, max(bound, min(callbacks.bound, known)), None, "left behind")
    # but for the fixed columns: nothing is cheaper than the start
    if program.infeasible and start is not None:
        return TightOutcome(False, known, None, program.engine_status)
    found = math.inf if program.infeasible else max(callbacks.bound, program.bound)
    return TightOutcome(
        program.infeasible, max(bound, min(found, known)), program.solution, program.engine_status
    )


def _fix(
    model: TightModel,
    relaxation: _Program,
    known: float,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Fix binary columns that would cost too much to move.

    A column stays at the bound that it has in the relaxation if leaving it would cost more than what is
    known.
    """
    price = relaxation.reduced_costs[: model.whole]
    too_costly = np.abs(price) > known - relaxation.objective + _FIX_MARGIN * max(1.0, known)
    upper[: model.whole][too_costly & (price > 0)] = 0.0
    lower[: model.whole][too_costly & (price < 0)] = 1.0


class _Callbacks:
    """What HiGHS reported while it ran; nothing more once ``closed``."""

    def __init__(
        self, on_solution: Callable[[NDArray[np.float64]], None], on_bound: Callable[[float], None]
    ) -> None:
        self._on_solution, self._on_bound = on_solution, on_bound
        self.bound = -math.inf
        self.closed = False

    def on_interrupt(self, event: Any) -> None:
        """Take a better bound. HiGHS has no event for that, but it often asks whether to stop."""
        bound = float(event.data_out.mip_dual_bound)
        if not self.closed and abs(bound) < HIGHS_INFINITY and bound > self.bound + HIGHS_RISE:
            self.bound = bound
            self._on_bound(bound)

    def on_solution_event(self, event: Any) -> None:
        """Take a better solution."""
        if not self.closed:
            self._on_solution(np.array(event.data_out.mip_solution, np.float64))


class _Program:
    """The model in HiGHS, between ``lower`` and ``upper``.

    The properties are valid once ``run`` has returned True.
    """

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
        self._highs = silent_highs()
        self._highs.passModel(_as_lp(highspy, model, lower, upper, relaxed=relaxed))

    def run(
        self,
        limits: TightLimits,
        start: NDArray[np.float64] | None = None,
        callbacks: _Callbacks | None = None,
    ) -> bool:
        """Solve; return False if it did not end soon after it was told to stop.

        In that case it ends later, in its own thread.
        """
        highs = self._highs
        seconds = max(0.0, limits.until - time.perf_counter())
        options = {"threads": max(1, limits.workers), "mip_rel_gap": limits.gap, "mip_abs_gap": HIGHS_GAP}
        for name, value in (*options.items(), ("time_limit", seconds), ("mip_detect_symmetry", False)):
            highs.setOptionValue(name, value)
        if start is not None:
            # A start comes from a better search than HiGHS's own. That one would take most of the time.
            highs.setOptionValue("mip_heuristic_effort", 0.0)
            highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        highs.HandleUserInterrupt = True
        if callbacks is not None:
            highs.cbMipInterrupt += callbacks.on_interrupt
            highs.cbMipImprovingSolution += callbacks.on_solution_event
        # a run that is left behind takes about a second
        over = start_highs(highs, "tight-milp", daemon=False)
        ended = _ended(highs, over, limits)
        if not ended and callbacks is not None:
            callbacks.closed = True
        return ended

    @property
    def engine_status(self) -> str:
        """Return HiGHS's own word for how it ended."""
        return str(self._highs.modelStatusToString(self._highs.getModelStatus()))

    @property
    def solved(self) -> bool:
        return bool(self._highs.getModelStatus() == self._highspy.HighsModelStatus.kOptimal)

    @property
    def infeasible(self) -> bool:
        """Return whether the program is proved to be infeasible.

        The objective is at least 0, so the program cannot be unbounded.
        """
        kinds = self._highspy.HighsModelStatus
        return self._highs.getModelStatus() in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible)

    @property
    def objective(self) -> float:
        return float(self._highs.getInfo().objective_function_value)

    @property
    def bound(self) -> float:
        """Return the lower bound that the search proved."""
        bound = float(self._highs.getInfo().mip_dual_bound)
        return bound if abs(bound) < HIGHS_INFINITY else -math.inf

    @property
    def solution(self) -> NDArray[np.float64] | None:
        """Return the best columns found."""
        feasible = self._highspy.SolutionStatus.kSolutionStatusFeasible
        if self._highs.getInfo().primal_solution_status != feasible:
            return None
        return np.asarray(self._highs.getSolution().col_value, np.float64)

    @property
    def reduced_costs(self) -> NDArray[np.float64]:
        """Return what moving a column off its bound costs per unit.

        This is for a relaxation that was solved.
        """
        return np.asarray(self._highs.getSolution().col_dual, np.float64)


def _ended(highs: Any, over: threading.Event, limits: TightLimits) -> bool:
    """Wait for HiGHS; return whether it ended.

    HiGHS keeps its time limit itself if it looks at the clock often enough.
    """
    told_at: float | None = None
    while not over.wait(_POLL_S):
        now = time.perf_counter()
        if told_at is None and (limits.cancelled() or now > limits.until + _LEAVE_S):
            told_at = now
            highs.cancelSolve()
        if told_at is not None and now - told_at > _GRACE_S:
            return False
    return True


def _as_lp(
    highspy: Any, model: TightModel, lower: NDArray[np.float64], upper: NDArray[np.float64], *, relaxed: bool
) -> Any:
    """Return the model as HiGHS's linear program."""
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
