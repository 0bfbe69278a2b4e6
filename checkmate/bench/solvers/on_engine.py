"""Run trials on an engine, several at once, resuming from a journal."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkmate.bench.common.convergence import Convergence
from checkmate.bench.solvers.trials import (
    Case,
    Trial,
    Wanted,
    failed,
    make_cases,
    measure,
    needs_least_peak,
    warm_up,
)
from checkmate.errors import CancelledError, SolverCrashedError
from checkmate.frontiers.tasks import (
    Order,
    ended,
    facts_of,
    least_task,
    order,
    plain,
    result_of,
    wrong_result,
)
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveStatus
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.engine import Pool
from checkmate.sweeps.journal import Journal
from checkmate.sweeps.run import Data, SweepResult, Task, run


@dataclass(frozen=True)
class _Sent:
    order: Order
    at_once: int


def run_on(
    cases: Sequence[Case],
    solvers: Sequence[str],
    options: SolveOptions,
    pool: Pool,
    *,
    journal: Journal | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Trial]:
    """Measure every solver on every case by workers.

    The trials are in this order. A trial that fails on its worker is FAILED.

    Raises:
        CancelledError: the user cancelled; the journal has what was finished. Also what
        ``checkmate.sweeps.run.run`` raises.
    """
    pairs = [(case, solver) for case in cases for solver in solvers]
    at_once = max(1, min(pool.slots(), len(pairs)))
    tasks = [_trial_task(case, solver, options, at_once) for case, solver in pairs]
    swept = _whole(run(tasks, pool, journal=journal, report=report, cancelled=cancelled), journal)
    return [_trial(case, solver, swept, task.key) for (case, solver), task in zip(pairs, tasks, strict=True)]


def cases_on(
    graphs: Sequence[Graph],
    wanted: Sequence[Wanted],
    pool: Pool,
    *,
    journal: Journal | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[Case]:
    """Do as ``make_cases``, with the least peaks from the engine.

    They may also come from the journal, so that a resumed sweep has the same budgets.

    Raises:
        CancelledError: the user cancelled. SolverCrashedError: a least peak could not be found.
    """
    found: dict[str, int] = {}
    if any(needs_least_peak(want) for want in wanted):
        tasks = {graph.fingerprint: least_task(graph) for graph in graphs}
        swept = run(list(tasks.values()), pool, journal=journal, report=report, cancelled=cancelled)
        for name, task in tasks.items():
            if task.key in swept.failures:
                raise SolverCrashedError(
                    f"{task.name}: {swept.failures[task.key]}", hint="give budgets as sizes or shares"
                )
            found[name] = _whole(swept, journal).answers[task.key]["peak_bytes"]
    return make_cases(
        graphs, wanted, least=lambda graph: found[graph.fingerprint], report=report, cancelled=cancelled
    )


def _whole(swept: SweepResult, journal: Journal | None) -> SweepResult:
    if not swept.cancelled:
        return swept
    if journal is None:
        raise CancelledError("cancelled", hint="with --journal, the same command continues where it stopped")
    kept = f"the journal has {len(journal)} finished solves"
    raise CancelledError(
        "cancelled", hint="the same command continues where it stopped", details={"kept": kept}
    )


def _trial_task(case: Case, solver: str, options: SolveOptions, at_once: int) -> Task:
    def wrong(data: Data) -> str:
        result = data.get("result")
        if not isinstance(result, dict):
            return "it is no trial"
        if result.get("status") == SolveStatus.FAILED:
            return str(result.get("message"))
        return wrong_result(case.graph, case.budget_bytes, result)

    return Task(
        f"{case.graph.name} at {case.label}, {solver}",
        facts_of("trial", case.graph, case.budget_bytes, solver, options),
        measure_sent,
        _Sent(order(case.graph, case.budget_bytes, solver, options), at_once),
        wrong,
    )


def measure_sent(sent: _Sent) -> Data:
    """Measure what was sent, on a worker. Libraries and kernels are loaded before."""
    asked = sent.order
    warm_up([asked.solver])
    case = Case(asked.open_graph(), "", asked.budget_bytes, 0)
    trial = measure(case, asked.solver, asked.options)
    return {
        "result": plain(trial.result),
        "costs": [[float(seconds), float(cost)] for seconds, cost in trial.convergence.costs],
        "bounds": [[float(seconds), float(bound)] for seconds, bound in trial.convergence.bounds],
        "seconds": trial.seconds,
        "ended": ended(trial.result, asked.options),
        "host": platform.node(),
        "at_once": sent.at_once,
    }


def _trial(case: Case, solver: str, swept: SweepResult, key: str) -> Trial:
    if key in swept.failures:
        return Trial(case, failed(case, solver, swept.failures[key]), Convergence(), 0.0)
    data = swept.answers[key]
    convergence = Convergence(tuple(map(tuple, data["costs"])), tuple(map(tuple, data["bounds"])))
    trial = Trial(case, result_of(case.graph, data["result"]), convergence, data["seconds"])
    return replace(trial, at_once=data["at_once"], host=data["host"], ended=data["ended"])
