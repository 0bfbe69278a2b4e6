"""What every worker process does first and last: a clean channel, a modest priority, an end with its parent."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any

from checkmate.ipc.protocol import PROTOCOL, Decoder, Message, encode

_PR_SET_PDEATHSIG = 1


class Channel:
    """Messages over the process's original stdout and stdin; whatever libraries print goes to stderr instead."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one message; from any thread."""
        with self._lock:
            self._out.write(encode(header, body))

    def listen(self, handle: Callable[[Message], None]) -> None:
        """Read messages in a thread; the end of stdin ends the process."""

        def read() -> None:
            decoder = Decoder()
            while data := os.read(0, 2**16):
                for message in decoder.feed(data):
                    handle(message)
            os._exit(0)

        threading.Thread(target=read, daemon=True, name="channel").start()


class Inbox:
    """Tasks in order of arrival, and the jobs that were cancelled meanwhile."""

    def __init__(self) -> None:
        self.tasks: queue.Queue[Message] = queue.Queue()
        self._cancelled: set[int] = set()
        self._newest = 0

    def put(self, message: Message) -> None:
        """Queue a task; a cancel takes effect at once; a newer job of a superseding kind cancels the older."""
        if message.type == "cancel":
            self._cancelled.add(message.job)
            return
        if message.header.get("supersedes"):
            self._newest = max(self._newest, message.job)
        self.tasks.put(message)

    def cancelled(self, job: int, *, superseded: bool = True) -> bool:
        """Whether ``job`` should stop."""
        return job in self._cancelled or (superseded and job < self._newest)


def end_with_parent() -> None:
    """End this process when its stdin ends, if that is a pipe: whoever holds the other end is gone then.

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


def begin(kind: str, *, nicer: int = 5) -> Channel:
    """Set this process up as a worker, ``nicer`` than its parent, and say hello."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(nicer)
    channel = Channel()
    channel.send({"type": "hello", "kind": kind, "proto": PROTOCOL, "pid": os.getpid()})
    return channel
