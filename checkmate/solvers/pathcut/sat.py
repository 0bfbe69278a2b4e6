"""Solve path-cut programs with CP-SAT, in a process that stays: ortools and highspy cannot be in one.

On programs of many cuts it is several times as fast as HiGHS: what decides them is which values are kept, and
it learns from each choice that failed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from checkmate.ir import Graph, Schedule
from checkmate.ir.arrays import Steps
from checkmate.memory.simulate import simulate
from checkmate.processes.conversation import Conversation
from checkmate.progress import Cancelled
from checkmate.solvers.engine import ENGINE_MESSAGES, EngineBound, EngineDone, answers
from checkmate.solvers.pathcut.cut_program import (
    CutOutcome,
    cost_bound,
    solve_program,
    start_of,
    steps_from,
    values_of,
)
from checkmate.solvers.pathcut.cuts import CutProgram
from checkmate.solvers.problem import Listener

# Parts of a program's unit of cost. Finer costs take longer: a solution may be better by very little then.
_PARTS = 1e5


@dataclass(frozen=True)
class SatTask:
    """Minimise the cost of columns that are 0 or 1.

    ``clauses``: (columns, others): one of the columns is 1, or one of the others is 0. ``sums``: (columns,
    factors, low): the sum is at least ``low``. ``most``: no solution above it is wanted; None: all are.
    ``hint``: the values of the first columns in a solution; it may be empty.
    """

    cost: list[int]
    clauses: list[tuple[list[int], list[int]]]
    sums: list[tuple[list[int], list[int], int]]
    most: int | None
    hint: list[int]
    seconds: float
    workers: int


def parts_of(program: CutProgram) -> float:
    """How many parts a unit of the program's cost has in its task: one where all costs are whole."""
    return 1.0 if bool((program.cost == np.floor(program.cost)).all()) else _PARTS


def sat_task(
    program: CutProgram, *, start: NDArray[np.float64] | None, most: float, seconds: float, workers: int
) -> SatTask:
    """``start``: the values of the first columns in a solution; ``most``: its cost, else infinite."""
    parts, rows = parts_of(program), program.rows
    clauses: list[tuple[list[int], list[int]]] = []
    sums: list[tuple[list[int], list[int], int]] = []
    for row, low in enumerate(rows.low):
        where = slice(rows.starts[row], rows.starts[row + 1])
        columns, factors = rows.columns[where], [round(entry) for entry in rows.entries[where]]
        negative = [column for column, factor in zip(columns, factors, strict=True) if factor < 0]
        if all(factor in (1, -1) for factor in factors) and round(low) == 1 - len(negative):
            clauses.append(([c for c, factor in zip(columns, factors, strict=True) if factor > 0], negative))
        else:
            sums.append((columns, factors, round(low)))
    return SatTask(
        cost=[math.floor(cost * parts) for cost in program.cost.tolist()],
        clauses=clauses,
        sums=sums,
        most=None if math.isinf(most) else math.ceil((most - program.offset) * parts),
        hint=[] if start is None else [round(value) for value in start.tolist()],
        seconds=seconds,
        workers=workers,
    )


_LEAVE_S = 3.0  # beyond the time limit, for the library to load and to leave


