"""Repeat the paper's evaluation on an engine, resuming from a journal.

Batches and curves are tasks per network, roundings are tasks per budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from checkmate.bench.common.rows import Row
from checkmate.bench.paper.questions import (
    PaperPlan,
    PaperRows,
    batch_row,
    curve_of,
    rounding_row,
    split_known,
)
from checkmate.bench.solvers.trials import warm_up
from checkmate.errors import NoScheduleError, SolverCrashedError
from checkmate.frontiers.tasks import facts_of, result_of, solve_task, wrong_point
from checkmate.graphs.paper import PaperNetwork, find_network
from checkmate.ir.graph import Graph
from checkmate.largest.scaling import BatchScaling
from checkmate.largest.task import batch_of, batch_task
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.engine import Pool
from checkmate.sweeps.journal import Journal
from checkmate.sweeps.run import Data, SweepResult, Task, run

_ROUNDING = "lp-rounding"


@dataclass(frozen=True)
class CurveOrder:
    """Describe one network's curve for a worker.

    The network is sent by its name; the rest is as ``PaperPlan`` has it.
    """

    network: str
    budgets: tuple[str, ...]
    fractions: tuple[float, ...]
    options: SolveOptions
    at_once: int


def run_on(
    plan: PaperPlan,
    pool: Pool,
    *,
    journal: Journal | None = None,
    done: Sequence[Row] = (),
    save: Callable[[list[Row]], None] = lambda rows: None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> PaperRows:
    """Do as ``checkmate.bench.paper.questions.run``, on an engine.

    ``save`` is called twice, as roundings need the curves' budgets. The journal has each answer. A row says
    how many tasks were ``at_once``: its seconds are then not those of a solver alone.

    Raises:
        SolverCrashedError: a task failed; the other rows have been saved. Also what
        ``checkmate.sweeps.run.run`` raises.
    """
    rows, others = split_known(plan, done)
    swept, crashed = SweepResult(), list[str]()
    for kinds in (("batch", "curve"), ("rounding",)):
        asked = [
            (kind, network)
            for kind, network in plan.tasks()
            if kind in kinds and (kind, network.name) not in rows
        ]
        asked = [one for one in asked if one[0] != "rounding" or ("curve", one[1].name) in rows]
        at_once = max(1, min(pool.slots(), len(asked)))
        pieces = {(kind, network.name): _tasks(plan, kind, network, rows, at_once) for kind, network in asked}
        tasks = [task for piece in pieces.values() for task in piece]
        swept = run(tasks, pool, journal=journal, report=report, cancelled=cancelled)
        crashed += [
            f"{task.name}: {swept.failures[task.key]}" for task in tasks if task.key in swept.failures
        ]
        for kind, network in asked:
            piece = pieces[kind, network.name]
            if all(task.key in swept.answers for task in piece):
                answers = [swept.answers[task.key] for task in piece]
                # A journal's answer may be from a run of more at once; the curve's row says how many.
                crowd = max(at_once, rows.get(("curve", network.name), {}).get("at_once", 1))
                row = {"at_once": crowd, **_row(plan, kind, network, answers)}
                rows[kind, network.name] = {
                    "kind": kind, "model": network.name, "asked": plan.asked(kind), **row
                }  # fmt: skip
        save([*_ordered(plan, rows), *others])
        if swept.cancelled:
            break
    if crashed:
        raise SolverCrashedError(crashed[0], hint="the same command tries the failed tasks again")
    return PaperRows(_ordered(plan, rows), swept.cancelled)


def _ordered(plan: PaperPlan, rows: dict[tuple[str, str], Row]) -> list[Row]:
    keys = [(kind, network.name) for kind, network in plan.tasks()]
    return [rows[key] for key in keys if key in rows]


def _tasks(
    plan: PaperPlan, kind: str, network: PaperNetwork, rows: dict[tuple[str, str], Row], at_once: int
) -> list[Task]:
    graph = network.graph()
    if kind == "batch":
        return [batch_task(BatchScaling(graph), plan.device_bytes, None, plan.options, at_once)]
    if kind == "curve":
        return [curve_task(plan, network, graph, at_once)]
    budgets = [row["budget_bytes"] for row in rows["curve", network.name]["curve"]["budgets"]]
    return [solve_task(graph, budget, _ROUNDING, plan.options) for budget in budgets]


def _row(plan: PaperPlan, kind: str, network: PaperNetwork, answers: list[Data]) -> Row:
    graph = network.graph()
    if kind == "batch":
        try:
            found = batch_of(BatchScaling(graph), plan.device_bytes, None, answers[0])
        except NoScheduleError as error:
            return {"batch": None, "message": str(error), "seconds": answers[0]["none"]["seconds"]}
        return {**batch_row(found, plan.device_bytes), "at_once": found.at_once}
    if kind == "curve":
        return dict(answers[0]["row"])
    results = [result_of(graph, answer) for answer in answers]
    return rounding_row(results, sum(result.solve_seconds for result in results))


def curve_task(plan: PaperPlan, network: PaperNetwork, graph: Graph, at_once: int) -> Task:
    """Return the task of a network's whole curve.

    Its answer is a ``row``, and the ``schedules`` behind it: budget, steps, peak and cost of each.
    """
    asked = {"budgets": list(plan.budgets), "fractions": list(plan.fractions)}
    return Task(
        f"{network.title}: curve",
        facts_of("paper-curve", graph, 0, "auto", plan.options) | asked,
        curve_sent,
        CurveOrder(network.name, plan.budgets, plan.fractions, plan.options, at_once),
        lambda data: wrong_curve(graph, data),
    )


def curve_sent(sent: CurveOrder) -> Data:
    """Solve a network's curve, on a worker. Libraries and kernels are loaded before."""
    warm_up(["auto"])
    network = find_network(sent.network)
    plan = PaperPlan((network,), budgets=sent.budgets, fractions=sent.fractions, options=sent.options)
    found, row = curve_of(plan, network, silent, never)
    points = [(each.budget_bytes, each.point) for each in found.rows if each.point is not None]
    return {
        "row": {**row, "at_once": sent.at_once},
        "schedules": [
            [int(budget), point.schedule.steps.tolist(), int(point.peak_bytes), float(point.cost)]
            for budget, point in points
        ],
    }


def wrong_curve(graph: Graph, data: Data) -> str:
    """Return what is wrong with an answer, or "". Every cost in the row must have a schedule that holds."""
    try:
        told: dict[int, Any] = {
            row["budget_bytes"]: (row["peak_bytes"], row["cost"])
            for row in data["row"]["curve"]["budgets"]
            if row["cost"] is not None
        }
        if told != {budget: (peak, cost) for budget, _, peak, cost in data["schedules"]}:
            return "its schedules are not those of its budgets"
        said = (wrong_point(graph, *point) for point in data["schedules"])
        return next(filter(None, said), "")
    except (KeyError, TypeError, ValueError) as error:
        return f"it is no curve ({type(error).__name__}: {error})"
