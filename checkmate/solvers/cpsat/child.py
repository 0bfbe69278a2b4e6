"""Solve one interval task, as a process of its own.

``python -m checkmate.solvers.cpsat.child``

In: the task as JSON, to the end of stdin. Out: JSON lines.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
from typing import Any

from checkmate.solvers.cpsat.interval_model import solve_intervals
from checkmate.solvers.cpsat.interval_solver import IntervalTask

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Solve the task and report on stdout.

    The parent kills this process to stop it. This process also ends with its parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a library may print to standard output
    lock = threading.Lock()

    def report(message: dict[str, Any]) -> None:
        with lock:
            out.write(json.dumps(message) + "\n")
            out.flush()

    try:
        solve_intervals(IntervalTask.from_json(json.load(sys.stdin)), report)
    except Exception as error:  # the edge of this process
        report({"type": "error", "message": f"{type(error).__name__}: {str(error)[:300]}"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
