"""Run a measurement in a new process. Does not import TensorFlow itself.

The process can be cancelled, and its errors are raised here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from checkmate import errors
from checkmate.backends.tf.environment import measuring_environment
from checkmate.backends.tf.forks import ForkServers, NotForkedError, Process, fork_servers
from checkmate.errors import CancelledError, CheckmateError, StepTooLargeError, WorkerDiedError
from checkmate.machine.own_modules import beyond_ctrl_c, module_command
from checkmate.progress import Cancelled, Progress, Report

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
# The signals that end TensorFlow on a CPU that has no more memory.
_OUT_OF_MEMORY = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS")
# How the last line of a traceback begins then.
_EXHAUSTED = re.compile(r"^(MemoryError|.*\bResourceExhaustedError\b)", re.MULTILINE)


def run_task(
    task: Mapping[str, Any],
    *,
    message: str,
    report: Report,
    cancelled: Cancelled,
    environment: Mapping[str, str] = {},
) -> dict[str, Any]:
    """Let ``checkmate.backends.tf.child`` do ``task`` in a new process.

    On Linux a process with TensorFlow imported forks it, or becomes it (``checkmate.backends.tf.forks``).

    Returns the child's answer. ``environment`` is added to the child's environment only.

    Raises:
        StepTooLargeError: the process ended the way processes do when memory runs out.
        WorkerDiedError: it ended without an answer for another reason.
        CancelledError: the user cancelled.
        CheckmateError: the error that the task ended with.
    """
    with tempfile.TemporaryDirectory(prefix="checkmate-measure-") as folder:
        task_file, answer_file = Path(folder, "task.json"), Path(folder, "answer.json")
        progress_file = Path(folder, "progress.jsonl")
        task_file.write_text(json.dumps(task), encoding="utf-8")
        progress_file.touch()
        files = [str(task_file), str(answer_file), str(progress_file)]
        watched = _Watched(message, _ProgressRelay(progress_file, report), cancelled)
        own = _own_environment(environment)
        ended = _forked_to_end(files, watched, own, on_cpu=_measures_cpu(task))
        if ended is None:
            ended = _to_end(_started(module_command("checkmate.backends.tf.child", *files)), watched, own)
        output, code = ended
        try:
            answer = json.loads(answer_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it ended before it wrote, or while it did
            raise error_without_answer("the measuring process", output, code) from None
    if "error" in answer:
        raise _as_same_type(answer["error"])
    found: dict[str, Any] = answer["ok"]
    return found


def expect_tasks(environment: Mapping[str, str] = {}) -> None:
    """Have TensorFlow imported for tasks to come.

    That goes on beside what this process does, where a process that has imported it forks one for each task.
    ``environment``: as for ``run_task``.
    """
    servers, own = fork_servers(), _own_environment(environment)
    if isinstance(servers, ForkServers) and (server := servers.take(own)) is not None:
        servers.give_back(server, own)


class _ProgressRelay:
    """Report the child's latest progress, or the seconds since it began."""

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
) -> str:
    """Run ``command`` to its end; return what it printed. The arguments are those of ``run_to_end``."""
    return run_to_end(command, message=message, report=report, cancelled=cancelled, environment=environment)[
        0
    ]


def run_to_end(
    command: Sequence[str],
    *,
    message: str,
    report: Report,
    cancelled: Cancelled,
    environment: Mapping[str, str] = {},
) -> tuple[str, int]:
    """Run ``command`` to its end; return its output and its exit code.

    The output holds both streams. The seconds are reported while it runs. Its temporary files lie in a folder
    that is removed when it ends, also when it is killed.

    Raises:
        CancelledError: the user cancelled; the process has ended.
    """
    return _to_end(_started(command), _Watched(message, report, cancelled), _own_environment(environment))


@dataclass(frozen=True)
class _Watched:
    """What is said while a process runs, to whom, and whether to stop it."""

    message: str
    report: Report
    cancelled: Cancelled

    def look(self, seconds: float) -> None:
        """Report the ``seconds`` that it runs; raise if it is to stop."""
        if self.cancelled():
            raise CancelledError("cancelled while measuring")
        self.report(Progress("measure", seconds, None, self.message))


def _own_environment(added: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **_QUIET, **measuring_environment(), **added}


_Start = Callable[[IO[str], Mapping[str, str], ExitStack], Process]


def _started(command: Sequence[str]) -> _Start:
    def start(output: IO[str], environment: Mapping[str, str], stack: ExitStack) -> Process:
        with beyond_ctrl_c():
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,  # closes when this process ends, and the child ends with it
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
            )
        assert process.stdin is not None
        stack.callback(process.stdin.close)
        return process

    return start


def _to_end(start: _Start, watched: _Watched, environment: Mapping[str, str]) -> tuple[str, int]:
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="checkmate-process-", ignore_cleanup_errors=True) as scratch,
        tempfile.NamedTemporaryFile(mode="w+", encoding="utf-8", errors="replace") as output,
        ExitStack() as stack,
    ):
        process = start(output, {**environment, "TMPDIR": scratch}, stack)
        try:
            while process.poll() is None:
                watched.look(time.monotonic() - started)
                time.sleep(0.1)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()
        output.seek(0)
        assert process.returncode is not None
        return output.read(), process.returncode


def _measures_cpu(task: Mapping[str, Any]) -> bool:
    """Return whether a task measures the processor, as far as is known here."""
    request = task.get("request")
    if request is None or request.get("device") == "cpu":
        return True
    tf = sys.modules.get("tensorflow")  # where it is not imported yet, a card may be there
    return tf is not None and not tf.config.list_physical_devices("GPU")


def _forked_to_end(
    files: Sequence[str], watched: _Watched, environment: Mapping[str, str], *, on_cpu: bool
) -> tuple[str, int] | None:
    """Run a task where TensorFlow is imported; None: it must be imported.

    That takes two seconds or more. ``on_cpu``: it measures the processor.
    """
    servers = fork_servers()
    server = None if servers is None else servers.take(environment, on_cpu=on_cpu)
    if servers is None or server is None:
        return None

    def start(output: IO[str], environment: Mapping[str, str], stack: ExitStack) -> Process:
        return server.fork(files, output.name, environment)

    try:
        return _to_end(start, watched, environment)
    except NotForkedError:
        return None
    finally:
        servers.give_back(server, environment)


def error_without_answer(who: str, output: str, code: int) -> CheckmateError:
    """Return the error for ``who``, a process that ended without an answer.

    The exit code and what it printed tell whether it ran out of memory.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    details = {"output": "\n".join(lines[-40:])}
    name = signal.Signals(-code).name if -code in {entry.value for entry in signal.Signals} else ""
    if name in _OUT_OF_MEMORY:
        sentence = f"{who} was ended by {name}, as happens when memory runs out"
        return StepTooLargeError(sentence, hint="try a smaller batch", details=details)
    if _EXHAUSTED.search(output):
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