class SatProcess:
    """A child process that solves one program at a time; close it. ``usable`` is false once it failed."""

    def __init__(self) -> None:
        self._talk: Conversation | None = None
        self.usable = find_spec("ortools") is not None

    def solve(
        self,
        graph: Graph,
        program: CutProgram,
        listener: Listener,
        *,
        time_limit_s: float,
        workers: int,
        start: NDArray[np.int32] | None,
    ) -> CutOutcome:
        """Return the least cost, or what is known of it in time; none above that of ``start``."""
        values, most = None, math.inf
        if start is not None:
            values = start_of(graph, program, start)
            most = float(program.cost[: len(values)] @ values) + program.offset
        task = sat_task(program, start=values, most=most, seconds=time_limit_s, workers=workers)
        # Nothing above ``most`` is looked at, so nothing above it is proved.
        highest = math.inf if task.most is None else task.most
        known = graph.base_cost

        def take(parts: float) -> None:
            nonlocal known
            if math.isfinite(parts):
                bound = min(parts, highest) / parts_of(program) + program.offset
                known = max(known, cost_bound(graph, program, bound))
                listener.bound(known, ())

        done = self._ask(task, listener.cancelled, take)
        if done is None:
            return CutOutcome(known, False, None)
        if done.status == "INFEASIBLE":
            take(highest)
            return CutOutcome(math.inf if task.most is None else known, task.most is None, None)
        if done.status in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
            take(done.bound)
        runs = None if done.ones is None else _runs_of(program, done.ones)
        return CutOutcome(known, done.status == "OPTIMAL", runs)

    def _ask(
        self, task: SatTask, cancelled: Cancelled, on_bound: Callable[[float], None]
    ) -> EngineDone | None:
        """Return the child's last message about ``task``; None: there is none."""
        if self._talk is None:
            self._talk = Conversation("checkmate.solvers.pathcut.sat_child", ENGINE_MESSAGES)
        seconds = task.seconds + _LEAVE_S
        for message in answers(self._talk, task, loading_s=seconds, seconds=seconds, cancelled=cancelled):
            if isinstance(message, EngineBound):
                on_bound(message.bound)
            elif isinstance(message, EngineDone) and _names_columns(message, len(task.cost)):
                return message
            else:
                self.usable = False
                break
        self.close()
        return None

    def close(self) -> None:
        """Kill the child; the next program starts another."""
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.close()


def _names_columns(done: EngineDone, columns: int) -> bool:
    return done.ones is None or all(0 <= each < columns for each in done.ones)


def _runs_of(program: CutProgram, ones: tuple[int, ...]) -> NDArray[np.bool_]:
    solution = np.zeros(program.columns)
    solution[list(ones)] = 1.0
    return values_of(program, solution) > 0.0


# CP-SAT is asked where more than _LEAST_S seconds are left, since it takes half a second to load, for a
# program of at most _MOST_COLUMNS columns that HiGHS did not solve in _QUICK_S.
_LEAST_S, _MOST_COLUMNS, _QUICK_S = 4.0, 60_000, 1.0


@dataclass
class Engines:
    """The libraries that solve one prover's programs. ``stop`` ends the process that may run beside it."""

    graph: Graph
    budget_bytes: int
    workers: int
    with_sat: bool = True
    _sat: SatProcess = field(init=False, default_factory=SatProcess)
    _hard: bool = field(init=False, default=False)  # HiGHS was too slow for one; later ones are larger

    def solve(
        self,
        program: CutProgram,
        listener: Listener,
        *,
        seconds: float,
        start: Steps | None,
    ) -> CutOutcome:
        """Return the least cost, or what is known of it in time. ``start``: a schedule within the budget."""
        until = time.perf_counter() + seconds

        def by_highs(seconds: float, start: Steps | None) -> CutOutcome:
            return solve_program(
                self.graph, program, listener, time_limit_s=seconds, workers=self.workers, start=start
            )

        if not self._suits_sat(program, seconds):
            return by_highs(seconds, start)
        quick: CutOutcome | None = None
        if not self._hard:
            quick = by_highs(min(_QUICK_S, seconds), start)
            if quick.exact or listener.cancelled():
                return quick
            self._hard = True
        found = self._sat.solve(
            self.graph,
            program,
            listener,
            time_limit_s=until - time.perf_counter(),
            workers=self.workers,
            start=start,
        )
        fits = self._fitting(program, found)
        left = until - time.perf_counter()
        if (fits is not None or not self._sat.usable) and left > 0 and not listener.cancelled():
            rest = by_highs(left, start if fits is None else fits)
            found = replace(rest, bound=max(rest.bound, found.bound))
        return found if quick is None else replace(found, bound=max(quick.bound, found.bound))

    def _suits_sat(self, program: CutProgram, seconds: float) -> bool:
        several = len(program.cuts) > 1 and program.columns <= _MOST_COLUMNS
        return several and seconds > _LEAST_S and self.with_sat and self._sat.usable

    def _fitting(self, program: CutProgram, found: CutOutcome) -> Steps | None:
        if not found.exact or found.runs is None:
            return None
        steps = steps_from(self.graph, program, found.runs)
        peak = simulate(self.graph, Schedule.of(self.graph, steps)).peak_bytes
        return steps if peak <= self.budget_bytes else None

    def stop(self) -> None:
        self._sat.close()
