"""Solve path-cut programs with CP-SAT, as a process of its own.

``python -m checkmate.solvers.pathcut.sat_child``

In: a ``SatTask`` as JSON on each line. Out: JSON lines, for each task any number of ``bound``, then ``done``
or ``error``. It ends with its input. ortools and highspy cannot be in one process, so this is not the
prover's.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from checkmate.solvers.pathcut.sat import SatTask

_PR_SET_PDEATHSIG = 1
Tell = Callable[[dict[str, Any]], None]


def main() -> None:
    """Solve one task after another; the parent kills this process to stop it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library may print to standard output
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True, name="tasks").start()
    lock = threading.Lock()

    def report(message: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(message) + "\n")
            out.flush()

    while True:
        line = lines.get()
        try:
            solve_task(SatTask.from_json(json.loads(line)), report)
        except Exception as error:  # the edge of this process
            report({"type": "error", "message": f"{type(error).__name__}: {str(error)[:300]}"})


def _read(lines: queue.SimpleQueue[str]) -> None:
    """Pass on the lines of standard input; end this process at its end."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def solve_task(task: SatTask, report: Tell) -> None:
    """Solve the task, and report to ``report``.

    ``bound``: no solution costs less, in the task's parts. ``done``: the status, the bound, and the columns
    that are 1 in the best solution; null if there is none.
    """
    from ortools.sat.python import cp_model

    model, columns = _model(cp_model, task)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.01, task.seconds)
    solver.parameters.num_workers = max(1, task.workers)
    solver.parameters.linearization_level = 2  # nearly all rows are clauses, and still the relaxation helps
    solver.best_bound_callback = lambda bound: report({"type": "bound", "bound": float(bound)})
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    report(
        {
            "type": "done",
            "status": solver.status_name(status),
            "bound": float(solver.best_objective_bound),
            "ones": [place for place, x in enumerate(columns) if solver.value(x)] if found else None,
        }
    )


def _model(cp_model: Any, task: SatTask) -> tuple[Any, list[Any]]:
    model = cp_model.CpModel()
    columns = [model.new_bool_var("") for _ in task.cost]
    for some, others in task.clauses:
        model.add_bool_or([*(columns[c] for c in some), *(~columns[c] for c in others)])
    for where, factors, low in task.sums:
        model.add(cp_model.LinearExpr.weighted_sum([columns[c] for c in where], factors) >= low)
    priced = [place for place, cost in enumerate(task.cost) if cost]
    cost = cp_model.LinearExpr.weighted_sum(
        [columns[place] for place in priced], [task.cost[place] for place in priced]
    )
    if task.most is not None:
        model.add(cost <= task.most)
    model.minimize(cost)
    for place, value in enumerate(task.hint):
        model.add_hint(columns[place], value)
    return model, columns


if __name__ == "__main__":
    main()
