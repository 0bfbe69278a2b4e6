"""A worker process as a Qt object: messages in, messages out, a word when it dies."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from checkmate.ipc.protocol import Decoder, Message, ProtocolError, encode

_MOST_RESTARTS = 3
_TURN_S = 0.008  # of handling messages at a time; what a worker sends at once must not hold up the window


class WorkerProcess(QObject):
    """One child process running ``module``; restarted after a death, at most three times in a row.

    Signals: ``received(header, body)`` per message; ``died(sentence)`` when it ended by itself; ``logged(text)`` its stderr.
    """

    received = Signal(dict, bytes)
    died = Signal(str)
    logged = Signal(str)

    def __init__(self, module: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._module = module
        self._process: QProcess | None = None
        self._decoder = Decoder()
        self._waiting: deque[Message] = deque()
        self._turn = QTimer(self)
        self._turn.setSingleShot(True)
        self._turn.setInterval(0)
        self._turn.timeout.connect(self._handle)
        self._restarts = 0
        self._closed = False

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.state() != QProcess.ProcessState.NotRunning

    @property
    def pid(self) -> int:
        """The process's id; 0 where it is not running."""
        return int(self._process.processId()) if self._process is not None else 0

    def start(self) -> None:
        """Start the process if it is not running."""
        if self.running or self._closed:
            return
        self._decoder = Decoder()
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("TF_CPP_MIN_LOG_LEVEL", "3")
        process.setProcessEnvironment(environment)
        process.readyReadStandardOutput.connect(self._on_output)
        process.readyReadStandardError.connect(self._on_error_output)
        process.finished.connect(self._on_finished)
        self._process = process
        process.start(sys.executable, ["-m", self._module])

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one message, starting the process where needed."""
        self.start()
        if self._process is not None:
            self._process.write(encode(header, body))

    def stop(self) -> None:
        """End the process at once; ``died`` is not emitted."""
        process, self._process = self._process, None
        self._waiting.clear()
        if process is not None:
            process.readyReadStandardOutput.disconnect()
            process.readyReadStandardError.disconnect()
            process.finished.disconnect()
            process.kill()
            process.waitForFinished(2000)
            process.deleteLater()

    def close(self) -> None:
        """End the process for good; what is sent afterwards goes nowhere."""
        self._closed = True
        self.stop()

    def restart(self) -> None:
        """End the process and start a new one."""
        self.stop()
        self.start()

    def _on_output(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            self._waiting.extend(self._decoder.feed(bytes(process.readAllStandardOutput().data())))
        except ProtocolError as error:
            self.stop()
            self.died.emit(f"The worker sent what cannot be read ({error}).")
            return
        if not self._turn.isActive():
            self._handle()

    def _handle(self) -> None:
        """Hand out messages for a while; the rest after whatever else the window has to do."""
        until = time.perf_counter() + _TURN_S
        while self._waiting:
            if time.perf_counter() > until:
                self._turn.start()
                return
            message = self._waiting.popleft()
            self._restarts = 0 if message.type != "hello" else self._restarts
            self.received.emit(message.header, message.body)

    def _on_error_output(self) -> None:
        if self._process is not None:
            self.logged.emit(bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace"))

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        while self._waiting:  # what it said before it ended
            self._handle()
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
        why = f"exit code {code}" if status == QProcess.ExitStatus.NormalExit else f"signal {code}"
        self._restarts += 1
        if self._restarts <= _MOST_RESTARTS:
            self.start()
        self.died.emit(f"The {self._module.rsplit('.', 1)[-1]} process ended ({why}). Nothing was lost.")
