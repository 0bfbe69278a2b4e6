"""Run measurements in new processes that have TensorFlow imported, without importing it here.

On Linux a server forks them. A GPU's driver does not bear a fork for certain: where there is one, the next
process imports TensorFlow while the last one measures, if there are cores for both."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from checkmate import errors
from checkmate.backends.tf.environment import measuring_environment
from checkmate.errors import CancelledError, CheckmateError, StepTooLargeError, WorkerDiedError
from checkmate.machine.load import usable_cores
from checkmate.processes.children import end_child, module_command, start_child, watch, write_all
from checkmate.progress import Cancelled, Progress, Report

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
# The signals that end TensorFlow on a CPU that has no more memory.
_OUT_OF_MEMORY = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS")
# How the last line of a traceback begins then.
EXHAUSTED = re.compile(r"^(MemoryError|.*\bResourceExhaustedError\b)", re.MULTILINE)
_GPUS = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))  # NVIDIA, AMD, either in WSL
_CORES = 4  # from which on a process may import while another one measures
_MOST = 2  # servers, or processes that wait: for default kernels and for exact ones
# Nothing reads these when TensorFlow is imported.
_LATER = frozenset({"TMPDIR", "XDG_CACHE_HOME", "PYTEST_CURRENT_TEST", "PWD", "OLDPWD", "COLUMNS", "LINES"})
_POLL_S = 0.02


@dataclass(frozen=True)
class TaskFiles:
    """``task`` is JSON: what to ``do``, and its arguments. ``answer`` is ``{"ok": …}`` or ``{"error": …}``.
    Each line of ``progress`` is one ``Progress``."""

    folder: Path

    @property
    def task(self) -> Path:
        return self.folder / "task.json"

    @property
    def answer(self) -> Path:
        return self.folder / "answer.json"

    @property
    def progress(self) -> Path:
        return self.folder / "progress.jsonl"


def run_task(
    task: Mapping[str, Any],
    *,
    message: str,
    report: Report,
    cancelled: Cancelled,
    environment: Mapping[str, str] = {},
    stage: str = "measure",
) -> dict[str, Any]:
    """Have ``task`` done in a new process, with ``environment`` added; return its answer. Raises:
    StepTooLargeError: the process ended the way processes do when memory runs out. WorkerDiedError: it ended
    without an answer for another reason. CancelledError, and the error that the task ended with."""
    with tempfile.TemporaryDirectory(prefix="checkmate-measure-") as folder:
        files = TaskFiles(Path(folder))
        files.task.write_text(json.dumps(task), encoding="utf-8")
        files.progress.touch()
        watched = _Watched(message, _ProgressRelay(files.progress, report), cancelled, stage)
        output, code = _run(folder, watched, _own_environment(environment), on_cpu=_measures_cpu(task))
        try:
            answer = json.loads(files.answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # the process ended before the answer was complete
            raise error_without_answer("the measuring process", output, code) from None
    if "error" in answer:
        raise _as_same_type(answer["error"])
    found: dict[str, Any] = answer["ok"]
    return found


def _run(folder: str, watched: _Watched, environment: dict[str, str], *, on_cpu: bool) -> tuple[str, int]:
    """Have a process do the task in ``folder``; return its output and exit code."""
    servers = task_servers()
    server = None if servers is None else servers.take(environment, on_cpu=on_cpu)
    with _scratch(environment) as (output, inside):
        if servers is not None and server is not None:
            try:
                code = watch(server.begin(folder, output.name, inside), watched.look)
                return _text_of(output), code
            except NotBegunError:
                pass
            finally:
                servers.give_back(server, environment)
        alone = TaskServer(inside, once=True, output=output)
        try:
            code = watch(alone.begin(folder, output.name, inside), watched.look)
        except NotBegunError:
            code = alone.end()
        finally:
            alone.end()
        return _text_of(output), code


def expect_tasks(environment: Mapping[str, str] = {}) -> None:
    """Have TensorFlow imported for tasks to come, beside what this process does."""
    servers, own = task_servers(), _own_environment(environment)
    if servers is not None and not servers.once and (server := servers.take(own)) is not None:
        servers.give_back(server, own)


class _ProgressRelay:
    def __init__(self, file: Path, report: Report) -> None:
        self._file, self._report = file, report
        self._latest: Progress | None = None
        self._read = 0

    def __call__(self, waiting: Progress) -> None:
        with self._file.open(encoding="utf-8") as lines:
            lines.seek(self._read)
            for line in iter(lines.readline, ""):
                if not line.endswith("\n"):  # still being written
                    break
                self._read += len(line.encode("utf-8"))
                self._latest = Progress(**json.loads(line))
        self._report(waiting if self._latest is None else self._latest)


def run_process(
    command: Sequence[str],
    *,
    message: str,
    report: Report,
    cancelled: Cancelled,
    environment: Mapping[str, str] = {},
    stage: str = "measure",
) -> tuple[str, int]:
    """Run ``command`` to its end; return its output (both streams) and its exit code. Its temporary files lie
    in a folder that is removed when it ends, also when it is killed."""
    with _scratch(_own_environment(environment)) as (output, inside):
        child = start_child(command, stdout=output, stderr=subprocess.STDOUT, environment=inside)
        try:
            code = watch(child, _Watched(message, report, cancelled, stage).look)
        finally:
            end_child(child)
        return _text_of(output), code


@contextmanager
def _scratch(environment: Mapping[str, str]) -> Iterator[tuple[IO[bytes], dict[str, str]]]:
    with (
        tempfile.TemporaryDirectory(prefix="checkmate-process-", ignore_cleanup_errors=True) as scratch,
        tempfile.NamedTemporaryFile() as output,
    ):
        yield output, {**environment, "TMPDIR": scratch}


def _text_of(output: IO[bytes]) -> str:
    output.seek(0)
    return output.read().decode("utf-8", "replace")


@dataclass(frozen=True)
class _Watched:
    message: str
    report: Report
    cancelled: Cancelled
    stage: str

    def look(self, seconds: float) -> None:
        if self.cancelled():
            raise CancelledError("cancelled while measuring")
        self.report(Progress(self.stage, seconds, None, self.message))


def _own_environment(added: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **_QUIET, **measuring_environment(), **added}


def _measures_cpu(task: Mapping[str, Any]) -> bool:
    request = task.get("request")
    if request is None or request.get("device") == "cpu":
        return True
    tf = sys.modules.get("tensorflow")  # without it, assume that there may be a GPU
    return tf is not None and not tf.config.list_physical_devices("GPU")


def error_without_answer(who: str, output: str, code: int) -> CheckmateError:
    """Return the error for ``who``, a process that ended without an answer, maybe for want of memory."""
    lines = [line for line in output.splitlines() if line.strip()]
    details = {"output": "\n".join(lines[-40:])}
    name = signal.Signals(-code).name if -code in {entry.value for entry in signal.Signals} else ""
    if name in _OUT_OF_MEMORY:
        sentence = f"{who} was ended by {name}, as happens when memory runs out"
        return StepTooLargeError(sentence, hint="try a smaller batch", details=details)
    if EXHAUSTED.search(output):
        sentence = f"{who} ran out of memory: {lines[-1][:300]}"
        return StepTooLargeError(sentence, hint="try a smaller batch", details=details)
    return WorkerDiedError(
        f"{who} ended without an answer{': ' + lines[-1][:300] if lines else ''}",
        hint="the step may not fit this machine's memory; try a smaller batch",
        details=details,
    )


def _as_same_type(error: Mapping[str, Any]) -> CheckmateError:
    kind = getattr(errors, error["type"], CheckmateError)
    # A type with a constructor of its own becomes the nearest base class that takes a sentence.
    plain = next(base for base in kind.__mro__ if "__init__" not in vars(base) or base is CheckmateError)
    carried: CheckmateError = plain(error["message"], hint=error["hint"], details=error.get("details"))
    return carried


class NotBegunError(Exception):
    """The server, or the process that waited, ended before it began the task."""


class TaskServer:
    """A process with TensorFlow imported that forks one for each task, or becomes the first (``once``)."""

    def __init__(
        self, environment: Mapping[str, str], *, once: bool = False, output: IO[bytes] | None = None
    ) -> None:
        command = module_command("checkmate.backends.tf.task_server", *(["--once"] if once else []))
        stderr = subprocess.DEVNULL if output is None else output
        self.process = start_child(command, stderr=stderr, environment=environment)
        self._rest = b""

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def begin(self, folder: str, output: str, environment: Mapping[str, str]) -> TaskProcess:
        """Start the task in ``folder`` after the last one has ended; NotBegunError: the server has ended."""
        request = {"task": folder, "output": output, "environment": dict(environment), "folder": os.getcwd()}
        assert self.process.stdin is not None
        try:
            write_all(self.process.stdin, json.dumps(request).encode("utf-8") + b"\n")
        except (OSError, ValueError) as error:  # the pipe is broken, or closed
            self.end()
            raise NotBegunError from error
        return TaskProcess(self)

    def told(self) -> list[dict[str, int]]:
        pipe = self.process.stdout
        if pipe is None or pipe.closed or not select.select([pipe], [], [], 0)[0]:
            return []
        *lines, self._rest = (self._rest + os.read(pipe.fileno(), 2**16)).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> int:
        code = end_child(self.process)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


class TaskProcess:
    """A process that does one task: forked by its server, or the server itself."""

    def __init__(self, server: TaskServer) -> None:
        self._server = server
        self._number: int | None = None
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code if it has ended; raise a ``NotBegunError`` if the server ended before it
        began."""
        ended = self._server.ended  # asked before reading, so that no last message is missed
        for fact in self._server.told() if self.returncode is None else ():
            self._number = fact.get("process", self._number)
            self.returncode = fact.get("code", self.returncode)
        if self.returncode is None and ended:
            if self._number is None:
                raise NotBegunError
            is_server = self._number == self._server.process.pid
            self.returncode = self._server.process.returncode if is_server else -signal.SIGKILL
        return self.returncode

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(_POLL_S)
        return code

    def kill(self) -> None:
        """End it, and the server too if that has not named the process yet."""
        if self._number is None or self._number == self._server.process.pid:
            self._server.end()
            self.returncode = -signal.SIGKILL
        elif self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._number, signal.SIGKILL)


