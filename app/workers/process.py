"""A worker process as a Qt object."""

from __future__ import annotations

import time
from collections import deque

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, Signal

from app.workers.background import later
from checkmate.machine.load import seconds_computed
from checkmate.processes.children import module_command
from checkmate.processes.messages import Hello, Message, MessageError
from checkmate.workers.window_messages import WINDOW_MESSAGES

_MOST_RESTARTS = 3
_LONGEST_S = 10**6  # the longest wait for an answer; Qt's timers count milliseconds in 32 bits
_LOOK_S = 2.0  # how long to watch whether a silent process still computes
_WORKING = 0.02  # of a processor: a process that uses more is computing
_MOST_LOOKS = 60  # a silent process is ended after so many looks, even if it computes
_TURN_S = 0.008  # the longest time to handle messages at once, so that the window stays responsive


class WorkerProcess(QObject):
    """One child process that runs ``module``, restarted after a death, at most three times in a row.

    ``name``: what it is, for the sentence that it died.

    Signals: ``received(message)``; ``died(sentence)`` when it ended by itself; ``logged(text)``: its stderr.
    """

    received = Signal(object)
    died = Signal(str)
    logged = Signal(str)

    def __init__(self, name: str, module: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name, self._module = name, module
        self._process: QProcess | None = None
        self._reader = WINDOW_MESSAGES.reader()
        self._waiting: deque[Message] = deque()
        self._turn = later(self, 0, self._handle)
        self._silence = later(self, 0, self._on_silence)
        self._computed: list[float] = []  # seconds, at each look since it was last heard of
        self._restarts = 0
        self._closed = False

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.state() != QProcess.ProcessState.NotRunning

    @property
    def failing(self) -> bool:
        """Whether several processes died in a row before any of them did useful work."""
        return self._restarts > _MOST_RESTARTS

    @property
    def pid(self) -> int:
        return int(self._process.processId()) if self._process is not None else 0

    def start(self) -> None:
        if self.running or self._closed:
            return
        self._reader = WINDOW_MESSAGES.reader()
        process = QProcess(self)
        environment = QProcessEnvironment.systemEnvironment()
        environment.insert("TF_CPP_MIN_LOG_LEVEL", "3")
        process.setProcessEnvironment(environment)
        process.readyReadStandardOutput.connect(self._on_output)
        process.readyReadStandardError.connect(self._on_error_output)
        process.finished.connect(self._on_finished)
        self._process = process
        program, *arguments = module_command(self._module)
        process.start(program, arguments)

    def send(self, message: Message) -> None:
        self.start()
        if self._process is not None:
            self._process.write(WINDOW_MESSAGES.encode(message))

    def expect(self, seconds: float | None) -> None:
        """Treat the process as dead unless this is called again in time.

        A message may be lost, and a process may hang: whoever waits for an answer says here how long, and
        says so again with all news of it. None: nothing is waited for any more. A process that computes is
        waited for some minutes longer: on a busy machine it may not have come to its answer.
        """
        self._computed.clear()
        if seconds is None:
            self._silence.stop()
        else:
            self._silence.start(int(min(seconds, _LONGEST_S) * 1000))

    def stop(self) -> None:
        """End the process at once; ``died`` is not emitted."""
        self._silence.stop()
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

    def _on_output(self) -> None:
        process = self._process
        if process is None:
            return
        try:
            self._waiting.extend(self._reader.feed(bytes(process.readAllStandardOutput().data())))
        except MessageError as error:
            self._end(f"The worker sent a message that cannot be read ({error}).")
            return
        if not self._turn.isActive():
            self._handle()

    def _handle(self) -> None:
        """Deliver messages for a limited time; the rest follows when the window has done its other work."""
        until = time.perf_counter() + _TURN_S
        while self._waiting:
            if time.perf_counter() > until:
                self._turn.start()
                return
            message = self._waiting.popleft()
            if not isinstance(message, Hello):
                self._restarts = 0  # it works
                self.received.emit(message)

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
        self._silence.stop()
        self._restarts += 1
        if not self.failing:
            self.start()
        self.died.emit(f"The {self._name} process ended ({why}). Nothing was lost.")

    def _on_silence(self) -> None:
        self._computed.append(seconds_computed(self.pid))
        computes = len(self._computed) < 2 or self._computed[-1] - self._computed[-2] > _WORKING * _LOOK_S
        if computes and len(self._computed) <= _MOST_LOOKS:
            self._silence.start(int(1000 * _LOOK_S))
            return
        self._end(f"The {self._name} process did not answer and was ended. Nothing was lost.")

    def _end(self, sentence: str) -> None:
        self.stop()
        self._restarts += 1
        self.died.emit(sentence)
