"""Run a measurement in a new process. Does not import TensorFlow itself.

The process can be cancelled, and its errors are raised here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checkmate import errors
from checkmate.errors import CancelledError, CheckmateError, StepTooLargeError, WorkerDiedError
from checkmate.machine.own_modules import module_command
from checkmate.progress import Cancelled, Progress, Report
from checkmate.tf.environment import measuring_environment

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
    """Let ``checkmate.tf.child`` do ``task`` in a new process.

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
        command = module_command("checkmate.tf.child", *files)
        relay = _ProgressRelay(progress_file, report)
        output, code = run_to_end(
            command, message=message, report=relay, cancelled=cancelled, environment=environment
        )
        try:
            answer = json.loads(answer_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # it ended before it wrote, or while it did
            raise error_without_answer("the measuring process", output, code) from None
    if "error" in answer:
        raise _as_same_type(answer["error"])
    found: dict[str, Any] = answer["ok"]
    return found


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
    """Run ``command`` to its end; return what it printed.

    The arguments are those of ``run_to_end``.
    """
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
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="checkmate-process-", ignore_cleanup_errors=True) as scratch,
        tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace") as output,
    ):
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,  # closes when this process ends, and the child ends with it
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_QUIET, **measuring_environment(), "TMPDIR": scratch, **environment},
        )
        try:
            while process.poll() is None:
                if cancelled():
                    raise CancelledError("cancelled while measuring")
                report(Progress("measure", time.monotonic() - started, None, message))
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            assert process.stdin is not None
            process.stdin.close()
        output.seek(0)
        return output.read(), process.returncode


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
    """Return the child's error as an error of the same type."""
    kind = getattr(errors, error["type"], CheckmateError)
    # A type with a constructor of its own becomes the nearest base class that takes a sentence.
    plain = next(base for base in kind.__mro__ if "__init__" not in vars(base) or base is CheckmateError)
    carried: CheckmateError = plain(error["message"], hint=error["hint"], details=error.get("details"))
    return carried
