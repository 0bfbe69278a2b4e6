"""A child process that answers messages, one after the other, until its parent is gone."""

from __future__ import annotations

import os
import queue
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NoReturn

from checkmate.errors import CancelledError, CheckmateError
from checkmate.processes.messages import (
    Cancel,
    Hello,
    Job,
    JobCancelled,
    JobFailed,
    JobProgress,
    Message,
    MessageError,
    MessageTable,
    NewestJob,
)
from checkmate.processes.own import die_with_parent, take_stdout
from checkmate.progress import Progress


class Channel:
    """Messages over the process's first stdout and stdin. What libraries print goes to stderr instead."""

    def __init__(self, table: MessageTable) -> None:
        self._table = table
        self._out = os.fdopen(take_stdout(), "wb", buffering=0)
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        data = self._table.encode(message)
        with self._lock:
            self._out.write(data)

    def listen(self, handle: Callable[[Message], None]) -> None:
        """Hand each message to ``handle``, in a thread. The end of stdin ends the process, and so does a
        wrong one.
        """
        threading.Thread(target=self._read, args=(handle,), daemon=True, name="channel").start()

    def _read(self, handle: Callable[[Message], None]) -> NoReturn:
        reader = self._table.reader()
        try:
            while data := os.read(0, 2**16):
                for message in reader.feed(data):
                    handle(message)
        except MessageError:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)


class Inbox(queue.SimpleQueue[Message]):
    """Messages in order of arrival, and the jobs that were cancelled meanwhile."""

    def __init__(self) -> None:
        self._cancelled: set[int] = set()
        self._newest = 0

    def receive(self, message: Message) -> None:
        """Queue a message; ``Cancel`` takes effect at once, and ``NewestJob`` cancels all older ones."""
        if isinstance(message, Cancel):
            self._cancelled.add(message.job)
            return
        if isinstance(message, NewestJob):
            self._newest = max(self._newest, message.job)
        self.put(message)

    def cancelled(self, job: int) -> bool:
        """Whether ``job`` was cancelled, or a newer one has taken its place."""
        return job in self._cancelled or job < self._newest


class Server(ABC):
    """``kind``: in words. ``nicer``: added to its niceness."""

    kind: ClassVar[str]
    table: ClassVar[MessageTable]
    nicer: ClassVar[int] = 5

    def __init__(self, channel: Channel, inbox: Inbox) -> None:
        self.channel, self.inbox = channel, inbox

    @abstractmethod
    def work(self, asked: Message) -> Message | None:
        """Do what is asked; return the answer. None: there is none, or the job was cancelled."""

    def fault(self, error: Exception) -> CheckmateError:
        """Return what to answer where ``work`` met a fault inside; or raise it, which ends the process."""
        raise error

    def hear(self, message: Message) -> None:
        """Take a message as it arrives, in another thread than ``work``."""
        self.inbox.receive(message)

    def next_message(self) -> Message:
        return self.inbox.get()

    def answer(self, asked: Message) -> None:
        job = asked.job if isinstance(asked, Job) else 0
        answer: Message | None
        try:
            answer = JobCancelled(job) if job and self.inbox.cancelled(job) else self.work(asked)
        except CancelledError:
            answer = JobCancelled(job)
        except CheckmateError as error:
            answer = JobFailed.of(job, error)
        except Exception as error:  # a fault inside, or in a library
            answer = JobFailed.of(job, self.fault(error))
        if answer is None and job:
            untold = JobFailed(job, "MessageError", "the process was not told what that is about", "")
            answer = JobCancelled(job) if self.inbox.cancelled(job) else untold
        if answer is not None:
            self.channel.send(answer)

    def report(self, job: int, progress: Progress) -> None:
        self.channel.send(JobProgress(job, progress))

    @classmethod
    def main(cls) -> NoReturn:
        die_with_parent()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(cls.nicer)
        channel = Channel(cls.table)
        channel.send(Hello(cls.kind, os.getpid()))
        server = cls(channel, Inbox())
        channel.listen(server.hear)
        while True:
            server.answer(server.next_message())
