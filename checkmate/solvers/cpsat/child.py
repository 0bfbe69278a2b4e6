"""Solve an interval task, as a process of its own: ``python -m checkmate.solvers.cpsat.child``."""

from __future__ import annotations

from checkmate.solvers.cpsat.interval_model import solve_intervals
from checkmate.solvers.cpsat.interval_solver import IntervalTask
from checkmate.solvers.engine import EngineDone, EngineServer


class IntervalServer(EngineServer):
    kind = "intervals"

    def solve(self, task: IntervalTask) -> EngineDone:
        return solve_intervals(task, self.channel.send)


if __name__ == "__main__":
    IntervalServer.main()
