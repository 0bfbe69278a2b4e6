"""The search for the largest batch, in a process of its own."""

from __future__ import annotations

import itertools

from PySide6.QtCore import QObject, QTimer, Signal

from app.presenters.sizes import BatchAnswer, BatchQuestion
from app.workers.process import WorkerProcess
from checkmate.ipc.messages import Cancel, Message
from checkmate.workers.messages.batches import (
    FindLargestBatch,
    LargestBatchFailed,
    LargestBatchFound,
    LargestBatchProgress,
)
from checkmate.workers.messages.table import WINDOW_MESSAGES

_MOST = 12  # answers that are kept
_SILENT_S = 60.0  # beyond the time of two solves, after which an answer is taken for lost
_PATIENCE_MS = 4000  # after a search was told to stop


class BatchFinder(QObject):
    """One search at a time, and the answers of all.

    Attributes:
        asked: the question of the search that runs; None if none does.
        sentence: what it does, or has found so far.
        answers: what was found lately, the newest last.

    Signals: ``changed``: the search began, is further or has ended. ``answered``: there is another answer.
    """

    changed = Signal()
    answered = Signal()

    def __init__(self, workers: int, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.asked: BatchQuestion | None = None
        self.sentence = ""
        self.answers: list[BatchAnswer] = []
        self._workers, self._jobs, self._job = workers, itertools.count(1), 0
        self.process = WorkerProcess("checkmate.workers.batches", WINDOW_MESSAGES, self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_PATIENCE_MS)
        self._patience.timeout.connect(self._give_up)

    def ask(self, question: BatchQuestion, body: bytes) -> None:
        """Search; ``body`` is the graph as a file's JSON."""
        self._patience.stop()
        self._job = next(self._jobs)
        self.asked, self.sentence = question, "Starting…"
        self.process.send(
            FindLargestBatch(
                self._job,
                question.graph.name,
                question.budget_bytes,
                question.max_overhead,
                question.seconds,
                self._workers,
                body,
            )
        )
        self._expect()
        self.changed.emit()

    def stop(self) -> None:
        """End the search with the best so far. A process that does not answer is ended."""
        if self.asked is not None:
            self.process.send(Cancel(self._job))
            self.sentence = "Stopping…"
            self._patience.start()
            self.changed.emit()

    def close(self) -> None:
        """End the process for good."""
        self._patience.stop()
        self.asked = None
        self.process.close()

    def _expect(self) -> None:
        if self.asked is not None:
            self.process.expect(2 * self.asked.seconds + _SILENT_S)

    def _give_up(self) -> None:
        self.process.stop()
        self._end("")

    def _on_received(self, message: Message) -> None:
        question = self.asked
        if question is None:
            return
        match message:
            case LargestBatchProgress(job=job, sentence=sentence) if job == self._job:
                self._expect()
                if sentence and not self._patience.isActive():
                    self.sentence = sentence
                    self.changed.emit()
            case LargestBatchFound(job=job) if job == self._job:
                self._take(_answer(question, message))
            case LargestBatchFailed(job=job) if job == self._job:
                said = f"{message.message}: {message.hint}" if message.hint else message.message
                self._take(BatchAnswer(question, problem=said, proved_none=message.proved))

    def _take(self, answer: BatchAnswer) -> None:
        self.answers.append(answer)
        del self.answers[:-_MOST]  # each holds its graph
        self._end("")
        self.answered.emit()

    def _end(self, sentence: str) -> None:
        self._patience.stop()
        self.process.expect(None)
        self.asked, self.sentence = None, sentence
        self.changed.emit()

    def _on_died(self, sentence: str) -> None:
        if self.asked is not None:
            self._end(sentence)


def _answer(question: BatchQuestion, found: LargestBatchFound) -> BatchAnswer:
    return BatchAnswer(
        question,
        found.batch,
        found.peak_bytes,
        found.upper_batch,
        found.plain_batch,
        dict(found.baselines),
        found.choices,
        found.cancelled,
        found.note,
        graph_and_schedule=found.graph_and_schedule,
    )
