"""Find the largest batch, and make certificates, for the window: ``python -m checkmate.workers.searches``.

In: ``FindLargestBatch``, ``Certify`` and ``Cancel``. Out: ``JobProgress``, then ``LargestBatchFound`` or
``CertificateWritten``. A search for the batch that is cancelled answers with the best so far; a certificate
that is cancelled is not written.
"""

from __future__ import annotations

from functools import partial

from checkmate import planning
from checkmate.errors import PlanningError
from checkmate.formats.graph import unpack_graph
from checkmate.formats.schedule import write_certificate
from checkmate.largest.batch import max_batch
from checkmate.processes.messages import Message
from checkmate.processes.serve import Server
from checkmate.solvers.problem import SolveOptions
from checkmate.workers.window_messages import (
    WINDOW_MESSAGES,
    CertificateWritten,
    Certify,
    FindLargestBatch,
    LargestBatchFound,
    pack_solved,
)


class SearchServer(Server):
    kind, table = "searches", WINDOW_MESSAGES

    def work(self, asked: Message) -> Message | None:
        match asked:
            case FindLargestBatch():
                return self._find(asked)
            case Certify():
                return self._certify(asked)
        return None

    def _find(self, asked: FindLargestBatch) -> LargestBatchFound:
        found = max_batch(
            unpack_graph(asked.graph),
            asked.budget_bytes,
            max_overhead=asked.max_overhead,
            options=SolveOptions(time_limit_s=asked.time_limit_s, workers=asked.workers),
            report=partial(self.report, asked.job),
            cancelled=partial(self.inbox.cancelled, asked.job),
        )
        return LargestBatchFound(
            asked.job,
            found.batch,
            found.result.peak_bytes or 0,
            found.upper_batch,
            found.plain_batch,
            {name: batch for name, batch in found.baselines.items() if batch is not None},
            found.choices,
            found.cancelled,
            found.scaling.note(),
            pack_solved(found.graph, found.result),
        )

    def _certify(self, asked: Certify) -> CertificateWritten | None:
        found = planning.certify(
            unpack_graph(asked.graph),
            asked.budget_bytes,
            known_cost=asked.known_cost,
            seconds=asked.seconds,
            report=partial(self.report, asked.job),
            cancelled=partial(self.inbox.cancelled, asked.job),
        )
        if self.inbox.cancelled(asked.job):
            return None
        if found is None:
            raise PlanningError(
                f"no certificate was made in {asked.seconds:g} s",
                hint="give it more time in a terminal: checkmate certify --time-limit 600",
            )
        write_certificate(asked.path, found.data)
        return CertificateWritten(asked.job)


if __name__ == "__main__":
    SearchServer.main()
