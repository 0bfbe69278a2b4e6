"""Have a process do one job at a time."""

from __future__ import annotations

import itertools

from PySide6.QtCore import QObject, Signal

from app.workers.background import later
from app.workers.process import WorkerProcess
from checkmate.processes.messages import Cancel, JobCancelled, JobFailed, JobProgress, Message

SILENT_S = 60.0  # beyond a job's own time, after which its answer is taken for lost
_PATIENCE_MS = 2000  # after a job was told to stop
DIED = "died"  # the error of a job whose process ended


class Client(QObject):
    """Has one process work on the newest job; whatever comes of an older one is dropped.

    ``silent_s``: beyond a job's own time, after which its answer is taken for lost. ``patience_ms``: after a
    job was told to stop, until the process is ended. ``job``: the number of the job that is waited for; 0:
    none.

    Signals, of the present job: ``progressed(Progress)``; ``answered(message)``; ``failed(JobFailed)``, whose
    error is ``DIED`` if the process ended; ``cancelled()``. The last two end it; who takes the last answer
    calls ``end``.
    """

    progressed = Signal(object)
    answered = Signal(object)
    failed = Signal(object)
    cancelled = Signal()

    def __init__(
        self,
        name: str,
        module: str,
        parent: QObject | None = None,
        *,
        silent_s: float | None = None,
        patience_ms: int = _PATIENCE_MS,
    ) -> None:
        super().__init__(parent)
        self.process = WorkerProcess(name, module, self)
        self.process.received.connect(self._on_received)
        self.process.died.connect(self._on_died)
        self.job, self._numbers = 0, itertools.count(1)
        self._silent_s, self._limit_s = silent_s, 0.0
        self._patience = later(self, patience_ms, self.give_up)

    @property
    def busy(self) -> bool:
        return bool(self.job)

    @property
    def stopping(self) -> bool:
        return self._patience.isActive()

    def next_job(self, seconds: float = 0.0) -> int:
        """Return the number of the job that is sent next. ``seconds``: how long it may take."""
        self._patience.stop()
        self.job, self._limit_s = next(self._numbers), seconds
        self._expect()
        return self.job

    def send(self, message: Message) -> None:
        self.process.send(message)

    def cancel(self) -> None:
        """Tell the job to stop. A process that does not answer is ended."""
        if self.job:
            self.send(Cancel(self.job))
            self._patience.start()

    def end(self) -> None:
        """Forget the job: it has ended, or its answer is not wanted any more."""
        self.job = 0
        self._patience.stop()
        self.process.expect(None)

    def give_up(self) -> None:
        busy = self.busy
        self.process.stop()
        self.end()
        if busy:
            self.cancelled.emit()

    def close(self) -> None:
        self.end()
        self.process.close()

    def _expect(self) -> None:
        self.process.expect(self._limit_s + (SILENT_S if self._silent_s is None else self._silent_s))

    def _on_received(self, message: Message) -> None:
        if not self.job or getattr(message, "job", 0) != self.job:
            return
        match message:
            case JobProgress(progress=progress):
                self._expect()
                self.progressed.emit(progress)
            case JobCancelled():
                self.end()
                self.cancelled.emit()
            case JobFailed():
                self.end()
                self.failed.emit(message)
            case _:
                self.answered.emit(message)

    def _on_died(self, sentence: str) -> None:
        if self.job:
            job = self.job
            self.end()
            self.failed.emit(JobFailed(job, DIED, sentence, ""))
