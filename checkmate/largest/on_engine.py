from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkmate.errors import (
    CancelledError,
    CheckmateError,
    InfeasibleError,
    NoScheduleError,
    SolveCancelledError,
    SolveFailedError,
    SolverCrashedError,
)
from checkmate.frontiers.tasks import facts_of
from checkmate.largest.batch import MaxBatch, cost_limit, max_batch
from checkmate.largest.scaling import BatchScaling
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.portfolio.least_memory import require_overhead
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.solvers.tolerances import ROUNDING
from checkmate.sweeps.engine import Pool
from checkmate.sweeps.journal import Journal
from checkmate.sweeps.run import Data, Task, run

# Which error an answer's exit code stands for.
_KINDS: dict[int, type[NoScheduleError]] = {
    kind.exit_code: kind for kind in (NoScheduleError, InfeasibleError, SolveCancelledError, SolveFailedError)
}


@dataclass(frozen=True, eq=False)
class BatchTask(Task):
    """One search; ``batch_of`` reads its answer, which says ``at_once``: how many may run at once."""

    scaling: BatchScaling
    budget_bytes: int
    max_overhead: float | None
    options: SolveOptions
    at_once: int = 1

    @property
    def name(self) -> str:
        return f"{self.scaling.graph.name}: the largest batch"

    @property
    def facts(self) -> dict[str, Any]:
        scaling = self.scaling
        return {
            **facts_of("max-batch", scaling.graph, self.budget_bytes, "auto", self.options),
            "larger": None if scaling.larger is None else scaling.larger.fingerprint,
            "batch": scaling.batch,
            "max_overhead": None if self.max_overhead is None else str(float(self.max_overhead)),
        }

    def work(self) -> Data:
        begun = time.perf_counter()
        try:
            found = max_batch(
                self.scaling, self.budget_bytes, max_overhead=self.max_overhead, options=self.options
            )
        except NoScheduleError as error:  # an answer too
            none = {
                "message": str(error),
                "hint": error.hint,
                "exit_code": error.exit_code,
                "seconds": time.perf_counter() - begun,
            }
            return {"none": none, "at_once": self.at_once}
        bound = found.result.lower_bound
        return {
            "batch": found.batch,
            "upper_batch": found.upper_batch,
            "plain_batch": found.plain_batch,
            "baselines": dict(found.baselines),
            "unfinished": sorted(found.unfinished),
            "steps": found.result.require_schedule().steps.tolist(),
            "lower_bound": None if bound is None or not math.isfinite(bound) else float(bound),
            "seconds": found.seconds,
            "probes": found.probes,
            "at_once": self.at_once,
        }

    def wrong(self, data: Data) -> str:
        try:
            found = batch_of(self, data)
        except NoScheduleError:
            return ""
        except CheckmateError as error:
            return str(error)
        except (KeyError, TypeError, ValueError) as error:
            return f"it is no largest batch ({type(error).__name__}: {error})"
        if found.result.cost is None or found.result.cost > found.cost_limit * (1 + ROUNDING) + ROUNDING:
            return f"its schedule costs {found.result.cost}, more than {found.cost_limit:g}"
        told = [found.plain_batch, *(batch for batch in found.baselines.values() if batch is not None)]
        if found.upper_batch < found.batch or max(told) > found.batch:
            return "its batches contradict each other"
        return ""


def batch_of(task: BatchTask, data: Data) -> MaxBatch:
    """Return what was found, with its schedule replayed by the independent check.

    Raises:
        NoScheduleError: nothing was found. SolverCrashedError: the schedule does not hold.
    """
    if "none" in data:
        none = data["none"]
        raise _KINDS[int(none["exit_code"])](str(none["message"]), hint=str(none["hint"]))
    graph = task.scaling.at(data["batch"])
    result = with_schedule(
        Problem(graph, task.budget_bytes),
        "auto",
        data["steps"],
        lower_bound=data["lower_bound"],
        seconds=data["seconds"],
    )
    return MaxBatch(
        graph,
        task.scaling,
        data["batch"],
        data["upper_batch"],
        result,
        cost_limit(graph, task.max_overhead),
        task.max_overhead,
        data["plain_batch"],
        data["baselines"],
        frozenset(data["unfinished"]),
        data["seconds"],
        probes=data["probes"],
        at_once=data["at_once"],
    )


def max_batches_on(
    steps: Sequence[BatchScaling],
    budget_bytes: int,
    pool: Pool,
    *,
    max_overhead: float | None = None,
    options: SolveOptions | None = None,
    journal: Journal | None = None,
    report: Report = silent,
    cancelled: Cancelled = never,
) -> list[MaxBatch | CheckmateError]:
    """Return what ``max_batch`` finds for each of ``steps``, or the error that says why not.

    The options' time limit is for each search. Cancelling keeps what was finished: the others are a
    CancelledError.

    Raises:
        UsageError: the extra cost is negative. And those of ``checkmate.sweeps.run.run``.
    """
    require_overhead(max_overhead)
    at_once = max(1, min(pool.slots(), len(steps)))
    tasks = [
        BatchTask(step, budget_bytes, max_overhead, options or SolveOptions(), at_once) for step in steps
    ]
    swept = run(tasks, pool, journal=journal, report=report, cancelled=cancelled)
    found: list[MaxBatch | CheckmateError] = []
    for task in tasks:
        if task.key in swept.failures:
            found.append(
                SolverCrashedError(swept.failures[task.key], hint="try again, or leave the engine out")
            )
        elif task.key not in swept.answers:
            found.append(CancelledError("interrupted before it was finished"))
        else:
            try:
                found.append(batch_of(task, swept.answers[task.key]))
            except NoScheduleError as error:
                found.append(error)
    return found
