"""What every worker process does first and last.

It gets a clean channel and a lower priority, and ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Callable

from checkmate.ipc.messages import Cancel, Hello, Message, MessageTable, NewestJob
from checkmate.ipc.protocol import ProtocolError

_PR_SET_PDEATHSIG = 1


class Channel:
    """Messages over the process's first stdout and stdin. Whatever libraries print goes to stderr instead."""

    def __init__(self, table: MessageTable) -> None:
        self._table = table
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send one message; from any thread."""
        data = self._table.encode(message)
        with self._lock:
            self._out.write(data)

    def listen(self, handle: Callable[[Message], None]) -> None:
        """Read messages in a thread, and hand each to ``handle``.

        The end of stdin ends the process (exit code 0), and so do bytes that cannot be read (exit code 1).
        """

        def read() -> None:
            reader = self._table.reader()
            try:
                while data := os.read(0, 2**16):
                    for message in reader.feed(data):
                        handle(message)
            except ProtocolError:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)

        threading.Thread(target=read, daemon=True, name="channel").start()


class Inbox:
    """Tasks in order of arrival, and the jobs that were cancelled meanwhile."""

    def __init__(self) -> None:
        self.tasks: queue.Queue[Message] = queue.Queue()
        self._cancelled: set[int] = set()
        self._newest = 0

    def put(self, message: Message) -> None:
        """Queue a task.

        A ``Cancel`` takes effect at once, and is not queued; a ``NewestJob`` cancels all older ones.
        """
        match message:
            case Cancel(job=job):
                self._cancelled.add(job)
                return
            case NewestJob(job=job):
                self._newest = max(self._newest, job)
        self.tasks.put(message)

    def cancelled(self, job: int, *, superseded: bool = True) -> bool:
        """Return whether ``job`` should stop. ``superseded``: a newer job stops it too."""
        return job in self._cancelled or (superseded and job < self._newest)


def end_with_parent() -> None:
    """End this process when its stdin ends, if that is a pipe.

    Whoever held the other end is gone then.

    From now on stdin is empty, for this process and its children: code that reads it must not wait for ever.
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


def begin(kind: str, table: MessageTable, *, nicer: int = 5) -> Channel:
    """Set this process up as a worker, and say hello.

    ``kind``: what it is, in words. ``nicer``: how much is added to the process's niceness.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nicer)
    channel = Channel(table)
    channel.send(Hello(kind, os.getpid()))
    return channel