class TaskServers:
    """Keep a few servers, each for what TensorFlow reads when it is imported; ``once``: each becomes a task's
    process."""

    def __init__(self, *, once: bool) -> None:
        self.once = once
        self._lock = threading.Lock()
        self._idle: list[tuple[dict[str, str], TaskServer]] = []
        self._busy = 0

    def take(self, environment: Mapping[str, str], *, on_cpu: bool = False) -> TaskServer | None:
        """Return a server for this environment; None: all are busy. ``on_cpu``: the next one's import would
        disturb what they measure."""
        if self.once and on_cpu:
            return None
        wanted = _at_import(environment)
        with self._lock:
            for _, ended in (each for each in self._idle if each[1].ended):
                ended.end()  # closes its pipes
            self._idle = [each for each in self._idle if not each[1].ended]
            found = next((each for each in self._idle if each[0] == wanted), None)
            if found is not None:
                self._idle.remove(found)
            new = 0 if found is not None and not self.once else 1
            while self._idle and len(self._idle) + self._busy + new > _MOST:
                self._idle.pop(0)[1].end()
            if self._busy + new > _MOST:
                return None
            if self.once:
                self._idle.append((wanted, TaskServer(environment, once=True)))
            else:
                self._busy += 1
        return TaskServer(environment, once=self.once) if found is None else found[1]

    def give_back(self, server: TaskServer, environment: Mapping[str, str]) -> None:
        with self._lock:
            self._busy -= not self.once
            if self.once or server.ended:
                server.end()
            else:
                self._idle.append((_at_import(environment), server))

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].end()


def _at_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in _LATER}


@cache
def task_servers() -> TaskServers | None:
    """Return this process's servers; None if each task has to import TensorFlow by itself."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return None
    if not any(path.exists() for path in _GPUS):
        return TaskServers(once=False)
    return TaskServers(once=True) if usable_cores() >= _CORES else None
