"""Solve a path-cut program with HiGHS; read a schedule from its solution.

The solve can be interrupted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.progress import Cancelled
from checkmate.solvers.highs import silent_highs, start_highs
from checkmate.solvers.pathcut.cuts import CutProgram
from checkmate.solvers.tolerances import HIGHS_GAP, HIGHS_RISE, round_up_if_whole

_POLL_S = 0.01
_ROOM = 1000.0  # the budget, in HiGHS's program
_HALF = 0.499  # if costs tie, a run may be split between two intervals: then it is in both


@dataclass(frozen=True, eq=False)
class CutOutcome:
    """The result of a program.

    ``bound``: in the graph's cost unit; infinite if no schedule exists.
    ``exact``: the program was solved to the end.
    ``runs``: bool[n, K + 1], the best y found; None if there is none.
    """

    bound: float
    exact: bool
    runs: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class Relaxation:
    """The result of a program's linear relaxation.

    ``bound``: as of ``CutOutcome``; the graph's base cost if the time was too short.
    ``price``: float64[K], what each cut's budget costs; None if it was not solved to the end.
    ``shares``: float64[n, K + 1], its y; None if it was not solved to the end.
    """

    bound: float
    price: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None


def solve_program(
    graph: Graph,
    program: CutProgram,
    *,
    time_limit_s: float,
    workers: int,
    cancelled: Cancelled,
    on_bound: Callable[[float], None],
    start: NDArray[np.int32] | None = None,
) -> CutOutcome:
    """Return the least cost of the program, or what is known of it in time.

    ``start``: a schedule within the budget (every such schedule is a solution).
    """
    import highspy

    if _is_impossible(program):
        return CutOutcome(math.inf, True, None)
    highs = _engine(_model(highspy, program, relaxed=False), time_limit_s, workers)
    if start is not None:
        columns, values = start_of(graph, program, start)
        highs.setSolution(len(columns), columns, values)
    best = -math.inf

    def on_interrupt(event: Any) -> None:
        nonlocal best
        bound = float(event.data_out.mip_dual_bound)
        if math.isfinite(bound) and bound > best + HIGHS_RISE:
            best = bound
            on_bound(cost_bound(graph, program, bound))

    highs.cbMipInterrupt += on_interrupt
    status = _run(highs, time_limit_s, cancelled)
    if _is_infeasible(highspy, status):
        return CutOutcome(math.inf, True, None)
    info, solution = highs.getInfo(), highs.getSolution()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    bound = max(best, float(info.mip_dual_bound)) if math.isfinite(info.mip_dual_bound) else best
    return CutOutcome(
        cost_bound(graph, program, bound) if math.isfinite(bound) else graph.base_cost,
        status == highspy.HighsModelStatus.kOptimal,
        values_of(program, np.asarray(solution.col_value)) > _HALF if feasible else None,
    )


def relax_program(
    graph: Graph, program: CutProgram, *, time_limit_s: float, cancelled: Cancelled
) -> Relaxation:
    """Return the bound, the prices and y of the linear relaxation."""
    import highspy

    if _is_impossible(program):
        return Relaxation(math.inf)
    highs = _engine(_model(highspy, program, relaxed=True), time_limit_s, workers=1)
    status = _run(highs, time_limit_s, cancelled)
    if _is_infeasible(highspy, status):
        return Relaxation(math.inf)
    if status != highspy.HighsModelStatus.kOptimal:
        return Relaxation(graph.base_cost)
    solution = highs.getSolution()
    return Relaxation(
        cost_bound(graph, program, highs.getInfo().objective_function_value),
        np.append(np.abs(np.asarray(solution.row_dual)), 0.0)[np.array(program.memory)],
        values_of(program, np.asarray(solution.col_value)),
    )


def _is_impossible(program: CutProgram) -> bool:
    """Return whether an empty row must be above zero. Then no schedule exists, in any order."""
    starts = np.array(program.rows.starts)
    low = np.array(program.rows.low)
    return bool(((np.diff(starts) == 0) & (low > 1e-9)).any())


def _engine(model: Any, time_limit_s: float, workers: int) -> Any:
    """Return HiGHS, silent and ready to solve ``model``."""
    highs = silent_highs()
    for option, value in (
        ("threads", max(1, workers)),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", HIGHS_GAP),
        ("time_limit", max(0.0, time_limit_s)),
    ):
        highs.setOptionValue(option, value)
    highs.passModel(model)
    highs.HandleUserInterrupt = True
    return highs


def _run(highs: Any, time_limit_s: float, cancelled: Cancelled) -> Any:
    """Solve until the end, the time limit or a cancel; return the status."""
    over = start_highs(highs, "path-cut", daemon=True)
    deadline = time.perf_counter() + time_limit_s
    stopping = False
    while not over.wait(_POLL_S):
        if not stopping and (cancelled() or time.perf_counter() > deadline + 0.1):
            stopping = True
            highs.cancelSolve()
    return highs.getModelStatus()


def _is_infeasible(highspy: Any, status: Any) -> bool:
    return status in (
        highspy.HighsModelStatus.kInfeasible,
        highspy.HighsModelStatus.kUnboundedOrInfeasible,
    )


def _model(highspy: Any, program: CutProgram, *, relaxed: bool) -> Any:
    """Return the program as HiGHS's linear program."""
    rows = program.rows
    starts, low = np.array(rows.starts, np.int32), np.array(rows.low, np.float64)
    scale = np.ones(len(low))
    scale[[row for row in program.memory if row >= 0]] = _ROOM / max(program.room, 1)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = program.columns, len(low)
    lp.col_cost_ = program.cost
    lp.col_lower_, lp.col_upper_ = np.zeros(program.columns), np.ones(program.columns)
    lp.row_lower_ = low * scale
    lp.row_upper_ = np.full(len(low), highspy.kHighsInf)
    lp.offset_ = program.offset
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = starts
    lp.a_matrix_.index_ = np.array(rows.columns, np.int32)
    lp.a_matrix_.value_ = np.array(rows.entries, np.float64) * np.repeat(scale, np.diff(starts))
    if not relaxed:
        kinds = [highspy.HighsVarType.kContinuous] * program.columns
        for column in range(program.first_held, program.end_held):
            kinds[column] = highspy.HighsVarType.kInteger
        lp.integrality_ = kinds
    return lp


