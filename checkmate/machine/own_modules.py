"""Start modules of this program as processes.

``python -m`` looks into the current folder first. A user's ``queue.py`` there, or another copy of this
program, would be imported instead of what this process runs with.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this program.

    Nothing is imported from the current folder (``-P``), unless this program itself is there: a checkout that
    is not installed.
    """
    return [sys.executable, *_safe_path(), "-m", name, *arguments]


@contextmanager
def beyond_ctrl_c() -> Iterator[None]:
    """Start processes in this block that Ctrl-C does not reach.

    A terminal sends SIGINT to all processes of a command; whoever starts one of these ends it. A process
    inherits what is blocked in the thread that starts it, so Ctrl-C cannot come before its own code runs.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _safe_path() -> list[str]:
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return ["-P"]
    return [] if here == _ROOT else ["-P"]
