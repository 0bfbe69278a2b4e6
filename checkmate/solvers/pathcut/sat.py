"""Solve path-cut programs with CP-SAT, in a process that stays.

On programs of many cuts it is several times as fast as HiGHS: what decides them is which values are kept, and
it learns from each choice that failed. It needs ortools, which cannot be in one process with highspy.
"""

from __future__ import annotations

import json
import math
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.arrays import Steps
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.machine.own_modules import beyond_ctrl_c, module_command
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled
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
    factors, low): the sum is at least ``low``. ``cost``: of each column. ``most``: no solution above it is
    wanted; None: all are. ``hint``: the values of the first columns in a solution; it may be empty.
    """

    cost: list[int]
    clauses: list[tuple[list[int], list[int]]]
    sums: list[tuple[list[int], list[int], int]]
    most: int | None
    hint: list[int]
    seconds: float
    workers: int

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**data)


def parts_of(program: CutProgram) -> float:
    """Return how many parts a unit of the program's cost has in its task.

    One where all costs are whole, so that nothing is rounded.
    """
    return 1.0 if bool((program.cost == np.floor(program.cost)).all()) else _PARTS


def sat_task(
    program: CutProgram, *, start: NDArray[np.float64] | None, most: float, seconds: float, workers: int
) -> SatTask:
    """Return the task of ``program``.

    ``start``: the values of its first columns in a solution. ``most``: what that costs, in the program's
    unit; infinite if there is none.
    """
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


def read_answer(line: str, columns: int) -> dict[str, Any]:
    """Return a line of the process as a message.

    ``columns``: how many the task has.

    Raises:
        ValueError: it was cut or damaged.
    """
    try:
        message: dict[str, Any] = json.loads(line)
        if message["type"] not in ("bound", "done", "error"):
            raise ValueError(f"{message['type']!r} is no message")
        if message["type"] != "error":
            message["bound"] = float(message["bound"])
        if message["type"] == "done":
            message["status"], ones = str(message["status"]), message["ones"]
            if ones is not None and not all(type(each) is int and 0 <= each < columns for each in ones):
                raise ValueError("it names no column")
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return message


_POLL_S = 0.02
_LEAVE_S = 3.0  # beyond the time limit, for the library to load and to leave


class SatProcess:
    """A child process that solves one program at a time; close it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
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
        """Return the least cost of the program, or what is known of it in time.

        ``start``: a schedule; no solution that costs more is looked for. ``usable`` is false from now on if
        the process failed.
        """
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

        done = None
        for message in self._answers(task, listener.cancelled):
            if message["type"] == "done":
                done = message
            else:
                take(message["bound"])
        if done is None:
            return CutOutcome(known, False, None)
        if done["status"] == "INFEASIBLE":
            take(highest)
            return CutOutcome(math.inf if task.most is None else known, task.most is None, None)
        if done["status"] in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
            take(done["bound"])
        runs = None if done["ones"] is None else _runs_of(program, done["ones"])
        return CutOutcome(known, done["status"] == "OPTIMAL", runs)

    def _answers(self, task: SatTask, cancelled: Cancelled) -> Iterator[dict[str, Any]]:
        """Yield the child's messages; the last one is ``done`` unless it was stopped or failed."""
        child = self._child or self._start()
        threading.Thread(target=_tell, args=(child, json.dumps(task.to_json())), daemon=True).start()
        until = time.perf_counter() + task.seconds + _LEAVE_S
        while time.perf_counter() < until and not cancelled():
            try:
                line = self._lines.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            message = _message(line, len(task.cost))
            if message["type"] == "error":
                self.usable = False
                break
            yield message
            if message["type"] == "done":
                return
        self.close()

    def _start(self) -> subprocess.Popen[str]:
        with beyond_ctrl_c():
            child = subprocess.Popen(
                module_command("checkmate.solvers.pathcut.sat_child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        self._child, self._lines = child, queue.SimpleQueue()
        threading.Thread(target=_listen, args=(child, self._lines), daemon=True, name="sat").start()
        return child

    def close(self) -> None:
        """Kill the child; the next program starts another."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        with suppress(OSError):  # what was not read is lost
            if child.stdin is not None:
                child.stdin.close()


def _message(line: str | None, columns: int) -> dict[str, Any]:
    """Return what the child said. It is an error where the child ended, or said what cannot be read."""
    try:
        return {"type": "error"} if line is None else read_answer(line, columns)
    except ValueError:
        return {"type": "error"}


def _tell(child: subprocess.Popen[str], line: str) -> None:
    """Write one task; its writer must not wait for a child that is loading."""
    assert child.stdin is not None
    try:
        child.stdin.write(line + "\n")
        child.stdin.flush()
    except (OSError, ValueError):
        return  # the thread that listens notices that it ended


def _listen(child: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    """Pass on the child's lines; None at their end."""
    assert child.stdout is not None
    with child.stdout:
        for line in child.stdout:
            lines.put(line)
    lines.put(None)


def _runs_of(program: CutProgram, ones: list[int]) -> NDArray[np.bool_]:
    solution = np.zeros(program.columns)
    solution[ones] = 1.0
    return values_of(program, solution) > 0.0


# CP-SAT is asked where more than _LEAST_S seconds are left, since it takes half a second to load, for a
# program of at most _MOST_COLUMNS columns that HiGHS did not solve in _QUICK_S.
_LEAST_S, _MOST_COLUMNS, _QUICK_S = 4.0, 60_000, 1.0


@dataclass
class Engines:
    """The libraries that solve one prover's programs.

    ``with_sat``: whether CP-SAT may solve any. ``stop`` ends the process that may run beside it.
    """

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
        """Return the least cost of the program, or what is known of it in time.

        ``start``: a schedule within the budget.
        """
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
        """Return the schedule of a solved program; None where it does not fit."""
        if not found.exact or found.runs is None:
            return None
        steps = steps_from(self.graph, program, found.runs)
        peak = simulate(self.graph, Schedule.of(self.graph, steps)).peak_bytes
        return steps if peak <= self.budget_bytes else None

    def stop(self) -> None:
        """End CP-SAT's process; the next program that needs it starts another."""
        self._sat.close()
