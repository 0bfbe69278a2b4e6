"""The tasks of a sweep over graphs.

What a worker answers, or a journal holds, is replayed by the independent check before it counts.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from checkmate import planning
from checkmate.errors import SolveError
from checkmate.formats.schedule import result_facts
from checkmate.frontiers.sweep import trace
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.memory.check import check
from checkmate.progress import never
from checkmate.solvers.known_frontier import FrontierPoint
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.journal import Data
from checkmate.sweeps.run import Task
from checkmate.units import format_bytes

_NEARLY = 0.95  # of a time limit: a solve that took longer was ended by it


@dataclass(frozen=True, eq=False)
class GraphTask(Task):
    graph: Graph
    budget_bytes: int
    solver: str
    options: SolveOptions
    kind: ClassVar[str]

    @property
    def facts(self) -> dict[str, Any]:
        named = {"kind": self.kind, "graph": self.graph.fingerprint, "budget_bytes": self.budget_bytes}
        asked = {name: value for name, value in vars(self.options).items() if name != "start"}
        return {**named, "solver": self.solver, **asked}


class SolveTask(GraphTask):
    """One solve; ``result_of`` reads its answer."""

    kind = "solve"

    @property
    def name(self) -> str:
        return f"{self.graph.name} at {format_bytes(self.budget_bytes)}, {self.solver}"

    def work(self) -> Data:
        result = planning.solve(self.graph, self.budget_bytes, solver=self.solver, options=self.options)
        return {**plain(result), "ended": ended(result, self.options)}

    def wrong(self, data: Data) -> str:
        try:
            result = result_of(self.graph, data)
        except (KeyError, TypeError, ValueError) as error:
            return f"it is not a result ({error})"
        if result.status is SolveStatus.CANCELLED:
            return "its solve was cancelled"
        if result.budget_bytes != self.budget_bytes:
            return f"it is for {result.budget_bytes} bytes"
        if result.schedule is None or result.peak_bytes is None or result.cost is None:
            return ""
        return wrong_point(self.graph, self.budget_bytes, data["steps"], result.peak_bytes, result.cost)


def ended(result: SolveResult, options: SolveOptions) -> str:
    """Return what ended a solve: "proof", "moves", "time" or "itself".

    Only what was ended by time can differ between runs. (A proof settles the cost; where several schedules
    have it, another run may find another of them.)
    """
    if result.status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE):
        return "proof"
    if options.moves is not None and result.statistics.get("moves", -1) >= options.moves:
        return "moves"
    return "time" if result.solve_seconds >= _NEARLY * options.time_limit_s else "itself"


def plain(result: SolveResult) -> Data:
    """Return a result as JSON-able data. The bound is null where it is infinite."""
    facts = result_facts(result)
    if facts["lower_bound"] is not None and not math.isfinite(facts["lower_bound"]):
        facts["lower_bound"] = None
    return {**facts, "steps": None if result.schedule is None else result.schedule.steps.tolist()}


def result_of(graph: Graph, data: Data) -> SolveResult:
    """Return the result that ``plain`` wrote."""
    return SolveResult(
        status=SolveStatus(data["status"]),
        solver=data["solver"],
        budget_bytes=data["budget_bytes"],
        base_cost=data["base_cost"],
        schedule=None if data["steps"] is None else Schedule.of(graph, data["steps"]),
        cost=data["cost"],
        peak_bytes=data["peak_bytes"],
        lower_bound=data["lower_bound"],
        solve_seconds=data["solve_seconds"],
        assumptions=tuple(data["assumptions"]),
        message=data["message"],
    )


def wrong_point(graph: Graph, budget_bytes: int, steps: list[int], peak_bytes: int, cost: float) -> str:
    """Return what is wrong with a schedule's claims, or "". The claims are its budget, peak and cost."""
    found = check(graph, steps, budget_bytes=budget_bytes)
    if not found.ok:
        return f"the schedule does not hold: {found.problem}"
    if found.peak_bytes != peak_bytes or not math.isclose(found.cost, cost, rel_tol=1e-6, abs_tol=1e-6):
        return (
            f"the schedule has peak {found.peak_bytes} and cost {found.cost:g}, not {peak_bytes} and {cost:g}"
        )
    return ""


class LeastTask(GraphTask):
    """The least peak of the fast heuristic. Its answer has ``peak_bytes``."""

    kind = "least"

    @property
    def name(self) -> str:
        return f"{self.graph.name}: the least memory known"

    def work(self) -> Data:
        found = planning.known_minimum(self.graph, options=self.options)
        return {"peak_bytes": int(found.bytes)}

    def wrong(self, data: Data) -> str:
        return "" if isinstance(data.get("peak_bytes"), int) else "it has no peak"


class BaselineTask(GraphTask):
    """A known strategy's schedules; ``baseline_of`` reads its answer."""

    kind = "baseline"

    @property
    def name(self) -> str:
        return f"{self.graph.name}: baseline {self.solver}"

    def work(self) -> Data:
        points: list[FrontierPoint] = []
        until = time.perf_counter() + self.options.time_limit_s
        try:
            note = trace(self.graph, self.solver, points, self.options, until=until, cancelled=never)
        except SolveError as error:
            note = str(error)
        return {
            "points": [
                [
                    point.schedule.steps.tolist(),
                    int(point.peak_bytes),
                    float(point.cost),
                    int(point.budget_bytes),
                    point.seconds,
                ]
                for point in points
            ],
            "note": note,
        }

    def wrong(self, data: Data) -> str:
        try:
            points = baseline_of(self.graph, self.solver, data)[0]
        except (KeyError, TypeError, ValueError) as error:
            return f"it is no list of schedules ({error})"
        said = (
            wrong_point(self.graph, p.budget_bytes, p.schedule.steps.tolist(), p.peak_bytes, p.cost)
            for p in points
        )
        return next(filter(None, said), "")


def baseline_of(graph: Graph, name: str, data: Data) -> tuple[tuple[FrontierPoint, ...], str]:
    """Return the schedules, and a note on why there are none or fewer."""
    points = [
        FrontierPoint(Schedule.of(graph, steps), peak, cost, budget, name, seconds)
        for steps, peak, cost, budget, seconds in data["points"]
    ]
    return tuple(points), data["note"]
