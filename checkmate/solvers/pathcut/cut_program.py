"""Solve a path-cut program with HiGHS, interruptibly; read a schedule from its solution."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph
from checkmate.progress import Cancelled
from checkmate.solvers.highs import HighsListener, HighsProgram, PackedRows, linear_program
from checkmate.solvers.pathcut.cuts import CutProgram
from checkmate.solvers.problem import Listener
from checkmate.solvers.tolerances import round_up_if_whole

_ROOM = 1000.0  # the budget, in HiGHS's program
_HALF = 0.499  # if costs tie, a run may be split between two intervals: then it is in both


@dataclass(frozen=True, eq=False)
class CutOutcome:
    """The result of a program. ``bound``: infinite if no schedule exists.

    ``exact``: the program was solved to the end. ``runs``: bool[n, K + 1], the best y found.
    """

    bound: float
    exact: bool
    runs: NDArray[np.bool_] | None


@dataclass(frozen=True, eq=False)
class Relaxation:
    """The result of a program's linear relaxation; its bound is the base cost if the time was too short.

    ``price``: float64[K], what each cut's budget costs. ``shares``: float64[n, K + 1], its y.
    """

    bound: float
    price: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None


def solve_program(
    graph: Graph,
    program: CutProgram,
    listener: Listener,
    *,
    time_limit_s: float,
    workers: int,
    start: NDArray[np.int32] | None = None,
) -> CutOutcome:
    """Return the least cost, or what is known of it in time. ``start``: a schedule within the budget."""
    if _is_impossible(program):
        return CutOutcome(math.inf, True, None)
    solve = HighsProgram(_as_lp(program, relaxed=False), workers=workers)
    heard = _CutListener(graph, program, listener)
    solve.run(
        "path-cut",
        until=time.perf_counter() + time_limit_s,
        cancelled=listener.cancelled,
        daemon=True,
        start=None if start is None else start_of(graph, program, start),
        listener=heard,
    )
    if solve.infeasible:
        return CutOutcome(math.inf, True, None)
    bound, solution = max(heard.best_bound, solve.bound), solve.solution
    return CutOutcome(
        cost_bound(graph, program, bound) if math.isfinite(bound) else graph.base_cost,
        solve.solved,
        None if solution is None else values_of(program, solution) > _HALF,
    )


class _CutListener(HighsListener):
    def __init__(self, graph: Graph, program: CutProgram, listener: Listener) -> None:
        super().__init__()
        self._graph, self._program, self._listener = graph, program, listener

    def bound(self, bound: float) -> None:
        self._listener.bound(cost_bound(self._graph, self._program, bound), ())


def relax_program(
    graph: Graph, program: CutProgram, *, time_limit_s: float, cancelled: Cancelled
) -> Relaxation:
    if _is_impossible(program):
        return Relaxation(math.inf)
    solve = HighsProgram(_as_lp(program, relaxed=True), workers=1)
    solve.run("path-cut", until=time.perf_counter() + time_limit_s, cancelled=cancelled, daemon=True)
    if solve.infeasible:
        return Relaxation(math.inf)
    solution = solve.solution
    if not solve.solved or solution is None:
        return Relaxation(graph.base_cost)
    return Relaxation(
        cost_bound(graph, program, solve.objective),
        np.append(solve.row_prices, 0.0)[np.array(program.memory)],
        values_of(program, solution),
    )


def _is_impossible(program: CutProgram) -> bool:
    starts = np.array(program.rows.starts)
    low = np.array(program.rows.low)
    return bool(((np.diff(starts) == 0) & (low > 1e-9)).any())


def _as_lp(program: CutProgram, *, relaxed: bool) -> Any:
    rows = program.rows
    starts, low = np.array(rows.starts, np.int32), np.array(rows.low, np.float64)
    scale = np.ones(len(low))
    scale[[row for row in program.memory if row >= 0]] = _ROOM / max(program.room, 1)
    packed = PackedRows(
        starts,
        np.array(rows.columns, np.int32),
        np.array(rows.entries, np.float64) * np.repeat(scale, np.diff(starts)),
        low * scale,
        np.full(len(low), np.inf),
    )
    column = np.arange(program.columns)
    return linear_program(
        packed,
        program.cost,
        np.zeros(program.columns),
        np.ones(program.columns),
        offset=program.offset,
        whole=None if relaxed else (column >= program.first_held) & (column < program.end_held),
    )


def start_of(graph: Graph, program: CutProgram, steps: NDArray[np.int32]) -> NDArray[np.float64]:
    """The values of y and a, the first columns, in a schedule."""
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
    return values[: program.end_held]


def cost_bound(graph: Graph, program: CutProgram, bound: float) -> float:
    """The bound in the graph's unit, whole if all costs are, but at least the base cost."""
    return max(float(round_up_if_whole(graph.cost, bound * program.unit)), graph.base_cost)


def values_of(program: CutProgram, solution: NDArray[np.float64]) -> NDArray[np.float64]:
    """y as float64[n, K + 1], with the fixed ones."""
    # The codes _YES and _NO count from the end.
    values: NDArray[np.float64] = np.concatenate([solution, [1.0, 0.0]])[program.runs]
    return values


def steps_from(graph: Graph, program: CutProgram, runs: NDArray[np.bool_]) -> NDArray[np.int32]:
    """The schedule that runs ops as late as their first use in each interval allows."""
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
