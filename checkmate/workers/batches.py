"""Search for the largest batch of a graph, for the window.

This is the process ``python -m checkmate.workers.batches``. All that it finds is of scaled graphs.

In: ``FindLargestBatch`` and ``Cancel``. Out: ``LargestBatchProgress`` while it works; then
``LargestBatchFound`` or ``LargestBatchFailed``. A search that is cancelled answers with the best so far; one
that is superseded does not answer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from checkmate.errors import CheckmateError, InfeasibleError
from checkmate.formats.graph import graph_from_json, graph_to_json
from checkmate.formats.schedule import result_to_json
from checkmate.ipc.child import Channel, Inbox, begin
from checkmate.largest.batch import MaxBatch, max_batch
from checkmate.progress import Progress
from checkmate.solvers.problem import SolveOptions
from checkmate.workers.messages.batches import (
    FindLargestBatch,
    LargestBatchFailed,
    LargestBatchFound,
    LargestBatchProgress,
)
from checkmate.workers.messages.table import WINDOW_MESSAGES


def main() -> int:
    """Serve until the parent is gone."""
    channel, inbox = begin("batches", WINDOW_MESSAGES), Inbox()
    channel.listen(inbox.put)
    while True:
        match inbox.tasks.get():
            case FindLargestBatch() as asked if not inbox.cancelled(asked.job):
                _search(channel, inbox, asked)


def _search(channel: Channel, inbox: Inbox, asked: FindLargestBatch) -> None:
    def report(progress: Progress) -> None:
        channel.send(LargestBatchProgress(asked.job, progress.message))

    try:
        graph = graph_from_json(Path(asked.name), json.loads(asked.graph))
        found = max_batch(
            graph,
            asked.budget_bytes,
            max_overhead=asked.max_overhead,
            options=SolveOptions(time_limit_s=asked.time_limit_s, workers=asked.workers),
            report=report,
            cancelled=lambda: inbox.cancelled(asked.job),
        )
    except CheckmateError as error:
        proved = isinstance(error, InfeasibleError)
        channel.send(LargestBatchFailed(asked.job, str(error), error.hint, proved))
    else:
        channel.send(_answer(asked.job, found))


def _answer(job: int, found: MaxBatch) -> LargestBatchFound:
    body = {"graph": graph_to_json(found.graph), "schedule": result_to_json(found.graph, found.result)}
    return LargestBatchFound(
        job,
        found.batch,
        found.result.peak_bytes or 0,
        found.upper_batch,
        found.plain_batch,
        {name: batch for name, batch in found.baselines.items() if batch is not None},
        found.choices,
        found.cancelled,
        found.scaling.note(),
        json.dumps(body).encode("utf-8"),
    )


if __name__ == "__main__":
    sys.exit(main())
