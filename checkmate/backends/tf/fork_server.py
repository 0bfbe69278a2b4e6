"""Fork a process for each measurement, with TensorFlow imported already.

``python -m checkmate.backends.tf.fork_server`` imports what measurements need and waits.
Each line of its stdin asks for a process: its files (as ``backends.tf.child`` takes them), where its output
goes, its environment and its folder. Two lines of stdout tell of it: the process, and in the end its exit
code. TensorFlow's runtime, with allocators, threads and kernels, begins in the forked process only. So it is
as fresh there as in one that imports TensorFlow itself.

With ``--once`` nothing is forked: this process becomes the one that is asked for. That is for machines with a
GPU, whose driver does not bear a fork for certain.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from checkmate.backends.tf.child import Work, do, imported
from checkmate.ipc.child import end_with_parent

_IDLE_S = 300  # a solve or another measurement may come between two; a server holds about 250 MB meanwhile
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Serve until stdin ends, or nothing is asked for."""
    asked, told = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(empty, stream)
    work = _imported(asked)
    while (line := _line(asked)) is not None:
        if "--once" in sys.argv[1:]:
            _become(json.loads(line), work, asked, told)
        _serve(json.loads(line), work, asked, told)
    return 0


def _imported(asked: int) -> Work:
    """Import what measures; the process ends if stdin does meanwhile.

    No thread is left afterwards, as a fork would lose it.
    """
    done = os.eventfd(0)
    watching = threading.Thread(target=_end_without, args=(asked, done))
    watching.start()
    try:
        return imported()
    finally:
        os.eventfd_write(done, 1)
        watching.join()
        os.close(done)


def _end_without(asked: int, done: int) -> None:
    """End the process when ``asked`` is closed at its other end. Returns when ``done`` is written to."""
    poll = select.poll()
    poll.register(asked, 0)  # without events it tells only of the end
    poll.register(done, select.POLLIN)
    if any(file == asked for file, _ in poll.poll()):
        os._exit(0)


def _line(asked: int) -> bytes | None:
    """Return the next line; None: no other comes."""
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([asked], [], [], _IDLE_S)[0]:
            return None
        read = os.read(asked, 2**16)
        if not read:
            return None
        line += read
    return line


def _serve(request: Mapping[str, Any], work: Work, asked: int, told: int) -> None:
    """Fork a process, and tell how it ended; end it where nobody waits."""
    parent = os.getpid()
    process = os.fork()
    if process == 0:
        os.close(asked)
        os.close(told)
        _be(request, work, parent)
    _tell(told, {"process": process})
    ended = os.pidfd_open(process)
    try:
        ready = select.select([asked, ended], [], [])[0]
        if ended not in ready:  # one process is asked for at a time, so this is the end of stdin
            os.kill(process, signal.SIGKILL)
    finally:
        os.close(ended)
    _tell(told, {"code": os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])})


def _become(request: Mapping[str, Any], work: Work, asked: int, told: int) -> NoReturn:
    """Be the process that was asked for; it ends with the end of stdin."""
    _tell(told, {"process": os.getpid()})
    os.close(told)
    os.dup2(asked, 0)
    os.close(asked)
    end_with_parent()
    _be(request, work)


def _tell(told: int, fact: Mapping[str, int]) -> None:
    with suppress(BrokenPipeError):  # nobody is there any longer, as the next read finds
        os.write(told, json.dumps(fact).encode("utf-8") + b"\n")


def _be(request: Mapping[str, Any], work: Work, parent: int | None = None) -> NoReturn:
    """Be the process that was asked for, to its end.

    ``parent``: the process that forked this one; this one ends with it.
    """
    code = 1
    try:
        if parent is not None:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        output = os.open(request["output"], os.O_WRONLY | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        tempfile.tempdir = None
        _draw_anew()
        code = do(work, request["files"])
    except BaseException:  # as Python does for a process: nothing may go on in the server's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _draw_anew() -> None:
    """Have this process draw other random numbers than the next one. Python sees to its own generator."""
    import numpy as np

    np.random.seed()  # noqa: NPY002  # it is the one that user code draws from


if __name__ == "__main__":
    sys.exit(main())
