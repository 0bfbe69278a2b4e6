"""Search for the largest batches of several steps on an engine.

Each search is by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from checkmate.errors import CancelledError, CheckmateError, NoScheduleError, SolverCrashedError
from checkmate.largest.batch import MaxBatch
from checkmate.largest.scaling import BatchScaling
from checkmate.largest.task import batch_of, batch_task
from checkmate.progress import Cancelled, Report, never, silent
from checkmate.solvers.portfolio.least_memory import require_overhead
from checkmate.solvers.problem import SolveOptions
from checkmate.sweeps.engine import Pool
from checkmate.sweeps.journal import Journal
from checkmate.sweeps.run import run


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
    """Search for the largest batch of each of ``steps``.

    Return what ``max_batch`` finds for each, or the error that says why nothing was found. Answers are in the
    order of ``steps``. The options' time limit is for each search. Cancelling keeps what was finished: the
    others are a CancelledError.

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
