"""What a child process does first; nothing here imports a library that may be broken."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import sys
import threading

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the system kill this process when the thread that started it ends; on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def take_stdout() -> int:
    """Return the file of this process's stdout. Whatever libraries print goes to stderr from now on."""
    own = os.dup(1)
    os.dup2(2, 1)
    return own


def end_with_parent() -> None:
    """End this process when its stdin ends, if that is a pipe: its parent is gone.

    From now on stdin is empty, for its children too: code that reads it must not wait for ever.
    """
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        return
    pipe, empty = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    threading.Thread(target=_end_with, args=(pipe,), daemon=True, name="parent").start()


def _end_with(pipe: int) -> None:
    while os.read(pipe, 2**10):
        pass
    os._exit(1)
