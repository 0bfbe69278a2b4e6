"""Programs in HiGHS: silent, in a thread of their own, streamed and interruptible.

``startSolve`` of highspy has one lock per process, and raises if another run goes on.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.progress import Cancelled
from checkmate.solvers.tolerances import HIGHS_GAP, HIGHS_INFINITY, HIGHS_RISE

_POLL_S = 0.01
_LEAVE_S = 0.1  # beyond the time limit, before HiGHS is told to stop: it mostly looks at the clock itself


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Row ``i`` has ``columns[starts[i]:starts[i + 1]]`` with ``values``, and is in [low, high]."""

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def silent_highs() -> Any:
    """Return a new HiGHS that never prints.

    A ``highspy.Highs`` sets its callbacks before it can be told to be silent, and from 1.16 on prints its
    name then, to standard output, where an answer in JSON may be expected.
    """
    import highspy

    class Silent(highspy.Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:  # noqa: N802 (highspy's name)
            self.silent()
            super().enableCallbacks()

    return Silent()


def linear_program(
    rows: PackedRows,
    cost: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    *,
    offset: float = 0.0,
    whole: NDArray[np.bool_] | None = None,
) -> Any:
    """HiGHS's program: minimise ``cost`` · x + ``offset``; ``whole``: the integer columns, if any."""
    import highspy

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(cost), len(rows.low)
    lp.col_cost_, lp.offset_ = cost, offset
    lp.col_lower_, lp.col_upper_ = lower, upper
    lp.row_lower_, lp.row_upper_ = rows.low, rows.high
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.starts, rows.columns, rows.values
    if whole is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[is_whole] for is_whole in whole.tolist()]
    return lp


class HighsListener:
    """Hears better solutions and bounds, in the program's unit, from HiGHS's thread, until it is closed."""

    def __init__(self) -> None:
        self.best_bound = -math.inf
        self.closed = False

    def solution(self, columns: NDArray[np.float64]) -> None: ...

    def bound(self, bound: float) -> None: ...

    def subscribe(self, highs: Any) -> None:
        highs.cbMipInterrupt.subscribe(self._on_interrupt)
        highs.cbMipImprovingSolution.subscribe(self._on_solution)

    def _on_interrupt(self, event: Any) -> None:
        # HiGHS has no event for a better bound, but it often asks whether to stop.
        bound = float(event.data_out.mip_dual_bound)
        if not self.closed and abs(bound) < HIGHS_INFINITY and bound > self.best_bound + HIGHS_RISE:
            self.best_bound = bound
            self.bound(bound)

    def _on_solution(self, event: Any) -> None:
        if not self.closed:
            self.solution(np.array(event.data_out.mip_solution, np.float64))


def run_highs(
    highs: Any, name: str, *, until: float, cancelled: Cancelled, daemon: bool, grace_s: float = math.inf
) -> bool:
    """Solve in a thread until the end, ``until`` (``time.perf_counter``) or a cancel.

    False: it did not end within ``grace_s`` after it was told to stop, and ends later. A process that ends
    under a running HiGHS aborts; it waits for the thread unless ``daemon``.
    """
    over = threading.Event()
    threading.Thread(target=_solve, args=(highs, over), name=name, daemon=daemon).start()
    told_at: float | None = None
    try:
        while not over.wait(_POLL_S):
            now = time.perf_counter()
            if told_at is None and (cancelled() or now > until + _LEAVE_S):
                told_at = now
                highs.cancelSolve()
            if told_at is not None and now - told_at > grace_s:
                return False
    except BaseException:
        highs.cancelSolve()  # the process waits for the thread
        raise
    return True


def _solve(highs: Any, over: threading.Event) -> None:
    try:
        highs.solve()
        highs.resetGlobalScheduler(False)  # this thread's scheduler; highspy does the same after its own run
    finally:
        over.set()


class HighsProgram:
    """A program in HiGHS. The properties are valid once ``run`` has returned True."""

    def __init__(self, lp: Any, *, workers: int, gap: float = 0.0, **options: Any) -> None:
        import highspy

        self._kinds = highspy.HighsModelStatus
        self._feasible = highspy.SolutionStatus.kSolutionStatusFeasible
        self.highs = silent_highs()
        options |= {"threads": max(1, workers), "mip_rel_gap": gap, "mip_abs_gap": HIGHS_GAP}
        for name, value in options.items():
            self.highs.setOptionValue(name, value)
        self.highs.passModel(lp)
        self.highs.HandleUserInterrupt = True

    def run(
        self,
        name: str,
        *,
        until: float,
        start: NDArray[np.float64] | None = None,
        listener: HighsListener | None = None,
        **how: Any,
    ) -> bool:
        """Solve as ``run_highs`` does. ``start``: the first columns of a known solution."""
        self.highs.setOptionValue("time_limit", max(0.0, until - time.perf_counter()))
        if start is not None:
            self.highs.setSolution(len(start), np.arange(len(start), dtype=np.int32), start)
        if listener is not None:
            listener.subscribe(self.highs)
        ended = run_highs(self.highs, name, until=until, **how)
        if not ended and listener is not None:
            listener.closed = True
        return ended

    @property
    def engine_status(self) -> str:
        return str(self.highs.modelStatusToString(self.highs.getModelStatus()))

    @property
    def solved(self) -> bool:
        return bool(self.highs.getModelStatus() == self._kinds.kOptimal)

    @property
    def infeasible(self) -> bool:
        return self.highs.getModelStatus() in (self._kinds.kInfeasible, self._kinds.kUnboundedOrInfeasible)

    @property
    def objective(self) -> float:
        return float(self.highs.getInfo().objective_function_value)

    @property
    def bound(self) -> float:
        """The lower bound that the search proved; -inf if it has none."""
        bound = float(self.highs.getInfo().mip_dual_bound)
        return bound if abs(bound) < HIGHS_INFINITY else -math.inf

    @property
    def solution(self) -> NDArray[np.float64] | None:
        if self.highs.getInfo().primal_solution_status != self._feasible:
            return None
        return np.asarray(self.highs.getSolution().col_value, np.float64)

    @property
    def reduced_costs(self) -> NDArray[np.float64]:
        """Of a relaxation that was solved: what moving a column off its bound costs per unit."""
        return np.asarray(self.highs.getSolution().col_dual, np.float64)

    @property
    def row_prices(self) -> NDArray[np.float64]:
        """Of a relaxation that was solved: what each row costs per unit."""
        return np.abs(np.asarray(self.highs.getSolution().row_dual, np.float64))
