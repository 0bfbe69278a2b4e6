"""Start modules of this program as child processes, wait for them, and end them.

``python -m`` looks into the current folder first: a user's ``queue.py`` there would be imported. Nothing here
imports a library that may be broken.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

_ROOT = Path(__file__).resolve().parents[2]


class Process(Protocol):
    """A process that runs, as ``subprocess.Popen`` shows it."""

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self) -> int: ...


def module_command(name: str, *arguments: str) -> list[str]:
    """The command for a module; nothing is imported from the folder (``-P``), but in a checkout."""
    return [sys.executable, *_safe_path(), "-m", name, *arguments]


def _safe_path() -> list[str]:
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return ["-P"]
    return [] if here == _ROOT else ["-P"]


def start_child(
    command: Sequence[str],
    *,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that Ctrl-C does not reach, and that can tell by its stdin when this process ends.

    A terminal sends SIGINT to all processes of a command, but the caller decides when this one ends. A child
    inherits its parent thread's blocked signals, so Ctrl-C cannot kill it before its own code runs.

    ``environment``: all of its variables; None: those of this process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            env=None if environment is None else dict(environment),
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_child(child: subprocess.Popen[bytes]) -> int:
    child.kill()
    code = child.wait()
    if child.stdin is not None:
        with suppress(OSError):
            child.stdin.close()
    return code


def watch(process: Process, look: Callable[[float], None], poll_s: float = 0.1) -> int:
    """Wait for the end of a process, calling ``look`` with the seconds it runs; what that raises ends it."""
    started = time.monotonic()
    try:
        while process.poll() is None:
            look(time.monotonic() - started)
            time.sleep(poll_s)
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
    assert process.returncode is not None
    return process.returncode


def write_all(stream: IO[bytes], data: bytes) -> None:
    """Write to a pipe without a buffer, which takes a part at a time."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]
