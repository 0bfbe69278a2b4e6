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
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.ir.graph import Graph
from checkmate.machine.own_modules import beyond_ctrl_c, module_command
from checkmate.progress import Cancelled
from checkmate.solvers.pathcut.cuts import CutProgram
from checkmate.solvers.pathcut.program import CutOutcome, cost_bound, start_of, values_of
from checkmate.solvers.pathcut.sat_task import SatTask, parts_of, read_answer, sat_task

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
        *,
        time_limit_s: float,
        workers: int,
        cancelled: Cancelled,
        on_bound: Callable[[float], None],
        start: NDArray[np.int32] | None,
    ) -> CutOutcome:
        """Return the least cost of the program, or what is known of it in time.

        ``start``: a schedule; no solution that costs more is looked for. ``usable`` is false from now on if
        the process failed.
        """
        values, most = None, math.inf
        if start is not None:
            values = start_of(graph, program, start)[1]
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
                on_bound(known)

        done = self._ask(task, cancelled, lambda message: take(message["bound"]))
        if done is None:
            return CutOutcome(known, False, None)
        if done["status"] == "INFEASIBLE":
            take(highest)
            return CutOutcome(math.inf if task.most is None else known, task.most is None, None)
        if done["status"] in ("OPTIMAL", "FEASIBLE", "UNKNOWN"):
            take(done["bound"])
        runs = None if done["ones"] is None else _runs_of(program, done["ones"])
        return CutOutcome(known, done["status"] == "OPTIMAL", runs)

    def _ask(
        self, task: SatTask, cancelled: Cancelled, on_bound: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any] | None:
        """Return the child's last message about ``task``; None: there is none."""
        child = self._child or self._start()
        threading.Thread(target=_tell, args=(child, json.dumps(task.to_json())), daemon=True).start()
        until = time.perf_counter() + task.seconds + _LEAVE_S
        while time.perf_counter() < until and not cancelled():
            try:
                line = self._lines.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            message = _message(line, len(task.cost))
            if message["type"] == "done":
                done: dict[str, Any] = message
                return done
            if message["type"] == "error":
                self.usable = False
                break
            on_bound(message)
        self.close()
        return None

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
