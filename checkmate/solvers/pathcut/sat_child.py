"""Solve path-cut programs with CP-SAT, as a process: ``python -m checkmate.solvers.pathcut.sat_child``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkmate.processes.messages import Message
from checkmate.solvers.engine import EngineBound, EngineDone, EngineServer
from checkmate.solvers.pathcut.sat import SatTask


class SatServer(EngineServer):
    kind = "sat"

    def solve(self, task: SatTask) -> EngineDone:
        return solve_task(task, self.channel.send)


def solve_task(task: SatTask, send: Callable[[Message], None]) -> EngineDone:
    """Solve the task, and send bounds, in the task's parts, as they come."""
    from ortools.sat.python import cp_model

    model, columns = _model(cp_model, task)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = max(0.01, task.seconds)
    solver.parameters.num_workers = max(1, task.workers)
    solver.parameters.linearization_level = 2  # nearly all rows are clauses, and still the relaxation helps
    solver.best_bound_callback = lambda bound: send(EngineBound(float(bound)))
    status = solver.solve(model)
    ones: tuple[int, ...] | None = None
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        ones = tuple(place for place, x in enumerate(columns) if solver.value(x))
    return EngineDone(solver.status_name(status), float(solver.best_objective_bound), ones)


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
    SatServer.main()
