"""Long searches for the window: the largest batch, and certificates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.presenters.sizes import BatchAnswer, BatchQuestion
from app.state.knowledge import ListedSchedule
from app.workers.background import Reading
from app.workers.client import DIED, Client
from checkmate.certificate.verify import InvalidCertificateError, verify
from checkmate.errors import InfeasibleError, VerificationError
from checkmate.formats.graph import graph_to_json
from checkmate.formats.schedule import read_certificate
from checkmate.ir import Graph
from checkmate.processes.messages import JobFailed, Message
from checkmate.progress import Progress
from checkmate.workers.window_messages import CertificateWritten, Certify, FindLargestBatch, LargestBatchFound

_MODULE = "checkmate.workers.searches"
_MOST = 12  # answers that are kept
_PATIENCE_MS = 4000  # after a search was told to stop
CERTIFY_S = 60.0


class BatchFinder(QObject):
    """One search for the largest batch at a time, and the ``answers`` found lately, the newest last.

    ``asked``: the question of the search that runs. ``sentence``: what it does, or has found so far.
    """

    changed = Signal()
    answered = Signal()

    def __init__(self, workers: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.asked: BatchQuestion | None = None
        self.sentence = ""
        self.answers: list[BatchAnswer] = []
        self._workers = workers
        self.client = Client("batches", _MODULE, self, patience_ms=_PATIENCE_MS)
        self.client.progressed.connect(self._on_progress)
        self.client.answered.connect(self._on_found)
        self.client.failed.connect(self._on_failed)
        self.client.cancelled.connect(self._end)

    def ask(self, question: BatchQuestion, body: bytes) -> None:
        self.asked, self.sentence = question, "Starting…"
        self.client.send(
            FindLargestBatch(
                self.client.next_job(2 * question.seconds),
                question.budget_bytes,
                question.max_overhead,
                question.seconds,
                self._workers,
                body,
            )
        )
        self.changed.emit()

    def stop(self) -> None:
        if self.asked is not None:
            self.client.cancel()
            self.sentence = "Stopping…"
            self.changed.emit()

    def forget(self) -> None:
        self.client.give_up()
        self.answers.clear()
        self._end()

    def close(self) -> None:
        self.asked = None
        self.client.close()

    def _on_progress(self, progress: Progress) -> None:
        if progress.message and not self.client.stopping:
            self.sentence = progress.message
            self.changed.emit()

    def _on_found(self, message: Message) -> None:
        if isinstance(message, LargestBatchFound) and self.asked is not None:
            facts = {name: value for name, value in vars(message).items() if name != "job"}
            self._add_answer(BatchAnswer(self.asked, **facts))

    def _on_failed(self, failed: JobFailed) -> None:
        if failed.error == DIED:
            self._end(failed.message)
        elif self.asked is not None:
            proved = failed.is_a(InfeasibleError)
            self._add_answer(BatchAnswer(self.asked, problem=failed.sentence, proved_none=proved))

    def _add_answer(self, answer: BatchAnswer) -> None:
        self.answers.append(answer)
        del self.answers[:-_MOST]  # each holds its graph
        self._end()
        self.answered.emit()

    def _end(self, sentence: str = "") -> None:
        self.client.end()
        self.asked, self.sentence = None, sentence
        self.changed.emit()


class Certifier(QObject):
    """Has certificates made by a process, and verifies each here once it is written."""

    progressed = Signal(str)
    proved = Signal(object, object, object)  # the schedule, the file, and the proof
    failed = Signal(str, str)
    died = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._found: ListedSchedule | None = None
        self._path = Path()
        self.client = Client("certifier", _MODULE, self)
        self.client.progressed.connect(self._on_progress)
        self.client.answered.connect(self._on_written)
        self.client.failed.connect(self._on_failed)
        self._checking = Reading(self)
        self._checking.done.connect(self._on_verified)
        self._checking.failed.connect(self._on_unproved)

    @property
    def busy(self) -> bool:
        return self._found is not None

    def ask(self, found: ListedSchedule, path: Path, body: bytes) -> None:
        self._found, self._path = found, path
        job, budget = self.client.next_job(CERTIFY_S), found.peak_bytes
        self.client.send(Certify(job, budget, found.cost, CERTIFY_S, path, body))

    def cancel(self) -> None:
        self._found = None
        self._checking.close()
        self.client.cancel()

    def close(self) -> None:
        self._found = None
        self._checking.close()
        self.client.close()

    def _on_progress(self, progress: Progress) -> None:
        if self.busy:
            self.progressed.emit(progress.message)

    def _on_failed(self, failed: JobFailed) -> None:
        if self._found is None:
            return
        self._found = None
        if failed.error == DIED:
            self.died.emit(failed.message)
        else:
            self.failed.emit(failed.message, failed.hint)

    def _on_written(self, message: Message) -> None:
        """Verify the file, in a thread, before anything is said of it."""
        found, path = self._found, self._path
        self.client.end()
        if found is None or not isinstance(message, CertificateWritten):
            return
        self._checking.start(lambda: verified(path, found.graph))
        self.progressed.emit("Checking the proof")

    def _on_verified(self, proof: ProvedCost) -> None:
        found, self._found = self._found, None
        if found is not None and proof.budget_bytes == found.peak_bytes:
            self.proved.emit(found, self._path, proof)
        else:
            self._on_unproved("the certificate that was written is for another budget", "")

    def _on_unproved(self, problem: str, _hint: str) -> None:
        self._found = None
        self.failed.emit(problem, f"Do not use {self._path}.")


@dataclass(frozen=True)
class ProvedCost:
    """What a certificate proves: no schedule within the budget costs less than ``cost``; None: none fits."""

    budget_bytes: int
    cost: float | None
    cases: int


def verified(path: Path, graph: Graph) -> ProvedCost:
    """What the certificate in ``path`` proves of ``graph``; an error where it proves nothing."""
    data = read_certificate(path, graph)
    try:
        cost = verify(json.loads(json.dumps(graph_to_json(graph))), data)
    except InvalidCertificateError as error:
        raise VerificationError(
            f"the certificate that was written does not hold: {error}", hint="please report the graph"
        ) from error
    cases = sum("sum" in part for part in data["proof"])
    return ProvedCost(int(data["budget_bytes"]), None if cost is None else float(cost), cases)