def start_of(
    graph: Graph, program: CutProgram, steps: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return y and a of a schedule, as column numbers and values."""
    first = np.full(graph.n, -1)
    ops, places = np.unique(steps, return_index=True)
    first[ops] = places
    ends = first[list(program.cuts)]
    runs = np.zeros(program.runs.shape, np.bool_)
    runs[steps, np.searchsorted(ends, np.arange(len(steps)), side="left")] = True
    held = np.zeros(program.held.shape, np.bool_)
    cut_at = {int(place): k for k, place in enumerate(ends)}
    needed = graph.keep & (graph.producer >= 0)
    for place in range(len(steps) - 1, -1, -1):
        op = int(steps[place])
        if place in cut_at:
            k = cut_at[place]
            held[:, k] = needed
            held[graph.op_inputs[op], k] = held[graph.op_outputs[op], k] = True
        needed[graph.op_outputs[op]] = False
        needed[graph.op_inputs[op]] = True
    values = np.zeros(program.columns)
    values[program.runs[runs & (program.runs >= 0)]] = 1.0
    values[program.held[held & (program.held >= 0)]] = 1.0
    known = np.arange(program.end_held, dtype=np.int32)
    return known, values[: program.end_held]


def cost_bound(graph: Graph, program: CutProgram, bound: float) -> float:
    """Return the bound in the graph's unit, but at least the base cost.

    It is a whole number if all costs are.
    """
    return max(float(round_up_if_whole(graph.cost, bound * program.unit)), graph.base_cost)


def values_of(program: CutProgram, solution: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return y as float64[n, K + 1], with the fixed ones."""
    # The codes _YES and _NO count from the end.
    values: NDArray[np.float64] = np.concatenate([solution, [1.0, 0.0]])[program.runs]
    return values


def steps_from(graph: Graph, program: CutProgram, runs: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the schedule that runs ops as late as their first use allows.

    Each interval's ops run within that interval. The schedule may not fit the budget.
    """
    inputs, producer = graph.op_inputs.lists(), graph.producer.tolist()
    steps: list[int] = []
    known: set[int] = set()
    for k in range(runs.shape[1]):
        todo = np.flatnonzero(runs[:, k]).tolist()
        cut = program.cuts[k] if k < len(program.cuts) else -1
        fresh = [op for op in todo if op not in known and op != cut]
        waiting = set(todo)
        for op in [*fresh, cut, *todo] if cut >= 0 else [*fresh, *todo]:
            _run_with_inputs(op, waiting, inputs, producer, steps)
        known.update(todo)
    return np.array(steps, np.int32)


def _run_with_inputs(
    op: int, waiting: set[int], inputs: list[list[int]], producer: list[int], steps: list[int]
) -> None:
    """Append ``op``, and before it those of its inputs' ops that wait too."""
    stack = [op]
    while stack:
        top = stack[-1]
        if top not in waiting:
            stack.pop()
            continue
        needed = [producer[value] for value in inputs[top] if producer[value] in waiting]
        if needed:
            stack += needed
            continue
        waiting.discard(top)
        steps.append(top)
        stack.pop()
