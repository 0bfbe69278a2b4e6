"""Search for the largest batches of several steps on an engine, each as one piece of a sweep.

Here are the order, the answer, and the answer's check.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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
from checkmate.formats.graph import graph_from_json, graph_to_json
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

_SENT = Path("the graph that was sent")
# Which error an answer's exit code stands for.
_KINDS: dict[int, type[NoScheduleError]] = {
    kind.exit_code: kind for kind in (NoScheduleError, InfeasibleError, SolveCancelledError, SolveFailedError)
}


@dataclass(frozen=True)
class BatchOrder:
    """A step by value (one graph's JSON, or two), and what is asked of it.

    ``at_once`` is how many searches may run at once, for the answer to say.
    """

    graph: dict[str, Any]
    larger: dict[str, Any] | None
    batch: int
    budget_bytes: int
    max_overhead: float | None
    options: SolveOptions
    at_once: int

    def open(self) -> BatchScaling:
        """Return how the step scales."""
        larger = None if self.larger is None else graph_from_json(_SENT, self.larger)
        return BatchScaling(graph_from_json(_SENT, self.graph), self.batch, larger)


def batch_task(
    scaling: BatchScaling,
    budget_bytes: int,
    max_overhead: float | None,
    options: SolveOptions,
    at_once: int = 1,
) -> Task:
    """Return one search as a task; ``batch_of`` reads its answer."""
    larger = scaling.larger
    asked = {
        "larger": None if larger is None else larger.fingerprint,
        "batch": scaling.batch,
        "max_overhead": None if max_overhead is None else str(float(max_overhead)),
    }
    sent = BatchOrder(
        graph_to_json(scaling.graph),
        None if larger is None else graph_to_json(larger),
        scaling.batch,
        budget_bytes,
        max_overhead,
        options,
        at_once,
    )
    return Task(
        f"{scaling.graph.name}: the largest batch",
        facts_of("max-batch", scaling.graph, budget_bytes, "auto", options) | asked,
        batch_sent,
        sent,
        lambda data: wrong_batch(scaling, budget_bytes, max_overhead, data),
    )


def batch_sent(sent: BatchOrder) -> Data:
    """Search for what was sent, on a worker. That there is no batch is an answer too."""
    begun = time.perf_counter()
    try:
        found = max_batch(
            sent.open(), sent.budget_bytes, max_overhead=sent.max_overhead, options=sent.options
        )
    except NoScheduleError as error:
        seconds = time.perf_counter() - begun
        return {
            "none": {
                "message": str(error),
                "hint": error.hint,
                "exit_code": error.exit_code,
                "seconds": seconds,
            },
            "at_once": sent.at_once,
        }
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
        "at_once": sent.at_once,
    }


def batch_of(scaling: BatchScaling, budget_bytes: int, max_overhead: float | None, data: Data) -> MaxBatch:
    """Return what was found, with its schedule replayed by the independent check.

    Raises:
        NoScheduleError: nothing was found. SolverCrashedError: the schedule does not hold.
    """
    if "none" in data:
        none = data["none"]
        raise _KINDS[int(none["exit_code"])](str(none["message"]), hint=str(none["hint"]))
    graph = scaling.at(data["batch"])
    result = with_schedule(
        Problem(graph, budget_bytes),
        "auto",
        data["steps"],
        lower_bound=data["lower_bound"],
        seconds=data["seconds"],
    )
    return MaxBatch(
        graph,
        scaling,
        data["batch"],
        data["upper_batch"],
        result,
        cost_limit(graph, max_overhead),
        max_overhead,
        data["plain_batch"],
        data["baselines"],
        frozenset(data["unfinished"]),
        data["seconds"],
        probes=data["probes"],
        at_once=data["at_once"],
    )


def wrong_batch(scaling: BatchScaling, budget_bytes: int, max_overhead: float | None, data: Data) -> str:
    """Return what is wrong with an answer, or an empty string."""
    try:
        found = batch_of(scaling, budget_bytes, max_overhead, data)
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
        batch_task(step, budget_bytes, max_overhead, options or SolveOptions(), at_once) for step in steps
    ]
    swept = run(tasks, pool, journal=journal, report=report, cancelled=cancelled)
    found: list[MaxBatch | CheckmateError] = []
    for step, task in zip(steps, tasks, strict=True):
        if task.key in swept.failures:
            found.append(
                SolverCrashedError(swept.failures[task.key], hint="try again, or leave --engine out")
            )
        elif task.key not in swept.answers:
            found.append(CancelledError("interrupted before it was finished"))
        else:
            try:
                found.append(batch_of(step, budget_bytes, max_overhead, swept.answers[task.key]))
            except NoScheduleError as error:
                found.append(error)
    return found
