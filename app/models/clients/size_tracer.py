"""Traces a model at other input sizes, in a process of its own."""

from __future__ import annotations

import itertools

from PySide6.QtCore import QObject, QTimer, Signal

from app.workers.process import WorkerProcess
from checkmate.ipc.messages import Message
from checkmate.request import ModelRequest
from checkmate.workers.messages.device import DeviceCancelled, DeviceFailed, Profile, ProfiledGraph
from checkmate.workers.messages.table import WINDOW_MESSAGES

_SILENT_S = 600.0  # without a word, after which an answer is taken for lost: a model may take minutes
_IDLE_MS = 120_000  # after which the process, which holds TensorFlow, is ended


class SizeTracer(QObject):
    """Asks for one graph after the other; nothing is measured.

    Signals: ``traced(body)``: the graph that was asked for, as a file's JSON; ``failed(sentence)``.
    """

    traced = Signal(bytes)
    failed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._jobs, self._job = itertools.count(1), 0
        self._process = WorkerProcess("checkmate.workers.device", WINDOW_MESSAGES, self)
        self._process.received.connect(self._on_received)
        self._process.died.connect(self._on_died)
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.setInterval(_IDLE_MS)
        self._idle.timeout.connect(self._process.stop)

    def ask(self, request: ModelRequest) -> None:
        """Trace the step of ``request``; what was asked before is forgotten."""
        self._job = next(self._jobs)
        self._idle.stop()
        self._process.send(Profile(self._job, request, "analytic"))
        self._process.expect(_SILENT_S)

    def forget(self) -> None:
        """Answer nothing more to what was asked."""
        self._end()

    def close(self) -> None:
        """End the process for good."""
        self._idle.stop()
        self._process.close()

    def _on_received(self, message: Message) -> None:
        self._idle.start()
        if self._job:
            self._process.expect(_SILENT_S)
        match message:
            case ProfiledGraph(job=job, graph=body) if job == self._job:
                self._end()
                self.traced.emit(body)
            case DeviceFailed(job=job) if job == self._job:
                self._end()
                self.failed.emit(f"{message.message}: {message.hint}" if message.hint else message.message)
            case DeviceCancelled(job=job) if job == self._job:
                self._end()

    def _end(self) -> None:
        self._job = 0
        self._process.expect(None)

    def _on_died(self, sentence: str) -> None:
        if self._job:
            self._job = 0
            self.failed.emit(sentence)
